"""The answer to "what does this rule change in IEEE arithmetic?", as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from hnfc.dsl.ieee.formats import BINARY, number
from hnfc.dsl.soundness.verdict import Tensor as RealTensor

FORMATS_JUDGED = ("f64", "f32", "f16", "bf16", "f8E4M3FN", "f8E5M2")
ASSUMPTIONS = frozenset(("no-nans", "no-infs", "no-signed-zeros"))
DEFAULT_SECONDS = 10.0

EDGE = 0.5
"""A loss of a number beyond this part of the largest is one at the edge of overflow."""


class IeeeStatus(StrEnum):
    EXACT = "exact"
    EXACT_UNLESS = "exact unless"
    ROUNDS = "rounds differently"
    SAFER = "safer"
    MAY_LOSE = "may lose"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class IeeeTensor(RealTensor):
    """Numbers of an element type in row-major order: `-0`, `inf`, `nan`, or a decimal that stands for the nearest number of the type."""

    element: str = "f64"

    def to_numpy(self) -> Any:
        """Exactly the numbers that are meant, in float64; truth values and integers as such."""
        if self.element == "i1":
            return np.array([v == "true" for v in self.values], np.bool_).reshape(self.shape)
        if self.element not in BINARY:
            return np.array([int(v) for v in self.values], np.int64).reshape(self.shape)
        return np.array([number(v, BINARY[self.element]) for v in self.values], np.float64).reshape(self.shape)


@dataclass(frozen=True)
class IeeeExample:
    """Inputs that meet `where`, and what the sides are at one index.

    element: the element type of the sides. irrelevant: inputs whose value does not matter for the difference.
    """

    inputs: tuple[tuple[str, IeeeTensor], ...]
    axes: tuple[tuple[str, tuple[int, ...]], ...]
    index: tuple[int, ...]
    left: str
    right: str
    element: str
    irrelevant: tuple[str, ...] = ()

    def __str__(self) -> str:
        given = ", ".join(f"{name} = {value}" for name, value in self.inputs)
        verb = "does" if len(self.irrelevant) == 1 else "do"
        aside = f" ({' and '.join(self.irrelevant)} {verb} not matter)" if self.irrelevant else ""
        return f"{given}: {self.left} and {self.right}{aside}"

    @property
    def is_finite(self) -> bool:
        """Return whether all inputs are."""
        return not any(value in ("inf", "-inf", "nan") for _, tensor in self.inputs for value in tensor.values)

    def to_json(self) -> dict[str, Any]:
        return {
            "inputs": [[name, {"element": t.element, "shape": list(t.shape), "values": list(t.values)}] for name, t in self.inputs],
            "axes": [[name, list(places)] for name, places in self.axes],
            "index": list(self.index),
            "left": self.left,
            "right": self.right,
            "element": self.element,
            "irrelevant": list(self.irrelevant),
        }

    @staticmethod
    def from_json(data: Any) -> IeeeExample:
        return IeeeExample(
            inputs=tuple(
                (str(name), IeeeTensor(tuple(map(int, t["shape"])), tuple(map(str, t["values"])), str(t["element"])))
                for name, t in data["inputs"]
            ),
            axes=tuple((str(name), tuple(map(int, places))) for name, places in data["axes"]),
            index=tuple(map(int, data["index"])),
            left=str(data["left"]),
            right=str(data["right"]),
            element=str(data["element"]),
            irrelevant=tuple(map(str, data["irrelevant"])),
        )


@dataclass(frozen=True)
class IeeeVerdict:
    """Effect of a rule in one format.

    status: SAFER where no input was found that goes from right to wrong, and some go from wrong to right. MAY_LOSE where a finite result
        becomes another, a NaN that an input brings is swallowed, an infinity becomes NaN, or a NaN becomes a number where the left side
        has no value; the examples show which.
    exceptions: the inputs or results apart from which the sides are bit-identical (`signed zeros`, `NaNs`, `infinities`); empty where
        they differ elsewhere too. SAFER and MAY_LOSE name them as well.
    method: how it is known; for UNKNOWN, why it is not.
    proved: whether all inputs were tried, or Z3 proved what the status claims of all inputs.
    examples: by kind: loses, swallows NaN, inf to NaN, loses digits, NaN to number, gains, value, signed zero, nan, inf.
    ulps: the largest difference seen between finite results, in numbers of the format that lie between them.
    edge: of the losses seen (without one, of the gains), the least part that the finite side is of the largest number of the format:
        from 1/2 on, they are all roundings at the edge of overflow.
    differing: the part of the inputs, uniform over bit patterns, on which the sides differ; None where no such inputs were tried.
    """

    format: str
    status: IeeeStatus
    method: str
    exceptions: tuple[str, ...] = ()
    proved: bool = False
    examples: Mapping[str, IeeeExample] = field(default_factory=dict)
    ulps: float | None = None
    differing: float | None = None
    edge: float | None = None
    seconds: float = 0.0

    @property
    def named(self) -> str:
        """The status, with what becomes of NaN and infinities where that is wrong."""
        wrong = [what for what in ("swallows NaN", "inf to NaN", "loses digits", "NaN to number") if what in self.examples]
        return f"{self.status.value} ({', '.join(wrong)})" if wrong else self.status.value

    def __str__(self) -> str:
        what = f"{self.status.value} {', '.join(self.exceptions)}" if self.status is IeeeStatus.EXACT_UNLESS else self.named
        if self.status is not IeeeStatus.EXACT_UNLESS and self.exceptions:
            what += f" (exact unless {', '.join(self.exceptions)})"
        if self.edge is not None:
            telling = self.examples["loses" if "loses" in self.examples else "gains"]
            what += (
                " only where an input is not finite" if not telling.is_finite else " at the edge of overflow" if self.edge >= EDGE else ""
            )
        if self.status is IeeeStatus.UNKNOWN or not (self.proved or self.status is IeeeStatus.MAY_LOSE):
            what += f" ({self.method})"
        shown: dict[str, str] = {}
        for kind, example in self.examples.items():
            # one input may show two kinds
            shown.setdefault(str(example), f"{kind}: {example}")
        return "; ".join([f"{self.format}: {what}", *shown.values()])

    def to_json(self) -> dict[str, Any]:
        return {
            "format": self.format, "status": self.status.value, "method": self.method, "exceptions": list(self.exceptions),
            "proved": self.proved, "examples": {kind: example.to_json() for kind, example in self.examples.items()},
            "ulps": self.ulps, "differing": self.differing, "edge": self.edge, "seconds": self.seconds,
        }  # fmt: skip

    @staticmethod
    def from_json(data: Any) -> IeeeVerdict:
        """Raises KeyError, TypeError, ValueError or AttributeError for anything but what `to_json` gives."""
        return IeeeVerdict(
            format=str(data["format"]),
            status=IeeeStatus(data["status"]),
            method=str(data["method"]),
            exceptions=tuple(map(str, data["exceptions"])),
            proved=bool(data["proved"]),
            examples={str(kind): IeeeExample.from_json(example) for kind, example in data["examples"].items()},
            ulps=None if data["ulps"] is None else float(data["ulps"]),
            differing=None if data["differing"] is None else float(data["differing"]),
            edge=None if data["edge"] is None else float(data["edge"]),
            seconds=float(data["seconds"]),
        )
