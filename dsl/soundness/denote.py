"""Denotation of a rule: both sides and the conditions as functions of a symbolic index."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hnfc.dialects.facts import NoFormula
from hnfc.dsl.core import (
    ALL,
    AllOf,
    AnyOf,
    Apply,
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
    conjuncts,
)
from hnfc.dsl.soundness.axis_classes import NOTHING, AxisClasses, Extent, Member, Shape, Subsumed, Unrelated
from hnfc.dsl.soundness.normal_form import CaseSplit, Normalizer, NotProved, connect
from hnfc.dsl.soundness.rearranging import Rearranging, word
from hnfc.dsl.soundness.scan import (
    all_ranks_known,
    arithmetic_axes,
    boolean_captures,
    integral_captures,
    known_ranks,
    numbers_beside_convolutions,
    orthogonal_captures,
    reshaping,
    scalar_captures,
    spatial_rank,
    universe,
    with_axes,
)
from hnfc.dsl.soundness.sym import Env, Sym, Value, joined
from hnfc.dsl.soundness.symbolic import SymMath
from hnfc.dsl.soundness.term import FALSE, ONE, ZERO, Index, Proposition


@dataclass
class Denotation:
    """Both sides and the conditions of a rule, as functions of an index."""

    layout: AxisClasses
    left: Sym
    right: Sym
    facts: list[Callable[[Normalizer, Env], Proposition]]
    fact_shapes: list[Shape]
    left_extents: int
    left_bounds: int
    orthogonal: frozenset[str] = frozenset()
    """Orthogonal matrices each of whose two axes is one class: an element has one index for its row and one for its column."""

    def prepare(self, n: Normalizer) -> None:
        """Tells the normalizer of the sizes of tensors whose elements come from elsewhere."""
        sizes: dict[int, Callable[[Any], Any]] = {}
        for c, extent in self._extents:
            if c >= 0 and self._is_new(c):
                sizes.setdefault(c, extent.size)
        n.definitions, n.ranged, n.orthogonal = sizes, self.layout.ranged, self.orthogonal

    def alike(self, integral: frozenset[str]) -> list[frozenset[Member]]:
        """Axes of new tensors that have the same size, since the same formula gives it."""
        n = Normalizer(integral=integral)
        self.prepare(n)
        found: dict[Any, set[Member]] = {}
        for member, extent in self.layout.extents.items():
            with contextlib.suppress(CaseSplit, ArithmeticError):
                found.setdefault((member[1], extent.size(n)), set()).add(member)
        return [frozenset(members) for members in found.values() if len(members) > 1]

    def size_facts(self, n: Normalizer) -> list[Proposition]:
        """The sizes that agree because the left side has a type, or in this case of broadcasting."""
        own = self._extents[: self.left_extents] + [found for found in self._extents[self.left_extents :] if found[0] < 0]
        return [self._agrees(n, *found) for found in own]

    def size_obligations(self, n: Normalizer) -> list[tuple[Proposition, Proposition]]:
        """For each tensor that the right side makes: that it has the size of those it meets, and that it can be combined with them."""
        found = []
        exact = frozenset().union(*(a | b for a, b in self.layout.equal))
        for c, extent in self._extents[self.left_extents :]:
            if c >= 0:
                equal = self._agrees(n, c, extent)
                # what is contracted or put side by side is not broadcast; of what is, another case takes care
                sizes = () if self.layout.classes[c] & exact else (extent.size(n), n.size_of(c))
                found.append((equal, connect("or", equal, *(n.relation("=", size - ONE) for size in sizes))))
        return found

    def bound_facts(self, n: Normalizer) -> list[Proposition]:
        """The bounds of movement on the left side fit their operands."""
        return [cond for bounds in self.layout.bounds[: self.left_bounds] for cond in bounds(n)]

    def bound_obligations(self, n: Normalizer) -> list[Proposition]:
        return [cond for bounds in self.layout.bounds[self.left_bounds :] for cond in bounds(n)]

    def _agrees(self, n: Normalizer, c: int, extent: Extent) -> Proposition:
        return n.relation("=", extent.size(n) - (ONE if c < 0 else n.size_of(c)))

    @cached_property
    def _extents(self) -> list[tuple[int, Extent]]:
        """Each extent with its class, in the order in which the rule introduces them; -1 for one that is broadcast."""
        classes = {member: c for c, members in enumerate(self.layout.classes) for member in members}
        return [(classes.get(member, -1), extent) for member, extent in self.layout.extents.items()]

    def _is_new(self, c: int) -> bool:
        """No captured tensor has this axis."""
        return all(member in self.layout.extents for member in self.layout.classes[c])

    def right_env(self, n: Normalizer, env: Env) -> Env:
        """The places of the right side for those of the left: along an arithmetic axis the same number.

        Raises NotProved where the right side may have another size.
        """
        found = dict(env)
        for axis in self.layout.universe:
            left, right = (self.layout.of(side.shape.get(axis, NOTHING)) for side in (self.left, self.right))
            if axis == ALL and not set(right) <= set(left):
                raise NotProved("the right side may have another shape")
            if left == right or axis == ALL or not set(right) & self.layout.ranged:
                continue
            size = n.size_of(left[0]) if left else ONE
            (c,) = right
            n.require(n.relation("=", n.size_of(c) - size))
            index = n.index_value(env[axis][left[0]]) if left else ZERO
            found[axis] = {**env[axis], c: n.place(c, index)}
        return found

    def env(self, number: int) -> Env:
        """An index of its own for every class along every axis: a class may lie along both axes of a square matrix."""
        places = range(len(self.layout.classes))
        return {axis: {c: Index(c, "free", number + i) for c in places} for i, axis in enumerate(self.layout.universe)}


MAX_BROADCASTS = 64


def denotations(rule: Rule) -> Iterator[Denotation]:
    """Denotations of the rule, one for each way in which tensors that meet along an arithmetic axis are broadcast there.

    Raises NoFormula or Unrelated where the rule has no denotation.
    """
    tried: set[frozenset[Member]] = set()
    waiting: list[frozenset[Member]] = [frozenset()]
    while waiting:
        case = waiting.pop()
        if case in tried:
            continue
        tried.add(case)
        if len(tried) > MAX_BROADCASTS:
            raise Unrelated("there are too many ways in which its tensors may be broadcast")
        spatial = spatial_rank(rule)
        arithmetic = arithmetic_axes(rule, spatial)
        layout = AxisClasses(universe(rule), scalar_captures(rule), arithmetic=arithmetic, broadcast=case, spatial=spatial)
        try:
            meaning = denote(rule, layout)
        except Subsumed as narrower:
            if narrower.args:
                waiting.append(case.union(*narrower.args))
                continue
            meaning = None
        if meaning is not None:
            layout.alike += meaning.alike(integral_captures(rule))
        waiting += [case | layout.linked(member) for member in reversed(layout.meeting()) if member not in case]
        if meaning is not None:
            yield meaning


def denote(rule: Rule, layout: AxisClasses) -> Denotation:
    """The rule's meaning in one case of broadcasting. Raises Subsumed where another case holds this one."""
    math, rearranging = SymMath(layout), Rearranging(layout)
    booleans = boolean_captures(rule)
    ranks, fixed, numbers = known_ranks(rule), all_ranks_known(rule), numbers_beside_convolutions(rule)
    memo: dict[Expr, Sym] = {}

    def is_number(node: Expr) -> bool:
        return isinstance(node, Literal) or (isinstance(node, Capture) and node.name in layout.scalars)

    def tensor(node: Expr) -> Sym:
        if node not in memo:
            memo[node] = build(node)
        return memo[node]

    def build(node: Expr) -> Sym:
        match node:
            case Capture(name):
                known = ranks.get(name, 0)
                missing = name in layout.scalars or ranks.get(name) == 0
                members = {
                    axis: NOTHING
                    if missing or (fixed and isinstance(axis, int) and axis < -known) or (axis != ALL and (name, axis) in layout.broadcast)
                    else frozenset({(name, axis)})
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
                if any(map(is_number, with_axes(node))):
                    # it has no axis along which its elements could move or be contracted, so the expression has no type
                    layout.bounds.append(lambda n: [FALSE])
                step = reshaping(node)
                if step is not None and fixed:
                    return getattr(math, step[0])(tensor(operands[0]), step[1])  # type: ignore[no-any-return]
                settings = dict(node.attributes)
                if isinstance(settings.get("shape"), Capture):
                    return rearranging.reshape(tensor(operands[0]), settings["axes"], settings["shape"].name)
                if isinstance(settings.get("perm"), Capture | Apply):
                    return rearranging.permute(tensor(operands[0]), word(settings["perm"]))
                if operation.FACTS.real is None:
                    raise NoFormula(f"{node.name} has no formula over the reals")
                attributes = {k: math_attribute(v, tensor) for k, v in node.attributes}
                if node.name == "conv":
                    attributes.update(
                        {
                            k: each_axis(layout, v.name, layout.spatial, v.name in numbers)
                            for k, v in node.attributes
                            if isinstance(v, Capture) and k != "groups"
                        }
                    )
                return operation.FACTS.real(math, *(tensor(x) for x in operands), **attributes)  # type: ignore[no-any-return]
        raise TypeError(f"no expression: {node!r}")

    left = tensor(rule.pattern)
    facts, shapes = [], []
    conditions = conjuncts(rule.where)
    parts = [(condition, comparison_fact(condition, tensor)) for condition in conditions if not isinstance(condition, Free | SameSize)]
    left_extents, left_bounds = len(layout.extents), len(layout.bounds)
    right = tensor(rule.replacement)
    for axis in layout.universe:
        if axis not in layout.arithmetic:
            layout.unite(left.shape.get(axis, NOTHING) | right.shape.get(axis, NOTHING))
    for condition in conditions:
        match condition:
            case Free(operand, axes):
                for a in axes:
                    members = tensor(operand).shape.get(a, NOTHING)
                    if layout.is_arithmetic(members) or a in layout.arithmetic:
                        layout.must_be_single(members)
                    elif members:
                        layout.absent.add(members)
            case SameSize(x, y, axes):
                for a in layout.universe if ALL in axes else axes:
                    one, other = tensor(x).shape.get(a, NOTHING), tensor(y).shape.get(a, NOTHING)
                    if a == ALL and bool(one & layout.broadcast) != bool(other & layout.broadcast):
                        raise Subsumed
                    layout.equal.add((one, other))
    square = [name for name in sorted(orthogonal_captures(rule)) if {-1, -2} <= set(layout.universe) and Capture(name) in memo]
    layout.equal |= {(memo[Capture(name)].shape[-1], memo[Capture(name)].shape[-2]) for name in square}
    for _, fact in parts:
        if fact is not None:
            facts.append(fact[0])
            shapes.append(joined(layout, *fact[1]))
    for axis in layout.universe:
        if isinstance(axis, str) and axis not in layout.arithmetic:
            layout.unite([m for m in layout.parent if m[1] == axis])
    layout.finish()
    orthogonal = frozenset(name for name in square if all(len(layout.of(memo[Capture(name)].shape[axis])) == 1 for axis in (-1, -2)))
    return Denotation(layout, left, right, facts, shapes, left_extents, left_bounds, orthogonal)


def each_axis(layout: AxisClasses, name: str, count: int, one: bool) -> list[Sym]:
    """A captured setting of a convolution: a number of its own for every spatial axis, or one for all."""
    if one or count == 1:
        return [Sym(layout, {}, capture_element(name, False))]
    return [Sym(layout, {}, capture_element(f"{name}.{i}", False)) for i in range(count)]


def math_attribute(value: Any, tensor: Callable[[Expr], Sym]) -> Any:
    if isinstance(value, Capture | Literal | Apply | Size):
        return tensor(value)
    return str(value) if isinstance(value, DTypeOf) else value


def capture_element(name: str, boolean: bool) -> Callable[[Normalizer, Env], Value]:
    def element(n: Normalizer, env: Env) -> Value:
        places = tuple(n.normal_place(place) for axis in sorted(env, key=repr) for _, place in sorted(env[axis].items()))
        return Proposition("cap", name, places) if boolean else n.capture(name, places)

    return element


def comparison_fact(condition: Condition, tensor: Callable[[Expr], Sym]) -> tuple[Callable[..., Proposition], list[Sym]] | None:
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
