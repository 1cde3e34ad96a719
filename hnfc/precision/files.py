"""Formats for a model in a file."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import fx
from torch_mlir import ir

from hnfc.analysis.calibrated import Calibration
from hnfc.analysis.outputs import Outputs
from hnfc.analysis.reading import read_function
from hnfc.backend.fx import raise_function
from hnfc.backend.torch_mlir import emit_torch
from hnfc.core.samples import from_file
from hnfc.core.tensors import to_torch
from hnfc.dialects.num.base import as_tensor
from hnfc.dialects.types import ELEMENT_NAMES
from hnfc.frontend.models import read_model
from hnfc.precision.assignment import Assignment, Infeasible, Requirements
from hnfc.precision.cast_insertion import as_module, casts_of, without_narrow_casts
from hnfc.precision.outcomes import as_given, errors_of
from hnfc.precision.requirements import checked_width
from hnfc.precision.solving import ReferenceGraph, reference_for, solved, widened
from hnfc.precision.targets import OutputError, by_output
from hnfc.precision.values import PrecisionSites

_TYPES = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


@dataclass
class FileAnalysis:
    """The outcome for the function of a module."""

    module: ir.Module
    function: str
    sample: list[torch.Tensor]
    sites: PrecisionSites
    requirements: Requirements
    outcome: Assignment | Infeasible
    calibration: Calibration
    wide: torch.dtype | None
    """Precision of the reference; None for the types of the file."""

    @property
    def refused(self) -> bool:
        return isinstance(self.outcome, Infeasible)

    @property
    def error(self) -> float:
        """Estimated error of the outputs, in the terms of the target."""
        assert isinstance(self.outcome, Assignment)
        return as_given(self.outcome.error, self.sites, self.requirements)

    @property
    def measured(self) -> float:
        """Measured error on the samples."""
        assert isinstance(self.outcome, Assignment) and self.outcome.measured is not None
        return as_given(self.outcome.measured, self.sites, self.requirements)

    @property
    def proved(self) -> float | None:
        """Proved error bound, where a proof was requested."""
        assert isinstance(self.outcome, Assignment)
        return None if self.outcome.certified is None else as_given(self.outcome.certified, self.sites, self.requirements)

    @property
    def outputs(self) -> tuple[OutputError, ...]:
        """Of each output by itself, where targets are for single ones."""
        assert isinstance(self.outcome, Assignment)
        return errors_of(self.sites, self.requirements, self.outcome)

    @property
    def original_size(self) -> float:
        """Bytes of all sites as the model has them."""
        types = _own_types(self.calibration)
        return math.fsum(site.elements * types.get(site.nodes[0], torch.float32).itemsize for site in self.sites.sites)

    def data(self) -> dict[str, Any]:
        """For JSON, which has no infinite numbers and no NaN: None stands for them."""
        found: dict[str, Any] = _finite(self._data())
        return found

    def _data(self) -> dict[str, Any]:
        if isinstance(self.outcome, Infeasible):
            changes = [{"change": r.change, "cost": r.cost} for r in self.outcome.relaxations]
            needed = {name: {"needs": needs, "has": has} for name, (needs, has) in self.outcome.needed.items()}
            cycle = self.outcome.obstruction
            around = [{"from": u, "to": v, "bits": bits} for u, v, bits in self.outcome.cycle]
            short = {} if cycle is None else {"measure": cycle.measure, "short": cycle.short}
            why = {"reasons": list(self.outcome.reasons), "cycle": around, **short, "certificate": self.outcome.certificate}
            return {"found": False, **why, "needed": needed, "relaxations": changes}
        sites = [
            {"name": s.name, "place": s.place, "role": s.role.value, "format": self.outcome.formats[s.name], "low": s.low, "high": s.high,
             "elements": s.elements, "moves_outputs_by": s.moved[self.outcome.formats[s.name]]}
            for s in self.sites.sites
        ]  # fmt: skip
        errors: dict[str, Any] = {"error": self.error, "measured": self.measured, "proved": self.proved, "infinite": self.outcome.infinite}
        if self.outputs:
            errors["outputs"] = [asdict(o) for o in self.outputs]
        return {
            "found": True,
            **errors,
            "bytes": self.outcome.size,
            "peak_bytes": self.outcome.peak,
            "moved_bytes": self.outcome.moved,
            "seconds": self.outcome.seconds,
            "least": self.requirements.least,
            "bound": self.outcome.bound,
            "original_bytes": self.original_size,
            "sites": sites,
        }

    def emit(self) -> bytes:
        """The model with its casts."""
        assert isinstance(self.outcome, Assignment)
        graph = raise_function(self.module, self.function)
        if self.wide is None:
            casts = casts_of(self.outcome, self.sites, graph, self.calibration.dtypes, None)
            return emit_torch(as_module(casts(graph), self.sample)).encode()
        # the weights that are written, the arguments and the results have the types of the file; what names a type itself has the wide one
        own = _own_types(self.calibration)
        without_narrow_casts(graph, self.wide)
        nodes = list(graph.graph.nodes)
        named = {
            place: self.wide for place, node in enumerate(nodes) if any(part is self.wide for part in (*node.args, *node.kwargs.values()))
        }
        results = tuple(own.get(nodes.index(node)) if isinstance(node, fx.Node) else None for node in nodes[-1].args[0])
        casts = casts_of(self.outcome, self.sites, graph, {**self.calibration.dtypes, **own, **named}, self.wide)
        return emit_torch(as_module(replace(casts, results=results)(graph), self.sample)).encode()


def _finite(data: Any) -> Any:
    """The same with None for each number that is not finite."""
    if isinstance(data, dict):
        return {key: _finite(each) for key, each in data.items()}
    if isinstance(data, list):
        return [_finite(each) for each in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def _own_types(calibration: Calibration) -> dict[int, torch.dtype]:
    """The types that values of floating-point numbers have in the file, by the places of their nodes."""
    names = {place: ELEMENT_NAMES.get(as_tensor(value.type).element_type, "") for value, place in calibration.nodes.items()}
    return {place: _TYPES[name] for place, name in names.items() if name in _TYPES}


def analyze_file(path: str, samples: str, requirements: Requirements, width: float | None = None) -> FileAnalysis:
    """width: the error is proved to be within the target too, for all inputs within it of the samples. Raises ModelError for a file that
    cannot be read or has several functions, and where samples do not fit. Where fp64 is among the formats, the reference is the function
    with its weights and its samples in float64."""
    if width is not None:
        checked_width(width, True)
        # what is proved is the error of the graph beside its own formulas, in which what saturates is what it saturates to
        requirements = replace(requirements, saturation=False)
    imported, function = read_function(read_model(path))
    block, name = function.body.block, function.sym_name.data
    given = [[to_torch(np.asarray(sample[a])) for a in block.args] for sample in from_file(samples, block)]
    # a file keeps what it casts itself, unless it is compared with itself in float64
    wide = torch.float64 if reference_for(requirements) == torch.float64 else None
    results = block.last_op.operands if block.last_op is not None else ()
    sites, outcome, calibration = solved(
        imported,
        block,
        ReferenceGraph.of(imported.torch, name, wide, weights=True),
        [[widened(tensor, wide) for tensor in tensors] for tensors in given],
        requirements,
        outputs=Outputs(tuple(range(len(results))) if by_output(requirements.target) else ()),
        inputs=range(len(block.args)),
        width=width,
    )
    return FileAnalysis(imported.torch, name, given[0], sites, requirements, outcome, calibration, wide)
