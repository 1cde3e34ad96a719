"""`hnfc.analyze`: what `hnfc analyze` says of a file, of a PyTorch module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree
from xdsl.ir import SSAValue

from hnfc.analysis.calibrated import calibrate
from hnfc.analysis.certified import Per
from hnfc.analysis.findings import LEVELS, Finding, Findings, certified_findings, estimated_findings, probabilistic_findings
from hnfc.analysis.probabilistic import PROBABILITY
from hnfc.analysis.reading import read_function
from hnfc.analysis.spectral import Spectrum, contracted_arguments, spectra
from hnfc.core.arguments import check_kind, number_of
from hnfc.core.errors import UsageError
from hnfc.core.notebook import MOST_ROWS, NotebookTable, notebook_html
from hnfc.core.progress import Progress, reporting, tell
from hnfc.core.tensors import to_numpy
from hnfc.dialects.interval_arrays import IntervalArray
from hnfc.frontend.pytorch import capture
from hnfc.frontend.signature import Given, State
from hnfc.pytorch.optimized import arguments_of
from hnfc.report.analysis import growth_picture, rows_of
from hnfc.report.table import table


@dataclass(frozen=True, repr=False)
class Analysis:
    """`findings` in the order of the model. `str` is the table of the worst ones; notebooks show it as HTML."""

    found: Findings
    matrices: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict, repr=False)
    """The parameters that products of matrices and convolutions take."""

    def spectra(self) -> list[Spectrum]:
        """Spectral norms and condition numbers of the weight matrices, the worst conditioned first."""
        return spectra(self.matrices.items())

    @property
    def findings(self) -> list[Finding]:
        return self.found.findings

    @property
    def error(self) -> float:
        """Of the outputs: the largest of any element (certified), or of the root mean square a bound with a probability, or an estimate."""
        return self.found.error

    @property
    def certified(self) -> bool:
        return self.found.certified

    @property
    def level(self) -> str:
        """Kind of the numbers: certified, probabilistic or estimate."""
        return self.found.level

    def picture(self) -> str:
        """An SVG of the error after each operation."""
        return growth_picture(self.found)

    def table(self, top: int = 12) -> str:
        headings, rows = rows_of(self.found, top)
        return table(headings, rows, 1)

    def __str__(self) -> str:
        return f"{self.table()}\n{self.found.summary()}"

    def __repr__(self) -> str:
        return f"Analysis({self.level}: {len(self.findings)} values, error of the outputs {self.error:.3g})"

    def _repr_html_(self) -> str:
        headings, rows = rows_of(self.found, MOST_ROWS)
        first, *rest = self.found.summary().split("\n")
        tone = "plain" if np.isfinite(self.error) else "warn"
        return notebook_html(first, tone, NotebookTable(headings, rows, len(self.findings)), *rest)


@reporting("capturing the model …")
def analyze(
    model: torch.nn.Module, sample: Any, *more: Any, bound: str | None = None, certified: bool = False, width: float = 0.0,
    per: Per = "tensor", probability: float | None = None, progress: Progress | None = None,
) -> Analysis:  # fmt: skip
    """Loss of accuracy in a model, value by value: estimates from the samples, or bounds for each of them.

    bound: "estimate" (default), sensitivities by one backward pass on each sample; "probabilistic", a bound of the root mean square error
    of the outputs that holds with `probability` (0.99 if not given) if roundings are independent and unbiased; "certified" (also by
    certified=True), bounds that hold for all inputs within `width` of each element of the samples. Parameters are what they are. per:
    "element", or the number of an axis, for certified bounds of each element or of each place along the axis, which findings have as
    `errors`. progress: takes the stage at hand in words; without it notebooks show a bar.

    A sample is a tensor, a tuple of positional arguments, a mapping of keyword arguments, or the folder of a step that `hnfc.watch` saved;
    samples may have different shapes. Errors are absolute: that of the analysis, and of a finding that is no certified one, in the unit
    of the outputs; that of a certified finding in the unit of its value. Raises ModelError where the model cannot be captured on a
    sample, UsageError for options that do not fit each other or the model.

    Bounds with a probability are those of Higham and Mary, A new approach to probabilistic rounding error analysis (2019).
    """
    check_kind(model, torch.nn.Module, "hnfc.analyze")
    width = number_of(width, "width")
    level = bound or ("certified" if certified else "estimate")
    if level not in LEVELS or (certified and level != "certified"):
        raise UsageError(f"bound= takes {', '.join(LEVELS)}, and certified=True stands for the first; got {bound!r}")
    if per not in ("tensor", "element") and not isinstance(per, int):
        raise UsageError(f'bounds are per "tensor", "element", or an axis, not {per!r}')
    if per != "tensor" and level != "certified":
        raise UsageError(f'per= is for certified bounds; here the level is "{level}": add bound="certified"')
    if width and level != "certified":
        raise UsageError(f'width= is for certified bounds; here the level is "{level}": add bound="certified"')
    if probability is not None and (level != "probabilistic" or not 0 < number_of(probability, "probability") < 1):
        raise UsageError('probability= is a number between 0 and 1, for bound="probabilistic"')
    args, kwargs = arguments_of(sample)
    captured = capture(model, args, kwargs)
    imported, function = read_function(captured.module)
    block = function.body.block
    given = [captured.signature.gather(model, pytree.tree_leaves(arguments_of(one))) for one in (sample, *more)]
    states = zip(block.args, given[0], captured.signature.arguments, strict=True)
    held: dict[SSAValue, tuple[str, np.ndarray[Any, Any]]] = {v: (s.name, to_numpy(t)) for v, t, s in states if isinstance(s, State)}
    matrices = contracted_arguments(block, held)
    tell("bounding errors …" if level != "estimate" else "measuring sensitivities …")
    if level == "probabilistic":
        arrays: list[dict[SSAValue, np.ndarray[Any, Any]]] = [
            {value: to_numpy(tensor) for value, tensor in zip(block.args, tensors, strict=True)} for tensors in given
        ]
        return Analysis(probabilistic_findings(imported, block, arrays, probability or PROBABILITY), matrices)
    if level == "estimate":
        calibration = calibrate(imported, [[t.detach() for t in tensors] for tensors in given])
        return Analysis(estimated_findings(imported, block, calibration), matrices)
    boxes = []
    for tensors in given:
        box: dict[SSAValue, IntervalArray] = {}
        for value, tensor, source in zip(block.args, tensors, captured.signature.arguments, strict=True):
            array = to_numpy(tensor).astype(np.float64)[None]
            by = width if isinstance(source, Given) and tensor.is_floating_point() else 0.0
            box[value] = IntervalArray(array - by, array + by) if by else IntervalArray.of(array)
        boxes.append(box)
    return Analysis(certified_findings(imported, block, boxes, per), matrices)
