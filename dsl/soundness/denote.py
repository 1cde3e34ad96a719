"""What a rule means: both sides and the conditions as functions of a symbolic index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hnfc.dialects.facts import NoFormula
from hnfc.dsl.core import (
    AllOf,
    AnyOf,
    Apply,
    Axis,
    Capture,
    Comparison,
    Condition,
    DTypeOf,
    Expr,
    Free,
    Literal,
    Rule,
    SameSize,
    Size,
)
from hnfc.dsl.soundness.layout import NOTHING, Layout, Shape
from hnfc.dsl.soundness.normal_form import Normalizer, connect
from hnfc.dsl.soundness.scan import (
    MAX_AXES,
    all_ranks_known,
    boolean_captures,
    conjuncts,
    known_ranks,
    reshaping,
    scalar_captures,
    universe,
)
from hnfc.dsl.soundness.symbolic import Sym, SymMath, Value, joined
from hnfc.dsl.soundness.term import Cond, Ix


@dataclass
class Denotation:
    """Both sides and the conditions of a rule, as functions of an index."""

    layout: Layout
    left: Sym
    right: Sym
    facts: list[Callable[[Normalizer, dict[Axis, dict[int, Ix]]], Cond]]
    fact_shapes: list[Shape]

    def env(self, number: int) -> dict[Axis, dict[int, Ix]]:
        """An index of its own for every class along every axis: a class may lie along both axes of a square matrix."""
        places = range(len(self.layout.classes))
        return {axis: {c: Ix(c, "free", number + i) for c in places} for i, axis in enumerate(self.layout.universe)}


def denote(rule: Rule) -> Denotation:
    """Raises NoFormula or Unrelated where the rule has no denotation."""
    layout = Layout(universe(rule), scalar_captures(rule))
    math = SymMath(layout)
    booleans = boolean_captures(rule)
    ranks, fixed = known_ranks(rule), all_ranks_known(rule)
    memo: dict[Expr, Sym] = {}

    def tensor(node: Expr) -> Sym:
        if node not in memo:
            memo[node] = build(node)
        return memo[node]

    def build(node: Expr) -> Sym:
        match node:
            case Capture(name):
                rank = ranks.get(name, 0) if fixed else MAX_AXES
                members = {
                    axis: NOTHING if name in layout.scalars or (isinstance(axis, int) and axis < -rank) else frozenset({(name, axis)})
                    for axis in layout.universe
                }
                for own in members.values():
                    layout.unite(own)
                return Sym(layout, members, capture_element(name, name in booleans))
            case Literal(value):
                return math.const(value)
            case Size(operand, axes):
                return math.size(tensor(operand), axes)
            case Apply(operation, operands):
                step = reshaping(node)
                if step is not None and fixed:
                    return getattr(math, step[0])(tensor(operands[0]), step[1])  # type: ignore[no-any-return]
                if operation.FACTS.real is None:
                    raise NoFormula(f"{node.name} has no formula over the reals")
                attributes = {k: math_attribute(v, tensor) for k, v in node.attributes}
                return operation.FACTS.real(math, *(tensor(x) for x in operands), **attributes)  # type: ignore[no-any-return]
        raise TypeError(f"no expression: {node!r}")

    left, right = tensor(rule.pattern), tensor(rule.replacement)
    for axis in layout.universe:
        layout.unite(left.shape.get(axis, NOTHING) | right.shape.get(axis, NOTHING))
    facts, shapes = [], []
    for condition in conjuncts(rule.where):
        match condition:
            case Free(operand, axes):
                layout.absent |= {s for a in axes if (s := tensor(operand).shape.get(a, NOTHING))}
            case SameSize(x, y, axes):
                for a in axes:
                    layout.equal.add((tensor(x).shape.get(a, NOTHING), tensor(y).shape.get(a, NOTHING)))
            case _:
                fact = comparison_fact(condition, tensor)
                if fact is not None:
                    facts.append(fact[0])
                    shapes.append(joined(layout, *fact[1]))
    for axis in layout.universe:
        if isinstance(axis, str):
            layout.unite([m for m in layout.parent if m[1] == axis])
    layout.finish()
    return Denotation(layout, left, right, facts, shapes)


def math_attribute(value: Any, tensor: Callable[[Expr], Sym]) -> Any:
    if isinstance(value, Capture | Literal | Apply | Size):
        return tensor(value)
    return None if isinstance(value, DTypeOf) else value


def capture_element(name: str, boolean: bool) -> Callable[[Normalizer, dict[Axis, dict[int, Ix]]], Value]:
    def element(n: Normalizer, env: dict[Axis, dict[int, Ix]]) -> Value:
        places = tuple(ix for axis in sorted(env, key=repr) for _, ix in sorted(env[axis].items()))
        return Cond("cap", name, places) if boolean else n.capture(name, places)

    return element


def comparison_fact(condition: Condition, tensor: Callable[[Expr], Sym]) -> tuple[Callable[..., Cond], list[Sym]] | None:
    """A condition on values as a function of the index; None where it says nothing that a proof may use."""
    match condition:
        case Comparison(predicate, x, y):
            a, b = tensor(x), tensor(y)
            return (lambda n, env: n.compare(predicate, a.real(n, env), b.real(n, env))), [a, b]
        case AnyOf(parts):
            found = [comparison_fact(part, tensor) for part in parts]
            if parts and all(f is not None for f in found):
                # all A or all B: then A or B at every index
                known = [f for f in found if f is not None]
                return (lambda n, env: connect("or", *(f[0](n, env) for f in known))), [t for f in known for t in f[1]]
        case AllOf(parts) if parts:
            found = [comparison_fact(part, tensor) for part in parts]
            known = [f for f in found if f is not None]
            if known:
                return (lambda n, env: connect("and", *(f[0](n, env) for f in known))), [t for f in known for t in f[1]]
    return None
