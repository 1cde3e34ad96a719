"""Error report of a rule's two sides, as data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from hnfc.dsl.error.search import Example
from hnfc.dsl.soundness.verdict import Tensor

NEVER_WORSE, NEVER_BETTER, DEPENDS, UNKNOWN = "never worse", "never better", "depends", "unknown"


@dataclass(frozen=True)
class SideError:
    """Formulas of one side, as texts.

    lipschitz: for each capture, the sum over all paths of the products of local Lipschitz constants, one for each operation: how much
        an error of the capture can grow on the way if nothing cancels (in the maximum norm where the capture is a tensor).
    rounding: the first-order bound of the rounding error over the unit roundoff u.
    """

    lipschitz: Mapping[str, str] = field(default_factory=dict)
    rounding: str = ""


@dataclass(frozen=True)
class ErrorReport:
    """The errors of both sides to first order, and which bound is the smaller one.

    sensitivity: |∂f/∂x| for each capture: the sides are one function, so it is the same for both.
    verdict: whether the right side's rounding bound exceeds the left one's: `never worse`, `never better`, `depends` or `unknown`.
    proved: the verdict is a theorem (for `depends`: inputs of both kinds are confirmed); else it is what was observed.
    better_where: a condition under which the right side is not worse, and whether that is proved.
    example: inputs at which the right side is worse, with the ratio of the bounds there.
    worst: the largest ratio right/left that was seen. at_most: a number that the ratio provably never exceeds (0: none is known).
    """

    left: SideError = SideError()
    right: SideError = SideError()
    sensitivity: Mapping[str, str] = field(default_factory=dict)
    verdict: str = UNKNOWN
    proved: bool = False
    better_where: str = ""
    example: Example | None = None
    worst: float = 1.0
    at_most: int = 0
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        # JSON has no infinity
        data["worst"] = _number(self.worst)
        if self.example is not None:
            data["example"]["ratio"] = _number(self.example.ratio)
        return data

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> ErrorReport:
        """Raises KeyError, TypeError or ValueError for anything but what `to_json` gives."""
        example = data["example"]
        return ErrorReport(
            left=_side(data["left"]),
            right=_side(data["right"]),
            sensitivity={str(k): str(v) for k, v in data["sensitivity"].items()},
            verdict=str(data["verdict"]),
            proved=bool(data["proved"]),
            better_where=str(data["better_where"]),
            example=None if example is None else Example(_inputs(example["inputs"]), float(example["ratio"])),
            worst=float(data["worst"]),
            at_most=int(data["at_most"]),
            notes=tuple(map(str, data["notes"])),
        )


def _number(x: float) -> float | str:
    return x if math.isfinite(x) else "inf"


def _side(data: Mapping[str, Any]) -> SideError:
    return SideError({str(k): str(v) for k, v in data["lipschitz"].items()}, str(data["rounding"]))


def _inputs(data: Any) -> tuple[tuple[str, Tensor], ...]:
    return tuple((str(name), Tensor(tuple(map(int, t["shape"])), tuple(map(str, t["values"])))) for name, t in data)
