"""Allowed errors of outputs: of all together, or of each that is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeAlias

from hnfc.core.errors import UsageError

Target: TypeAlias = float | Mapping[int | str, float]
"""A number for all outputs together; or numbers by the index of an output, its name ("output 1"), or a pattern of names."""
Errors: TypeAlias = Mapping[int | None, float]
"""Root mean square errors by the index of an output; None: of all together."""


@dataclass(frozen=True)
class Allowance:
    """An absolute error that an output, or all together (None), may have; scale: what 1 is in the terms of the target."""

    output: int | None
    limit: float
    scale: float
    called: str = ""

    @property
    def name(self) -> str:
        return self.called or name_of(self.output)

    @property
    def they_are(self) -> str:
        return "they are" if self.output is None else "it is"

    @property
    def are(self) -> str:
        """The name with its verb."""
        return f"{self.name} {'are' if self.output is None else 'is'}"

    @property
    def target(self) -> str:
        """Option that allows more."""
        return "the target" if self.output is None else f"the target of {self.name}"

    def as_given(self, error: float) -> float:
        return error / self.scale


@dataclass(frozen=True)
class OutputError:
    """Errors of one output in the formats that were found, in the terms of the target; `allowed` is infinite without a target."""

    name: str
    allowed: float
    estimated: float
    measured: float | None = None
    proved: float | None = None
    """A bound: proved, or with the probability."""
    probability: float | None = None


def name_of(output: int | None, names: Mapping[int, str] | None = None) -> str:
    if output is None:
        return "the outputs"
    return names[output] if names and output in names else f"output {output}"


def allowances(
    target: Target, relative: bool, rms: float, outputs: Mapping[int, float], called: Mapping[int, str] | None = None
) -> tuple[Allowance, ...]:
    """The limits. outputs: the size of each output of floating-point numbers, where targets are for single ones. called: their names.

    Every output has the target of the first key that names it, and those that none names have no target: they take what is left.
    Raises UsageError for a key that names no output, and for a target that is not above 0.
    """
    if not isinstance(target, Mapping):
        scale = rms if relative and rms else 1.0
        return (Allowance(None, target * rms if relative else target, scale),)
    if not target:
        raise UsageError("targets by output name at least one output")
    names = {output: name_of(output, called) for output in outputs}
    found: dict[int, float] = {}
    for key, error in target.items():
        named = [output for output, name in names.items() if _names(key, output, name)]
        if not named:
            raise UsageError(f"no output of floating-point numbers is `{key}`; there are: {', '.join(names.values()) or 'none'}")
        if not error > 0:
            raise UsageError(f"the target of `{key}` is a number above 0, not {error:g}")
        for output in named:
            found.setdefault(output, error)
    scales = {output: outputs[output] if relative and outputs[output] else 1.0 for output in found}
    limits = {output: error * outputs[output] if relative else error for output, error in found.items()}
    return tuple(Allowance(output, limits[output], scales[output], names[output]) for output in sorted(found))


def _names(key: int | str, output: int, name: str) -> bool:
    return key == output if isinstance(key, int) else key in (str(output), name) or fnmatchcase(name, key)


def by_output(target: Target) -> bool:
    return isinstance(target, Mapping)


def worst_of(errors: list[Errors]) -> dict[int | None, float]:
    """The largest of each over several samples."""
    return {output: max(each.get(output, 0.0) for each in errors) for output in dict.fromkeys(key for each in errors for key in each)}
