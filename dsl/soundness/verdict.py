"""The answer to "is this rule sound over the reals?", as data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from hnfc.dsl.core import Rule
    from hnfc.dsl.soundness.proof_obligation import Obligation


DEFAULT_TIMEOUT_MS = 10_000
"""So long a rule may take."""


class Status(StrEnum):
    PROVED = "PROVED"
    REFUTED = "REFUTED"
    VACUOUS = "VACUOUS"
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

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """The inputs as arrays of truth values or of the nearest float64 numbers; `rounded` says whether that changed one."""
        exact = self.fractions()
        return {name: exact[name].astype(bool) if _boolean(exact[name]) else tensor.to_numpy() for name, tensor in self.inputs}

    def fractions(self) -> dict[str, np.ndarray[Any, Any]]:
        """The inputs as arrays of exact `Fraction`s (and truth values), with dtype object."""
        found = {}
        for name, tensor in self.inputs:
            found[name] = np.empty(tensor.shape, dtype=object)
            found[name].reshape(-1)[:] = [v == "true" if v in ("true", "false") else Fraction(v) for v in tensor.values]
        return found

    @property
    def rounded(self) -> tuple[str, ...]:
        """The inputs that `arrays` does not hold exactly: another program may find them to be no counterexample."""
        arrays, exact = self.arrays(), self.fractions()
        return tuple(name for name in exact if any(float(x) != y for x, y in zip(arrays[name].flat, exact[name].flat, strict=True)))


def _boolean(values: np.ndarray[Any, Any]) -> bool:
    return values.size > 0 and all(isinstance(x, bool) for x in values.flat)


@dataclass(frozen=True)
class Verdict:
    """PROVED, REFUTED, VACUOUS (it is proved that no input meets the conditions and gives the left side a value), or UNKNOWN.

    reason: why, in a sentence. help: a condition under which the rule is proved, if one was found.
    samples: inputs on which both sides agreed. steps: the proof in words. witness: inputs that meet every precondition.
    shape_conditions: what the matcher must still check of shapes. rule: what was judged, where it is known; no part of the answer.
    derivation: the proof of a rule made again, as its obligations; no part of the answer either.
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
    rule: Rule | None = field(default=None, compare=False, repr=False)
    derivation: Callable[[Rule], Sequence[Obligation]] | None = field(default=None, compare=False, repr=False)

    @property
    def proved(self) -> bool:
        return self.status is Status.PROVED

    def __str__(self) -> str:
        """The status with its reason, and below it the counterexample, conditions, and the proof in steps."""
        lines = [f"{self.status.value}: {self.reason}"]
        if self.counterexample is not None:
            lines.append(f"counterexample over the reals: {self.counterexample}")
        if self.help:
            lines.append(self.help)
        if self.shape_conditions:
            lines.append(f"for shapes such that {'; '.join(self.shape_conditions)}")
        return "\n".join([*lines, *(f"  {number}. {step}" for number, step in enumerate(self.steps, 1))])

    def _repr_html_(self) -> str:
        headline, *rest = str(self).split("\n")
        rest = rest[: len(rest) - len(self.steps)]
        steps = "".join(f"<li>{escape(step)}</li>" for step in self.steps)
        below = "".join(f"<div>{escape(line)}</div>" for line in rest)
        return f"<div><strong>{escape(headline)}</strong>{below}{f'<ol>{steps}</ol>' if steps else ''}</div>"

    @cached_property
    def obligations(self) -> tuple[Obligation, ...]:
        """Everything that the proof rests on, as formulas; the proof is made again for them.

        There are none where nothing is proved. Raises ValueError where the rule is not known, as for a verdict from a file.
        """
        if not self.proved:
            return ()
        if self.rule is None or self.derivation is None:
            raise ValueError("which rule this verdict is about is not known; ask `obligations(rule)`")
        return tuple(self.derivation(self.rule))

    def to_json(self) -> dict[str, Any]:
        data = {**asdict(replace(self, rule=None, derivation=None)), "status": self.status.value}
        del data["rule"], data["derivation"]
        return data

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
