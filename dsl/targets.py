"""`target` declarations → machines: what each does in a second, in which formats."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from hnfc.dialects.types import FORMATS
from hnfc.dsl import core, syntax
from hnfc.dsl.diagnostics import Diagnostic, HnfError, Span
from hnfc.dsl.expressions import did_you_mean

_OF_WHOLE = {
    "bandwidth": "bytes read and written in a second",
    "memory": "bytes",
    "latency": "seconds that an operation takes at least; 0 where it is left out",
}
_ELEMENTS = (*FORMATS, "i8", "i32", "i64")


@dataclass(frozen=True)
class Target:
    """A machine. vector, matrix: operations in a second by element type, element by element and in products of matrices.

    bandwidth in bytes per second, memory in bytes, latency in seconds. It runs the formats in which it has a rate.
    """

    name: str
    title: str
    bandwidth: float
    memory: float
    latency: float
    vector: Mapping[str, float] = field(default_factory=dict)
    matrix: Mapping[str, float] = field(default_factory=dict)

    def rate(self, element: str, *, matrix: bool = False) -> float:
        """Operations in a second on elements of a type; those of a type without a rate are as slow as the slowest that has one."""
        own = {**self.vector, **self.matrix} if matrix else {**self.matrix, **self.vector}
        return own.get(element, min(own.values()))

    def runs(self, element: str) -> bool:
        return element in self.vector or element in self.matrix

    def lacks(self, rule: core.Rule) -> str | None:
        """A format that the right side of the rule brings in and the target does not have; None where it can run the rule."""
        return next((name for name in _formats_of(rule.replacement) if name in FORMATS and not self.runs(name)), None)


def _formats_of(expression: core.Expr) -> Iterator[str]:
    for node in core.walk(expression):
        for key, value in node.attributes if isinstance(node, core.Apply) else ():
            if key in ("to", "format", "accumulate") and isinstance(value, str):
                yield value


class TargetBook:
    """Machines by name. What it does not declare it takes from the book before it."""

    def __init__(self, before: Callable[[], TargetBook] | None = None) -> None:
        self._made: dict[str, tuple[Target, str, Span]] = {}
        self._before = before

    def add(self, file: syntax.File) -> None:
        """Adds the declarations of the file. Raises HnfError with every fault in them; then it adds none."""
        faults: list[Diagnostic] = []
        new: dict[str, tuple[Target, str, Span]] = {}
        for declaration in file.declarations:
            if not isinstance(declaration, syntax.TargetDeclaration):
                continue
            found = list(_faults(declaration, file.path))
            other = new.get(declaration.name) or self._find(declaration.name)
            if not found:
                made = _made(declaration)
                if other is not None and other[0] != made:
                    note = f"the first is in {other[1]}, line {other[2].line}"
                    what = f"there are two targets `{declaration.name}`"
                    faults.append(Diagnostic("HNF0701", what, file.path, declaration.name_span, help="give one another name", note=note))
                new[declaration.name] = made, file.path, declaration.name_span
            faults += found
        if faults:
            raise HnfError(faults)
        self._made |= new

    def _find(self, name: str) -> tuple[Target, str, Span] | None:
        return self._made.get(name) or (self._before()._find(name) if self._before else None)

    def target(self, name: str) -> Target | None:
        found = self._find(name)
        return found[0] if found else None

    def names(self) -> list[str]:
        return list(dict.fromkeys([*(self._before().names() if self._before else ()), *self._made]))


def _field(name: str) -> tuple[str, str] | None:
    """`vector_f32` as (vector, f32); None for what is no rate."""
    kind, _, element = name.partition("_")
    return (kind, element) if kind in ("vector", "matrix") and element in _ELEMENTS else None


def _faults(declaration: syntax.TargetDeclaration, path: str) -> Iterator[Diagnostic]:
    seen: set[str] = set()
    known = [*_OF_WHOLE, *(f"{kind}_{element}" for kind in ("vector", "matrix") for element in _ELEMENTS)]
    for each in declaration.fields:
        if each.name in seen:
            yield Diagnostic("HNF0702", f"`{each.name}` is given twice", path, each.name_span, help="remove one")
        elif each.name not in known:
            hint = did_you_mean(each.name, known) or "it has bandwidth, memory, latency and rates such as vector_f32 and matrix_bf16"
            yield Diagnostic("HNF0702", f"a target has no field `{each.name}`", path, each.name_span, help=hint)
        seen.add(each.name)
        if not isinstance(each.value, syntax.Number) or not _sensible(each.name, each.value.value):
            yield Diagnostic("HNF0703", f"`{each.name}` must be a number above 0", path, each.value.span, help="as in 3.35e12")
    for name in ("bandwidth", "memory"):
        if name not in seen:
            help_ = f"add `{name} = …`: {_OF_WHOLE[name]}"
            yield Diagnostic("HNF0704", f"`{declaration.name}` has no `{name}`", path, declaration.name_span, help=help_)
    if not any(_field(name) for name in seen):
        help_ = "add `vector_f32 = …`: operations in a second"
        yield Diagnostic("HNF0704", f"`{declaration.name}` has no rate in any format", path, declaration.name_span, help=help_)


def _sensible(name: str, value: Fraction) -> bool:
    try:
        return math.isfinite(float(value)) and (float(value) > 0 or (name == "latency" and value == 0))
    except OverflowError:
        return False


def _made(declaration: syntax.TargetDeclaration) -> Target:
    numbers = {each.name: float(each.value.value) for each in declaration.fields if isinstance(each.value, syntax.Number)}
    rates = {name: split for name in numbers if (split := _field(name)) is not None}
    vector, matrix = (
        {element: numbers[name] for name, (kind, element) in rates.items() if kind == wanted} for wanted in ("vector", "matrix")
    )
    return Target(declaration.name, declaration.title, numbers["bandwidth"], numbers["memory"], numbers.get("latency", 0.0), vector, matrix)
