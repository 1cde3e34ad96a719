"""Result of `PrecisionOptimizer` for a PyTorch model, and the model in its formats."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from hnfc.core.errors import ModelError
from hnfc.core.notebook import NotebookTable, notebook_html
from hnfc.deployment.compressed import write_compressed
from hnfc.deployment.gguf import write_gguf
from hnfc.deployment.onnx import write_onnx
from hnfc.deployment.torchao import torchao_config
from hnfc.formats.scaled import ceiling, split
from hnfc.pipeline.rulesets import load_rules
from hnfc.precision.amp import AmpConfig, amp_config
from hnfc.precision.assignment import Assignment, Infeasible, Requirements, assign
from hnfc.precision.cast_insertion import Casts, casts_of, is_plain_dtype
from hnfc.precision.outcomes import INTEGER_WEIGHTS, as_given, beside_tokens, cochain_of, errors_of, rows_of, table_of
from hnfc.precision.picture import picture
from hnfc.precision.policy import SemanticDType
from hnfc.precision.rewriting import PreparedLinear
from hnfc.precision.running import PRODUCTS, Measured, RunRecord, record, stored_size
from hnfc.precision.solving import tree_widened
from hnfc.precision.storing import in_formats
from hnfc.precision.targets import OutputError
from hnfc.precision.values import PrecisionSites
from hnfc.precision.verification import WIDE
from hnfc.pytorch.optimized import Programs, arguments_of, wrapped
from hnfc.pytorch.program import CapturedProgram
from hnfc.pytorch.settings import Settings

_SHORT = {"fp64": "f64", "fp32": "f32", "fp16": "f16"}


@dataclass(repr=False)
class PrecisionAnalysis:
    """The outcome on one model. `outcome` is an Assignment, or the Refusal that says why there is none."""

    model: torch.nn.Module
    sample: Any
    sites: PrecisionSites
    requirements: Requirements
    outcome: Assignment | Infeasible
    dtypes: dict[int, torch.dtype]
    group: str
    wide: torch.dtype
    """Precision of the reference run."""
    widened: bool
    """True if that is a copy, since it was in a narrower type."""
    calibration: tuple[Any, ...] = field(default=(), repr=False)
    """All samples, for formats that compensate errors."""
    _record: RunRecord | None = field(default=None, init=False, repr=False)

    @property
    def h0_dim(self) -> int:
        """The rank of H⁰ of the uniform sheaf (no cast anywhere), ℤ on its global sections: how many formats do for the whole model.

        0 says that uniform precision does not meet the requirements; `outcome` says whether mixed precision does.
        """
        return sum(1 for form in self.requirements.formats if self._uniform(form))

    def _uniform(self, form: str) -> bool:
        found = assign(self.sites, replace(self.requirements, formats=(form,), uncast=()))
        # saturation is no cast
        return isinstance(found, Assignment) and {f if ceiling(f) is None else split(f)[0] for f in found.formats.values()} == {form}

    @property
    def h1_cocycle(self) -> dict[tuple[str, str], int]:
        """The bits by which formats differ along edges, without zeros: empty where one format does for the whole model.

        With an assignment p it is d⁰p, the casts that mixed precision makes: a coboundary, of class 0. Without one it is ω on the cycle
        that refutes the requirements, whose sum is its class on that cycle; or, where no cycle does, from each site that is short of
        bits to the target ("outputs") how many it lacks: it says where, and no class of it proves anything. `outcome.certificate` says
        which it is.
        """
        if isinstance(self.outcome, Assignment) and self.h0_dim:
            return {}
        return cochain_of(self.sites, self.outcome)

    def get_precision_assignment(self) -> dict[str, str]:
        """The format of every site by its name. Raises ModelError, with the reasons, where there is none."""
        return dict(self._found().formats)

    def _found(self) -> Assignment:
        if isinstance(self.outcome, Infeasible):
            raise ModelError("no assignment of formats meets the target:\n  " + "\n  ".join(self.outcome.reasons))
        return self.outcome

    @property
    def outputs(self) -> tuple[OutputError, ...]:
        """Allowed, estimated, measured and proved error of each output, in the terms of the targets; empty with one target for all."""
        return errors_of(self.sites, self.requirements, self._found())

    @property
    def error(self) -> float:
        """The estimated error of all outputs together, relative to their root mean square unless `relative` is off."""
        return as_given(self._found().error, self.sites, self.requirements)

    @property
    def measured(self) -> Measured:
        """The largest error of all outputs together on a sample, in the same terms, when the model runs in these formats. Its `run` is
        the record of a call of `apply()` on the first sample: types, bytes, memory and time."""
        found = self._found().measured
        return Measured(math.nan if found is None else as_given(found, self.sites, self.requirements), self._recorded)

    def _recorded(self) -> RunRecord:
        if self._record is None:
            args, kwargs = arguments_of(self.sample)
            self._record = record(self.apply(), args, kwargs)
        return self._record

    def report(self) -> str:
        """Sites in a table, errors, and what was counted beside what a run of the model measures; of a refusal its reasons."""
        if isinstance(self.outcome, Infeasible):
            return str(self)
        run, kind = self.measured.run, "relative" if self.requirements.relative else "absolute"
        types = ", ".join(f"{count} in {dtype}" for dtype, count in run.types_of(*PRODUCTS).items()) or "none"
        return "\n".join((
            str(self),
            f"bytes read and written: {self.outcome.moved:,.0f} counted, {run.moved:,} measured, of which casts wrote {run.cast:,}",
            f"bytes of parameters and buffers: {run.parameters:,}, of {stored_size(self.model):,} as the model has them",
            f"most bytes of results live at once: {run.peak:,}",
            f"products and convolutions: {types}; {kind} error {self.measured:.2g}, {run.seconds * 1e3:.3g} ms",
        ))  # fmt: skip

    def __str__(self) -> str:
        """The sites in a table, and the error; of a refusal its reasons."""
        if isinstance(self.outcome, Infeasible):
            return table_of(self.sites, self.outcome)
        kind = "relative" if self.requirements.relative else "absolute"
        errors = f"{kind} error {self.error:.2g} estimated, {self.measured:.2g} measured on the samples"
        probability = f" with probability {self.outcome.probability:.10g}" if self.outcome.probability is not None else ""
        bounds = (("certified", self.proved), ("probabilistic", self.probable))
        bound = "".join(f"; {level}: at most {error:.2g}{probability}" for level, error in bounds if error is not None)
        by_rule = Counter(module.rule for module in self.model.modules() if isinstance(module, PreparedLinear))
        rules = ", ".join(f"{rule} {count}×" for rule, count in by_rule.items())
        changed = f"{by_rule.total()} linear layers take scaled or rotated inputs, which their weights undo"
        rewritten = f"{changed}, by proved rules: {rules}" if rules else ""
        return "\n".join(filter(None, (table_of(self.sites, self.outcome), errors + bound, rewritten, self.outcome.not_counted)))

    @property
    def integer_products(self) -> int:
        """Elements of weights in int8 that are only multiplied with values in int8 by token."""
        if isinstance(self.outcome, Infeasible):
            return -1
        found = self.outcome.formats
        # a matrix of a rotation is no weight
        weights = beside_tokens(self.sites, found) & dict(self.model.named_parameters()).keys()
        return sum(site.elements for site in self.sites.sites if site.name in weights and found[site.name] in INTEGER_WEIGHTS)

    def __repr__(self) -> str:
        kinds = Counter(self.outcome.formats.values()) if isinstance(self.outcome, Assignment) else {"no format": len(self.sites.sites)}
        found = ", ".join(f"{count} sites in {form}" for form, count in kinds.items())
        return f"{type(self).__name__}({type(self.model).__name__}: {found})"

    def _repr_html_(self) -> str:
        if isinstance(self.outcome, Infeasible):
            changes = [[change.change, change.cost] for change in self.outcome.relaxations]
            helps = [NotebookTable(("any one of these resolves it", "cost"), changes)] if changes else []
            parts: list[str | NotebookTable] = [*self.outcome.reasons, self.outcome.certificate, *helps]
            return notebook_html("no assignment of formats meets the target", "bad", *parts)
        rows = sorted(rows_of(self.sites, self.outcome), key=lambda row: -row[-1])
        table = NotebookTable(("site", "role", "format", "range", "part of the error"), [[*words, f"{part:.1%}"] for *words, part in rows])
        kinds = Counter(self.outcome.formats.values())
        headline = ", ".join(f"{count} sites in {form}" for form, count in kinds.most_common())
        return notebook_html(headline, "good", str(self).rpartition("\n")[2], table)

    @property
    def infinite(self) -> int:
        """Elements of the outputs that are infinite on the samples in the model as it is: no error counts them."""
        return self._found().infinite

    @property
    def proved(self) -> float | None:
        """Proved bound of the error of all outputs together, in the same terms; None where no proof was requested."""
        return self._bounded() if self._found().probability is None else None

    @property
    def probable(self) -> float | None:
        """Bound of the error of all outputs together that holds with `outcome.probability`, if roundings are independent and unbiased."""
        return None if self._found().probability is None else self._bounded()

    def _bounded(self) -> float | None:
        found = self._found().certified
        return None if found is None else as_given(found, self.sites, self.requirements)

    def casts(self) -> Casts:
        """Inputs of the model's graph."""
        return self._casts_in(self._program(Settings(load_rules(self.group))))

    def _casts_in(self, program: CapturedProgram) -> Casts:
        return casts_of(self._found(), self.sites, program.graph, self.dtypes, self.wide)

    def _program(self, settings: Settings) -> CapturedProgram:
        args, kwargs = arguments_of(self.sample)
        return CapturedProgram.of(self.model, args, kwargs, settings)

    def apply(self, train: bool = False) -> torch.nn.Module:
        """The model in mixed precision: a module of the same class with its parameters and buffers in their formats, results in their own
        types. train: they stay as they are, the same objects as the model's, for an optimizer to change, and the graph casts them."""
        settings = Settings(load_rules(self.group))
        program = self._program(settings)
        casts = self._casts_in(program)
        if not train:
            return self._taking_narrow(in_formats(self.model, program, casts, settings, self.calibration or (self.sample,)))
        settings = replace(settings, edit=casts)
        programs = Programs(settings)
        programs.add(replace(program, graph=casts(program.graph), settings=settings))
        return self._taking_narrow(wrapped(self.model, programs))

    def _taking_narrow(self, module: torch.nn.Module) -> torch.nn.Module:
        """The copy of a narrow model is called with what the model was called with."""
        if self.widened:
            # the model's own are in the same objects
            for hooks in ("_forward_pre_hooks", "_forward_pre_hooks_with_kwargs"):
                module.__dict__[hooks] = copy.copy(module.__dict__[hooks])
            module.register_forward_pre_hook(partial(_widened, self.wide), with_kwargs=True)
        return module

    def to_amp_config(self, device: str = "cpu") -> AmpConfig:
        """Modules inside and outside of torch.autocast. This is coarser than the assignment: a module is narrow or it is not."""
        return amp_config(self.sites, self._found().formats, device)

    def to_torchao(self) -> Any:
        """A configuration for `torchao.quantization.quantize_(model, config, filter_fn=None)`: scales are found again, by torchao. Raises
        UsageError for a format of weights that it lacks; types that torch has are no part of it."""
        found = self._found().formats
        own = dict(self.model.named_parameters())
        weights = {name: form for name, form in found.items() if name in own and not is_plain_dtype(form)}
        return torchao_config(self.model, weights, beside_tokens(self.sites, found))

    def to_gguf(self, path: str | Path, architecture: str = "hnfc") -> dict[str, str]:
        """Writes the weights as a GGUF file, under their own names; the types that they have in it. Q8_0 and Q4_0 are blocks, and
        other formats that GGUF lacks the float32 numbers that they hold. Raises UsageError without the package gguf."""
        return write_gguf(path, self.apply().state_dict(), architecture)

    def to_compressed_tensors(self, folder: str | Path) -> dict[str, Any]:
        """Writes `model.safetensors` and `config.json` as vLLM reads them, and returns the `quantization_config`: integers of linear layers
        are packed, and all other weights the numbers that they hold. Raises UsageError without the package compressed-tensors."""
        return write_compressed(folder, self.model, self.apply().state_dict())

    def to_onnx(self, path: str | Path) -> dict[str, str]:
        """Writes the model as ONNX, and returns the types of its weights there: integers of 4 and 8 bits with DequantizeLinear, others as
        the float32 numbers that they hold. Values are computed in float32, whatever their formats. Raises ModelError where torch cannot
        export the model, and UsageError without the packages onnx and onnxscript."""
        args, kwargs = arguments_of(self.sample)
        return write_onnx(path, self.model, args, kwargs, self.apply().state_dict())

    def policy_string(self) -> str:
        """The policy of the most frequent formats: `p=f32,c=bf16,o=f32`."""
        found = self._found().formats
        parts = []
        for key, role in (("p", SemanticDType.PARAM), ("c", SemanticDType.COMPUTE), ("o", SemanticDType.OUTPUT)):
            weights: Counter[str] = Counter()
            for site in self.sites.sites:
                if site.role is role:
                    weights[split(found[site.name])[0]] += site.elements
            form = weights.most_common(1)[0][0] if weights else WIDE
            parts.append(f"{key}={_SHORT.get(form, form)}")
        return ",".join(parts)

    def rows(self) -> Iterator[tuple[str, str, str, str, float]]:
        """Name, role, format, range and share of the squared error of every site."""
        return rows_of(self.sites, self._found())

    def visualize_obstruction(self, path: str | Path | None = None) -> str:
        """An SVG of the sites that are wider than others, or that the refusal is about, and what feeds them; written to `path` too."""
        svg = picture(self.sites, self.outcome, self.h1_cocycle)
        if path is not None:
            Path(path).write_text(svg, encoding="utf-8")
        return svg


def _widened(wide: torch.dtype, module: torch.nn.Module, args: Any, kwargs: Any) -> Any:
    return tree_widened((args, kwargs), wide)
