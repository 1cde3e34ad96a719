"""A rule after elaboration: names resolved, definitions inlined, every function an operation of the `num` dialect.

This is the one form that the matcher compiles and the prover denotes. Nodes compare by identity where `let` shares
them and by value otherwise; they hold no source text beyond a span for messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

from hnfc.dialects.facts import Facts
from hnfc.dialects.num.base import NumOp
from hnfc.dsl.diagnostics import Span

Axis: TypeAlias = str | int
"""An axis variable of the rule (`k`, which stands for a set of axes), or an axis counted from the right (-1 is the last)."""

ALL = "*"
"""All axes of a tensor, as one; in `SameSize` only."""

Axes: TypeAlias = tuple[Axis, ...]


@dataclass(frozen=True)
class Capture:
    """A name that stands for any tensor (`const`: for a compile-time constant), the same one wherever it occurs."""

    name: str
    dtypes: tuple[str, ...] = ()
    const: bool = False


@dataclass(frozen=True)
class Literal:
    """A real number; `value` is exact, or a float for ±inf and nan. It fits a constant of any element type and any shape."""

    value: Fraction | float


@dataclass(frozen=True)
class Size:
    """The number of elements of `operand` along `axes`, as a real number."""

    operand: Expr
    axes: Axes


@dataclass(frozen=True)
class Apply:
    """An operation of the dialect on expressions.

    `attributes` holds its properties as plain Python values, except that `axes` is an `Axes` (and the `perm` of a
    transpose is "last_two" where the rule swaps the last two axes), `axis` is an `Axis`, and an element type is a name
    from ELEMENT_TYPES or DTypeOf(capture). Bounds and sizes of movement are expressions (`attribute_expressions`).
    """

    operation: type[NumOp]
    operands: tuple[Expr, ...]
    attributes: tuple[tuple[str, Any], ...] = ()
    span: Span | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        return self.operation.name.removeprefix("num.")

    @property
    def facts(self) -> Facts:
        return self.operation.FACTS

    @property
    def alike(self) -> tuple[Expr, ...]:
        """The operands that must have one element type."""
        return tuple(x for index, x in enumerate(self.operands) if index in self.facts.alike)

    def attribute(self, key: str) -> Any:
        return dict(self.attributes)[key]


@dataclass(frozen=True)
class DTypeOf:
    """The element type of a captured tensor."""

    capture: str


Expr: TypeAlias = Capture | Literal | Size | Apply


# Conditions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """x predicate y for every element (predicate: eq ne lt le gt ge)."""

    predicate: str
    x: Expr
    y: Expr


@dataclass(frozen=True)
class Free:
    """`operand` has size 1 along `axes`, or does not have those axes: it does not vary there."""

    operand: Expr
    axes: Axes


@dataclass(frozen=True)
class SameSize:
    """`x` and `y` have the same size along `axes` (neither is broadcast along them)."""

    x: Expr
    y: Expr
    axes: Axes


@dataclass(frozen=True)
class Property:
    """A property of a captured tensor that has a name: rank, dtype, finite, overflows, underflows, cancels …"""

    name: str
    operands: tuple[Expr, ...]
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class AllOf:
    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class AnyOf:
    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Not:
    part: Condition


Condition: TypeAlias = Comparison | Free | SameSize | Property | AllOf | AnyOf | Not

TRUE = AllOf(())

ORTHOGONAL = "orthogonal"
"""The property of a parameter h to be square matrices in its last two axes with h·hᵀ = hᵀ·h = 1."""


@dataclass(frozen=True)
class Rule:
    """pattern => replacement where condition.

    where: a precondition; the prover may use it and the rule fires only where it is known to hold.
    when: advice about benefit; proves nothing.
    both_ways: written `<=>`: the rule may be read from right to left as well.
    within: for `~>`: the stated bound on |pattern - replacement|; None for an identity.
    structural: match the pattern's tree as written instead of modulo associativity and commutativity.
    parameters: names of the right side only, with conditions in `where`: the rule holds for every value that meets them and leaves the
    result its type. It runs where something chooses values.
    """

    name: str
    group: str
    reason: str
    source: str
    pattern: Expr
    replacement: Expr
    where: Condition = TRUE
    when: Condition = TRUE
    both_ways: bool = False
    within: Fraction | None = None
    structural: bool = False
    parameters: tuple[str, ...] = ()
    file: str = ""
    span: Span | None = field(default=None, compare=False)
    tests: tuple[Any, ...] = field(default=(), compare=False)


def walk(expression: Expr) -> Iterator[Expr]:
    """Every node below and including `expression`, operands first; shared nodes come once."""
    seen: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(expression, False)]
    while stack:
        node, done = stack.pop()
        if id(node) in seen:
            continue
        if done or isinstance(node, Capture | Literal):
            seen.add(id(node))
            yield node
            continue
        stack.append((node, True))
        operands = node.operands if isinstance(node, Apply) else (node.operand,)
        stack.extend((operand, False) for operand in reversed(operands))


def attribute_expressions(node: Expr) -> list[Expr]:
    """The attributes that are expressions over compile-time constants and sizes."""
    found: list[Expr] = []
    for key, value in node.attributes if isinstance(node, Apply) else ():
        if key == "perm" and isinstance(value, Apply):
            # a product of orders is no product of matrices
            found += [part for part in walk(value) if isinstance(part, Capture)]
        elif isinstance(value, Expr):
            found.append(value)
    return found


def captures(expression: Expr) -> dict[str, Capture]:
    """The captures of an expression by name, those in attributes included."""
    found = {}
    for node in walk(expression):
        if isinstance(node, Capture):
            found[node.name] = node
        for part in attribute_expressions(node):
            found.update(captures(part))
    return found


def condition_parts(condition: Condition) -> Iterator[Condition]:
    """Every condition below and including this one."""
    yield condition
    match condition:
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from condition_parts(part)
        case Not(part):
            yield from condition_parts(part)


def conjuncts(condition: Condition) -> list[Condition]:
    """The parts of which all must hold."""
    if isinstance(condition, AllOf):
        return [c for part in condition.parts for c in conjuncts(part)]
    return [condition]


def condition_expressions(condition: Condition) -> Iterator[Expr]:
    for part in condition_parts(condition):
        match part:
            case Comparison(_, x, y) | SameSize(x, y, _):
                yield from (x, y)
            case Free(operand, _):
                yield operand
            case Property(_, operands, _):
                yield from operands


def map_leaves(condition: Condition, image: Callable[[Condition], Condition]) -> Condition:
    """The condition with the image of every part of it that is no connective."""
    match condition:
        case AllOf(parts):
            return AllOf(tuple(map_leaves(part, image) for part in parts))
        case AnyOf(parts):
            return AnyOf(tuple(map_leaves(part, image) for part in parts))
        case Not(part):
            return Not(map_leaves(part, image))
    return image(condition)


def map_expressions(condition: Condition, image: Callable[[Expr], Expr]) -> Condition:
    """The condition with the image of every expression in it."""

    def leaf(part: Condition) -> Condition:
        match part:
            case Comparison(predicate, x, y):
                return Comparison(predicate, image(x), image(y))
            case Free(operand, axes):
                return Free(image(operand), axes)
            case SameSize(x, y, axes):
                return SameSize(image(x), image(y), axes)
            case Property(name, operands, arguments):
                return Property(name, tuple(map(image, operands)), arguments)
        raise TypeError(f"no condition: {part!r}")

    return map_leaves(condition, leaf)
