"""The answer to "is this rule sound over the reals?", as data."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from enum import StrEnum
from fractions import Fraction
from importlib.resources import files
from typing import Any


class Status(StrEnum):
    PROVED = "PROVED"
    REFUTED = "REFUTED"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True)
class Tensor:
    """Exact numbers in row-major order, as texts such as `-3/2`, `true` or `undefined`."""

    shape: tuple[int, ...]
    values: tuple[str, ...]

    def __str__(self) -> str:
        return _nested(self.shape, list(self.values))

    def to_numpy(self) -> Any:
        """The nearest float64 values; undefined becomes nan."""
        import numpy as np

        return np.array([_to_float(v) for v in self.values], dtype=np.float64).reshape(self.shape)


def _to_float(text: str) -> float:
    if text in ("true", "false"):
        return float(text == "true")
    if text.startswith(("un", "no")):
        return float("nan")
    try:
        return float(Fraction(text)) if "e" not in text else float(text)
    except OverflowError:
        return float("-inf") if text.startswith("-") else float("inf")


def _nested(shape: tuple[int, ...], values: list[str]) -> str:
    if not shape:
        return values[0]
    step = len(values) // shape[0] if shape[0] else 0
    return "[" + ", ".join(_nested(shape[1:], values[i * step : (i + 1) * step]) for i in range(shape[0])) + "]"


@dataclass(frozen=True)
class Counterexample:
    """Inputs that meet `where`, and the two sides at one index: `left` is defined, and `right` differs or is undefined."""

    inputs: tuple[tuple[str, Tensor], ...]
    axes: tuple[tuple[str, tuple[int, ...]], ...]
    index: tuple[int, ...]
    left: str
    right: str

    def __str__(self) -> str:
        given = ", ".join(f"{name} = {value}" for name, value in self.inputs)
        return f"{given}: {self.left} and {self.right}"


@dataclass(frozen=True)
class Verdict:
    """PROVED, REFUTED or UNKNOWN.

    reason: why, in a sentence. help: a condition under which the rule is proved, if one was found.
    samples: inputs on which both sides agreed. steps: the proof in words. witness: inputs that meet every precondition.
    shape_conditions: what the matcher must still check of shapes.
    """

    status: Status
    reason: str
    counterexample: Counterexample | None = None
    samples: int = 0
    steps: tuple[str, ...] = ()
    witness: tuple[tuple[str, Tensor], ...] = ()
    shape_conditions: tuple[str, ...] = ()
    help: str = ""
    seconds: float = 0.0

    @property
    def proved(self) -> bool:
        return self.status is Status.PROVED

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "status": self.status.value}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Verdict:
        """Raises KeyError, TypeError or ValueError for anything but what `to_json` gives."""
        example = data["counterexample"]
        return Verdict(
            status=Status(data["status"]),
            reason=str(data["reason"]),
            counterexample=None
            if example is None
            else Counterexample(
                _inputs(example["inputs"]),
                tuple((str(name), tuple(map(int, axes))) for name, axes in example["axes"]),
                tuple(map(int, example["index"])),
                str(example["left"]),
                str(example["right"]),
            ),
            samples=int(data["samples"]),
            steps=tuple(map(str, data["steps"])),
            witness=_inputs(data["witness"]),
            shape_conditions=tuple(map(str, data["shape_conditions"])),
            help=str(data["help"]),
            seconds=float(data["seconds"]),
        )


def _inputs(data: Any) -> tuple[tuple[str, Tensor], ...]:
    return tuple((str(name), Tensor(tuple(map(int, t["shape"])), tuple(map(str, t["values"])))) for name, t in data)


def _version() -> str:
    """A hash of the sources that a verdict rests on: the prover, the form of rules, and what operations mean.

    All of the dialect, not only the modules of a rule's own operations: a formula may call functions of any of them.
    """
    digest = hashlib.sha256()
    root = files("hnfc")
    for folder in (root / "dsl" / "soundness", root / "dialects", root / "dialects" / "num"):
        for source in sorted((f for f in folder.iterdir() if f.name.endswith(".py")), key=lambda f: f.name):
            digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    digest.update((root / "dsl" / "core.py").read_bytes())
    return digest.hexdigest()[:16]


PROVER_VERSION = _version()
