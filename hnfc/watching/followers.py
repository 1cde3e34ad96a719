"""Destinations of the numbers of each look: lines of JSON, and TensorBoard."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from hnfc.core.errors import UsageError
from hnfc.watching.history import ObservedStep, ObservedValue

_GROUPS = {"value": "values", "gradient": "gradients", "parameter": "parameters", "update": "updates", "moment": "moments"}


class JSONLines:
    """A file that gets one line of JSON for each look: the step, its loss and loss scale, and by name what each value was.

    Numbers that JSON lacks (NaN, infinities) are texts. The file is appended to.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    def __call__(self, step: ObservedStep) -> None:
        line = {
            "step": step.step, "loss": _number(step.loss), "scale": _number(step.scale),
            "values": {each.name: _as_data(each) for each in step.values},
        }  # fmt: skip
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, allow_nan=False) + "\n")


def exponent(size: float) -> float | None:
    """log2 of the size of a value's largest element; none of 0, of infinity and of NaN."""
    return round(math.log2(size), 2) if 0 < size < math.inf else None


def _as_data(each: ObservedValue) -> dict[str, Any]:
    shares = each.shares
    kept = {"not_finite": shares.not_finite, "zeros": shares.zeros, "subnormal": shares.subnormal, "saturated": shares.saturated}
    return {
        "kind": each.kind, "module": each.module, "format": each.format, "largest": _number(each.largest),
        "exponent": exponent(each.largest),
        **{name: round(share, 4) for name, share in kept.items() if share},
        "exponents": {str(power): count for power, count in sorted(shares.exponents.items())},
    }  # fmt: skip


def _number(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else str(value)


class TensorBoard:
    """Scalars (the loss, the loss scale, the largest exponent of each value, shares that are not 0) and histograms of exponents.

    to: a folder, or a SummaryWriter that there is.
    """

    def __init__(self, to: Any) -> None:
        self._writer = to if hasattr(to, "add_scalar") else _writer(str(to))

    def __call__(self, step: ObservedStep) -> None:
        for name, number in (("loss", step.loss), ("loss scale", step.scale)):
            if number is not None:
                self._writer.add_scalar(name, number, step.step)
        for each in step.values:
            tag = f"{_GROUPS[each.kind]}/{each.name}"
            size = exponent(each.largest)
            if size is not None:
                self._writer.add_scalar(f"{tag}/largest exponent", size, step.step)
            shares = each.shares
            for share in ("not_finite", "zeros", "subnormal", "saturated"):
                if getattr(shares, share):
                    self._writer.add_scalar(f"{tag}/{share.replace('_', ' ')}", getattr(shares, share), step.step)
            if shares.exponents:
                self._histogram(f"{tag}/exponents", shares.exponents, step.step)
        self._writer.flush()

    def _histogram(self, tag: str, counts: dict[int, int], step: int) -> None:
        low, high = min(counts), max(counts)
        bounds = range(low, high + 1)
        total = sum(counts.values())
        self._writer.add_histogram_raw(
            tag, min=low, max=high, num=total, sum=sum(power * count for power, count in counts.items()),
            sum_squares=sum(power**2 * count for power, count in counts.items()),
            bucket_limits=[power + 0.5 for power in bounds], bucket_counts=[counts.get(power, 0) for power in bounds], global_step=step,
        )  # fmt: skip


def _writer(folder: str) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise UsageError("TensorBoard's files are written by the package tensorboard: pip install tensorboard") from error
    return SummaryWriter(folder)
