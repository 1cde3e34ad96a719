"""Findings of an analysis, value by value: source location, range, error."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, SSAValue

from hnfc.analysis.certified import Bounds, Certified, Per, certified
from hnfc.analysis.curvature import Curvature
from hnfc.analysis.probabilistic import ASSUMPTION, PROBABILITY, probable_error
from hnfc.core.errors import ModelError
from hnfc.core.samples import declared, from_file, parse_range
from hnfc.dialects.interval_arrays import IntervalArray
from hnfc.dialects.num.base import NumOp
from hnfc.dialects.num.constant import ConstantOp, WeightOp
from hnfc.dialects.types import DYNAMIC, format_of
from hnfc.frontend.torch_mlir import Imported

if TYPE_CHECKING:
    from hnfc.analysis.calibrated import Calibration

_SOURCES = (ConstantOp, WeightOp)


@dataclass(frozen=True)
class Finding:
    """One operation's result. error: a bound of it (certified), or how far its own rounding moves the outputs (other levels).

    growth: by how many times the relative error of the result is larger than the largest one of its operands; otherwise, the
    part of the squared output error that it contributes.
    """

    value: SSAValue
    operation: str
    place: str
    low: float
    high: float
    error: float
    growth: float
    lipschitz: float | None = None
    rounding: float | None = None
    condition: float | None = None
    quantiles: tuple[float, ...] | None = None
    overflows: int = 0
    subnormals: int = 0
    nonfinite: int = 0
    nan: bool = False
    """Of a bound: whether an element may be NaN."""
    errors: np.ndarray[Any, Any] | None = None
    """The bound of each element, or of each place along one axis, where that was requested and the value has that axis."""

    def data(self) -> dict[str, Any]:
        found = {key: value for key, value in asdict_without_value(self).items() if value is not None}
        return found if self.errors is None else {**found, "errors": self.errors.tolist()}


def asdict_without_value(finding: Finding) -> dict[str, Any]:
    return {name: getattr(finding, name) for name in finding.__dataclass_fields__ if name != "value"}


LEVELS = ("certified", "probabilistic", "estimate")
"""Kinds of numbers: bounds that always hold, bounds with a probability under an assumption, and no bounds."""


@dataclass
class Findings:
    """All of them in the order of the program, and the outputs.

    error: of the outputs, the largest of any element (certified), or the root mean square. level: one of LEVELS. probability: that each
    sample's outputs are within the error, of a probabilistic bound; second: the part that second-order terms have in its square.
    """

    findings: list[Finding]
    outputs: list[Finding]
    level: str
    missing: dict[str, int]
    error: float
    scale: float
    curvature: Curvature | None = None
    """On the samples: how much the operations bend, by the formulas of the sources (see `curvature`)."""
    probability: float | None = None
    second: float | None = None

    @property
    def certified(self) -> bool:
        return self.level == "certified"

    def data(self) -> dict[str, Any]:
        return {
            "level": self.level, "certified": self.certified, "probability": self.probability,
            "assumption": ASSUMPTION if self.probability is not None else None,
            "error": self.error, "scale": self.scale, "without": self.missing,
            "curvature": None if self.curvature is None else self.curvature.total,
            "values": [finding.data() for finding in self.findings], "outputs": [finding.data() for finding in self.outputs],
        }  # fmt: skip

    def summary(self) -> str:
        """The last lines for the terminal: the outputs, and what the numbers mean."""
        lines = []
        if self.certified:
            for index, output in enumerate(self.outputs):
                where = f"in [{output.low:.6g}, {output.high:.6g}]" + " or NaN" * output.nan
                lines.append(f"output {index}: {where}, error at most {output.error:.3g}")
            lines.append("certified: no input in the ranges has a larger error, whatever the order of sums")
        elif self.probability is not None:
            most = f"at most {self.error:.3g} with probability {self.probability:.10g}"
            lines.append(f"outputs: root mean square {self.scale:.3g}, of the error {most}")
            lines.append(f"probabilistic: {ASSUMPTION}")
            lines.append(f"terms of second order were checked at rounded values: they change the square of the bound by {self.second:.1e}")
        else:
            lines.append(f"outputs: root mean square {self.scale:.3g}, error about {self.error:.3g}")
            lines.append("an estimate from the samples, not a bound")
        if self.curvature is not None and self.curvature.largest:
            operation, place, value = self.curvature.largest[0]
            lines.append(f"curvature {self.curvature.total:.3g}, of which {value:.3g} in {operation.removeprefix('num.')} at {place}")
        if self.missing:
            lines.append("no bound for: " + ", ".join(f"{why} ×{n}" if n > 1 else why for why, n in self.missing.items()))
        return "\n".join(lines)


def certified_findings(
    imported: Imported, block: Block, boxes: Sequence[Mapping[SSAValue, IntervalArray]], per: Per = "tensor"
) -> Findings:
    """Bounds on each of the boxes of inputs: the worst of them. per: what has a bound of its own besides the whole of each value."""
    results: list[Certified] = [certified(block, box, imported.weight, per) for box in boxes]
    bounds = {value: _worst([r.bounds[value] for r in results]) for value in results[0].bounds if all(value in r.bounds for r in results)}
    found = [_bounded(imported, op, bounds) for op in block.ops if isinstance(op, NumOp) and op.results and op.results[0] in bounds]
    missing = _missing(results[0].walls)
    by_value = {finding.value: finding for finding in found}
    outputs = [by_value[v] for v in (block.last_op.operands if block.last_op else ()) if v in by_value]
    worst = max((output.error for output in outputs), default=math.inf)
    return Findings([f for f in found if not isinstance(f.value.owner, _SOURCES)], outputs, "certified", missing, worst, 0.0)


def probabilistic_findings(
    imported: Imported, block: Block, samples: Sequence[Mapping[SSAValue, np.ndarray[Any, Any]]], probability: float = PROBABILITY
) -> Findings:
    """Bound that holds for each of the samples, and all of them together, with the probability; the operations of the worst one."""
    each = 1 - (1 - probability) / len(samples)
    bounds = [probable_error(block, sample, imported.weight, each) for sample in samples]
    worst = max(bounds, key=lambda b: b.errors[None])
    found = []
    for operation in block.ops:
        value = operation.results[0] if operation.results else None
        if isinstance(operation, _SOURCES) or value is None or value not in worst.values:
            continue
        part = worst.shares.get(operation, 0.0)
        low, high = (choose(b.values[value][end] for b in bounds) for end, choose in enumerate((min, max)))
        name = operation.name.removeprefix("num.")
        error = math.sqrt(part) * worst.errors[None] if part else 0.0
        found.append(Finding(value, name, imported.location(operation), low, high, error, part))
    second = max(b.second for b in bounds)
    return Findings(
        found, [], "probabilistic", _missing(worst.missing), worst.errors[None], max(b.scale for b in bounds), probability=probability,
        second=second,
    )  # fmt: skip


def _missing(walls: Mapping[SSAValue, str]) -> dict[str, int]:
    """Reasons why values have no bound, and how often each occurs."""
    missing: dict[str, int] = {}
    for value, why in walls.items():
        if format_of(value.type) is not None:
            missing[why] = missing.get(why, 0) + 1
    return missing


def boxes_of(block: Block, ranges: Sequence[str], samples: str | None) -> list[dict[SSAValue, IntervalArray]]:
    """The declared ranges as one box, or each of the samples in a file as one. Raises ModelError."""
    if samples:
        return [{value: IntervalArray.of(np.asarray(array).astype(np.float64)[None]) for value, array in sample.items()}
                for sample in from_file(samples, block)]  # fmt: skip
    intervals = declared(block, [parse_range(text) for text in ranges])
    boxes = {}
    for argument, interval in intervals.items():
        assert isinstance(argument.type, TensorType)
        shape = argument.type.get_shape()
        if DYNAMIC in shape:
            raise ModelError("an input has a size that is not known; give samples instead: --calibrate F.npz")
        boxes[argument] = IntervalArray(np.full((1, *shape), interval.lo), np.full((1, *shape), interval.hi))
    if not boxes:
        raise ModelError("bounds need ranges of the inputs (--range arg0=-1:1) or samples (--calibrate F.npz)")
    return [boxes]


def _worst(bounds: Sequence[Bounds]) -> Bounds:
    """Text for all of them."""
    if len(bounds) == 1:
        return bounds[0]
    errors = None if bounds[0].errors is None else np.max([b.errors for b in bounds if b.errors is not None], axis=0)
    rows = [asdict(replace(b, errors=None)) for b in bounds]
    worst = {key: (min if key == "low" else max)(row[key] for row in rows) for key in rows[0] if key != "errors"}
    return Bounds(**worst, errors=errors)


def _bounded(imported: Imported, operation: Operation, bounds: dict[SSAValue, Bounds]) -> Finding:
    value = operation.results[0]
    own = bounds[value]
    before = max((bounds[o].relative for o in operation.operands if o in bounds), default=0.0)
    form = format_of(value.type)
    least = form.unit_roundoff if form else 2.0**-53
    growth = own.relative / max(before, least) if math.isfinite(own.relative) else (math.inf if math.isfinite(before) else 1.0)
    return Finding(
        value, operation.name.removeprefix("num."), imported.location(operation), own.low, own.high, own.error, growth, own.lipschitz,
        own.rounding, own.condition, nan=own.nan, errors=own.errors,
    )  # fmt: skip


def estimated_findings(imported: Imported, block: Block, calibration: Calibration) -> Findings:
    """The operations by how far their roundings move the outputs."""
    total = calibration.error()
    found = []
    for operation in block.ops:
        for value in operation.results:
            seen, form = calibration.values.get(value), format_of(value.type)
            if seen is None or form is None or isinstance(operation, _SOURCES):
                continue
            error = calibration.contribution(value, form.unit_roundoff)
            part = (error / total) ** 2 if total else 0.0
            normal = max(form.flushed, form.smallest_normal)
            found.append(Finding(
                value, operation.name.removeprefix("num."), imported.location(operation), seen.low, seen.high, error, part,
                quantiles=seen.quantiles, overflows=seen.beyond(form.largest), subnormals=seen.below(normal), nonfinite=seen.nonfinite,
            ))  # fmt: skip
    return Findings(found, [], "estimate", {}, total, calibration.rms)
