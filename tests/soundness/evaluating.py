"""Normal forms, conditions and nodes of a proof as numbers: elements of ball arithmetic, for tensors of small sizes.

This knows nothing of how normal forms are made. A term that has no value is UNDEFINED, one that the balls do not settle is UNDECIDED.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, fmpq

from hnfc.dsl.soundness import elements
from hnfc.dsl.soundness.claims import ClaimNode, Equivalent, Goal, Same
from hnfc.dsl.soundness.element_roundings import rounding_to
from hnfc.dsl.soundness.elements import UNDECIDED, UNDEFINED, Mark, lift
from hnfc.dsl.soundness.normal_form import deep_atoms
from hnfc.dsl.soundness.ranges import IndexRanges
from hnfc.dsl.soundness.term import Atom, Index, Place, Proposition, Rational

Indices = Mapping[Index, int]

FUNCTIONS = {
    "exp": lift(lambda x: arb(x).exp()),
    "log": lift(elements.log),
    "sqrt": lift(elements.sqrt),
    "abs": lift(abs),
    "sin": lift(lambda x: arb(x).sin()),
    "cos": lift(lambda x: arb(x).cos()),
    "atan": lift(lambda x: arb(x).atan()),
    "asin": lift(elements.arc("asin")),
    "acos": lift(elements.arc("acos")),
    "atan2": lift(elements.atan2),
    "erf": lift(lambda x: arb(x).erf()),
    "lgamma": lift(elements.lgamma),
    "i0": lift(lambda x: arb(x).bessel_i(0)),
    "floor": lift(elements.floor),
    "pow": lift(elements.power),
    "max": lift(elements.maximum),
    "min": lift(elements.minimum),
    "+": lift(lambda x, y: x + y),
    "-": lift(lambda x, y: x - y),
    "*": lift(lambda x, y: x * y),
    "/": lift(elements.div),
    "neg": lift(lambda x: -x),
}
REDUCTIONS = {"sum": "+", "prod": "*", "max": "max", "min": "min", "largest": "max", "least": "min"}
BINDING = frozenset(("sum", "prod", "largest", "least"))
"""The nodes that bind indices."""


def function_of(kind: str) -> Any:
    if kind.startswith("round to "):
        # that of another tensor may be any
        return lift(rounding_to(kind.removeprefix("round to ")) or rounding_to("f32"))
    return FUNCTIONS[kind]


@dataclass
class Model:
    """Values of captured tensors, each with one dimension for every class along every of its axes, and the sizes of classes."""

    n: IndexRanges
    tensors: dict[str, np.ndarray[Any, Any]]
    sizes: dict[int, int]
    memo: dict[Any, Any] = field(default_factory=dict)

    # sizes and places

    def size(self, cls: int) -> int:
        if cls in self.sizes:
            return self.sizes[cls]
        return self.whole(self.term(self.n.lengths[cls], {}))

    @staticmethod
    def whole(x: Any) -> int:
        if not isinstance(x, fmpq) or x.q != 1:
            raise ValueError(f"{x} is no size or index")
        return int(x.p)

    def place(self, place: Place, ixs: Indices) -> int:
        return ixs[place] if isinstance(place, Index) else self.whole(self.term(place.term, ixs))

    def assignments(self, ixs: Any) -> Iterator[dict[Index, int]]:
        ordered = sorted(ixs)
        for values in itertools.product(*(range(self.size(ix.cls)) for ix in ordered)):
            yield dict(zip(ordered, values, strict=True))

    def element(self, name: str, places: tuple[Place, ...], ixs: Indices) -> Any:
        """An element of a captured tensor. What lies outside is any number, but always the same one."""
        index = tuple(self.place(place, ixs) for place in places)
        values = self.tensors[name]
        if all(0 <= i < n for i, n in zip(index, values.shape, strict=True)):
            return elements.element(values[index])
        outside = fmpq(sum((i * i + 3 * i) * 7**k for k, i in enumerate(index)) % 17 - 8, 5)
        return bool(outside > 0) if values.dtype == object and values.size and isinstance(values.flat[0], bool) else outside

    # terms

    def term(self, x: Rational, ixs: Indices) -> Any:
        key = x, tuple(sorted((ix, i) for ix, i in ixs.items() if ix in x.ixs))
        if key not in self.memo:
            num = self.polynomial(x.num, ixs)
            self.memo[key] = num if x.polynomial else FUNCTIONS["/"](num, self.polynomial(x.den, ixs))
        return self.memo[key]

    def polynomial(self, terms: Any, ixs: Indices) -> Any:
        result: Any = fmpq(0)
        for mono, c in terms.items():
            part: Any = fmpq(c.numerator, c.denominator)
            # a choice that is not taken makes the rest of its term irrelevant
            for base, e in sorted(mono, key=lambda p: p[0].kind != "ind"):
                part = FUNCTIONS["*"](part, self.power(base, e, ixs))
                if part == 0:
                    break
            result = FUNCTIONS["+"](result, part)
        return result

    def power(self, base: Atom, e: Any, ixs: Indices) -> Any:
        if base.kind == "root":
            return FUNCTIONS["pow"](self.term(base.args[0], ixs), fmpq(Fraction(e).numerator, Fraction(e).denominator))
        value = self.atom(base, ixs)
        return value if e == 1 else FUNCTIONS["pow"](value, fmpq(Fraction(e).numerator, Fraction(e).denominator))

    def atom(self, base: Atom, ixs: Indices) -> Any:
        args = base.args
        match base.kind:
            case "cap":
                return elements.number(self.element(args[0], args[1], ixs))
            case "size":
                return fmpq(self.size(args[0]))
            case "ix":
                return fmpq(self.place(args[0][0], ixs))
            case "ind":
                held = self.holds(args[0], ixs)
                return UNDECIDED if held is None else fmpq(int(held))
            case "ite":
                held = self.holds(args[0], ixs)
                return UNDECIDED if held is None else self.term(args[1] if held else args[2], ixs)
            case "sum" | "prod" | "max" | "min":
                return self.reduction(base.kind, args[0], args[1], ixs)
            case "powc":
                return FUNCTIONS["pow"](self.term(args[0], ixs), fmpq(args[1].numerator, args[1].denominator))
        return function_of(base.kind)(*(self.term(arg, ixs) for arg in args))

    def reduction(self, kind: str, bound: Any, body: Rational, ixs: Indices) -> Any:
        parts = [self.term(body, {**ixs, **chosen}) for chosen in self.assignments(bound)]
        result = parts[0]
        for part in parts[1:]:
            result = FUNCTIONS[REDUCTIONS[kind]](result, part)
        return result

    def holds(self, cond: Proposition, ixs: Indices) -> bool | None:
        match cond.kind:
            case "true" | "false":
                return cond.kind == "true"
            case "cap":
                return bool(elements.truth(self.element(cond.args[0], cond.args[1], ixs)))
            case "not":
                inner = self.holds(cond.args[0], ixs)
                return None if inner is None else not inner
            case "and" | "or":
                stop = cond.kind == "or"
                for part in cond.args:
                    value = self.holds(part, ixs)
                    if value is stop or value is None:
                        return value
                return not stop
        return self.compared({">": "gt", ">=": "ge", "=": "eq"}[cond.kind], self.term(cond.args[0], ixs), fmpq(0))

    @staticmethod
    def compared(predicate: str, x: Any, y: Any) -> bool | None:
        value = lift(elements.comparison(predicate))(x, y)
        return None if isinstance(value, Mark) else bool(value)

    # nodes and goals

    def node(self, node: ClaimNode, ixs: Indices) -> Any:
        """The value of what was written, down to its functions; a function has the value of its normal form."""
        match node.op:
            case "value":
                return self.term(node.value, ixs)
            case "capture":
                return self.atom(node.detail, ixs)
            case "ite":
                held = self.holds(node.detail, ixs)
                return UNDECIDED if held is None else self.node(node.operands[0 if held else 1], ixs)
            case "power":
                return FUNCTIONS["pow"](self.node(node.operands[0], ixs), fmpq(node.detail))
        if node.leaf:
            return self.term(node.value, ixs)
        return FUNCTIONS[node.op](*(self.node(operand, ixs) for operand in node.operands))

    def applied(self, node: ClaimNode, ixs: Indices) -> Any:
        """The function of a node at the normal forms of its operands."""
        if node.op in BINDING:
            return self.reduction(node.op, node.detail, node.operands[0].value, ixs)
        return function_of(node.op)(*(self.term(operand.value, ixs) for operand in node.operands))

    def follows(self, goal: Goal, ixs: Indices) -> bool | None:
        if isinstance(goal, Same):
            left, right = self.node(goal.left, ixs), self.node(goal.right, ixs)
            return None if isinstance(left, Mark) or isinstance(right, Mark) else agree(left, right)
        if isinstance(goal, Equivalent):
            written = self.compared(goal.predicate, self.node(goal.left, ixs), self.node(goal.right, ixs))
            normal = self.holds(goal.cond, ixs)
            return None if written is None or normal is None else written == normal
        return self.holds(goal, ixs)


def agree(x: Any, y: Any, digits: int = 50) -> bool | None:
    """Return whether the balls overlap; None where they are too wide for so many digits, or a value is not settled."""
    if UNDEFINED in (x, y):
        return x is y
    if isinstance(x, Mark) or isinstance(y, Mark):
        return None
    a, b = arb(elements.number(x)), arb(elements.number(y))
    if not a.overlaps(b):
        return False
    return True if abs(a - b) <= arb(10) ** -digits * (1 + abs(a)) else None


def indices(goal: Goal | ClaimNode | Proposition) -> frozenset[Index]:
    """The free indices of what is evaluated."""
    if isinstance(goal, Proposition):
        return goal.ixs
    if isinstance(goal, Same):
        return indices(goal.left) | indices(goal.right)
    if isinstance(goal, Equivalent):
        return indices(goal.left) | indices(goal.right) | goal.cond.ixs
    found = goal.value.ixs | frozenset(i for guard in goal.guards for i in guard.ixs)
    if goal.op == "ite":
        found |= goal.detail.ixs
    for operand in goal.operands:
        found |= indices(operand)
    return found - frozenset(goal.detail if goal.op in BINDING else ())


__all__ = ["Model", "agree", "deep_atoms", "indices"]
