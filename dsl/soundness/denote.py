"""What an expression means: at a symbolic index, a scalar term. This module is the `Math` whose tensors are such functions.

Shapes first. Along every axis (an axis variable of the rule, or one of the last two axes) each capture has its full size or
size 1, and an axis variable stands for several axes, so both may happen within one variable. An axis therefore falls into
*classes*: one for every way in which the captures may vary there, as far as a reduction can tell. All classes together, each
of its own unknown size ≥ 1, are the most general shape; a proof for them is a proof for every shape, since size 1 is a size.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, TypeAlias

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
    Not,
    Property,
    Rule,
    SameSize,
    Size,
)
from hnfc.dsl.core import walk as walk_expression
from hnfc.dsl.soundness.normal_form import Normalizer, connect, negation
from hnfc.dsl.soundness.signs import Contradiction
from hnfc.dsl.soundness.term import FALSE, ONE, TRUE, ZERO, Cond, Ix, Rational, atom, const, of_atom

Member: TypeAlias = tuple[str, Axis]
"""A capture's own axis, before it is known which axes meet."""

Shape: TypeAlias = Mapping[Axis, frozenset[Member]]
Env: TypeAlias = tuple[tuple[Axis, tuple[tuple[int, Ix], ...]], ...]
Value: TypeAlias = Rational | Cond

NOTHING: frozenset[Member] = frozenset()
RESULT, QUANTIFIED, BOUND = 0, 500, 1000
"""Where the numbers of free indices start: the result's own, those of a universal fact, those below reductions."""
MAX_MEMBERS = 12
MAX_AXES = 8


class Unrelated(Exception):
    """The rule mixes axes whose relation is not known."""


@dataclass
class Layout:
    """How the axes of a rule fall into classes."""

    universe: tuple[Axis, ...]
    scalars: frozenset[str] = frozenset()
    parent: dict[Member, Member] = field(default_factory=dict)
    seen_by_reductions: set[frozenset[Member]] = field(default_factory=set)
    equal: set[tuple[frozenset[Member], frozenset[Member]]] = field(default_factory=set)
    absent: set[frozenset[Member]] = field(default_factory=set)
    classes: list[frozenset[Member]] = field(default_factory=list)

    def root(self, member: Member) -> Member:
        while self.parent.setdefault(member, member) != member:
            member = self.parent[member]
        return member

    def unite(self, members: Iterable[Member]) -> None:
        roots = {self.root(m) for m in members}
        if roots:
            first = min(roots, key=repr)
            for r in roots:
                self.parent[r] = first

    def finish(self) -> None:
        """Forms the classes: sets of members that no reduction, contraction or condition tells apart, as large as possible."""
        for a, b in self.equal:
            self.unite(a | b)
        components: dict[Member, list[Member]] = {}
        for member in list(self.parent):
            components.setdefault(self.root(member), []).append(member)
        watched = self.seen_by_reductions | self.absent | {s for pair in self.equal for s in pair}
        for members in components.values():
            if len(members) > MAX_MEMBERS:
                raise Unrelated(f"{len(members)} captures meet along one axis")
            here = sorted((s for s in watched if s & set(members)), key=lambda s: sorted(map(repr, s)))
            merged: dict[tuple[bool, ...], frozenset[Member]] = {}
            for count in range(1, len(members) + 1):
                for chosen in itertools.combinations(members, count):
                    subset = frozenset(chosen)
                    if any(s & subset for s in self.absent) or any(bool(a & subset) != bool(b & subset) for a, b in self.equal):
                        continue
                    signature = tuple(bool(s & subset) for s in here)
                    merged[signature] = merged.get(signature, frozenset()) | subset
            self.classes += list(merged.values())

    def of(self, members: frozenset[Member]) -> tuple[int, ...]:
        """The classes along which something made of these members varies."""
        return tuple(i for i, s in enumerate(self.classes) if s & members)


@dataclass(eq=False)
class Sym:
    """A tensor: its shape, and its element at an index."""

    layout: Layout
    shape: Shape
    element: Callable[[Normalizer, dict[Axis, dict[int, Ix]]], Value]

    def at(self, n: Normalizer, env: dict[Axis, dict[int, Ix]]) -> Value:
        own = {axis: {c: env[axis][c] for c in self.layout.of(members)} for axis, members in self.shape.items() if members}
        memo: dict[Any, tuple[Value, int]] = n.__dict__.setdefault("memo", {})
        key = (id(self), tuple((axis, tuple(sorted(ixs.items()))) for axis, ixs in own.items()), tuple(n.guards))
        if key not in memo:
            before = n.obligations
            value = self.element(n, own)
            memo[key] = value, n.obligations - before
        else:
            n.obligations += memo[key][1]
        return memo[key][0]

    def real(self, n: Normalizer, env: dict[Axis, dict[int, Ix]]) -> Rational:
        value = self.at(n, env)
        if isinstance(value, Rational):
            return value
        known = n.decide(value)
        return n.ite(value, ONE, ZERO, True) if known is None else ONE if known else ZERO

    def cond(self, n: Normalizer, env: dict[Axis, dict[int, Ix]]) -> Cond:
        value = self.at(n, env)
        return value if isinstance(value, Cond) else n.compare("ne", value, ZERO)

    def __add__(self, other: Sym) -> Sym:
        return pointwise(lambda n, x, y: x + y, self, other)

    def __sub__(self, other: Sym) -> Sym:
        return pointwise(lambda n, x, y: x - y, self, other)

    def __mul__(self, other: Sym) -> Sym:
        return pointwise(lambda n, x, y: x * y, self, other)

    def __truediv__(self, other: Sym) -> Sym:
        return pointwise(lambda n, x, y: n.divide(x, y), self, other)

    def __neg__(self) -> Sym:
        return pointwise(lambda n, x: -x, self)


def _without_matrix(x: Sym) -> Sym:
    return Sym(x.layout, {axis: members for axis, members in x.shape.items() if axis not in (-1, -2)}, x.element)


def joined(layout: Layout, *tensors: Sym) -> Shape:
    """The shape of a pointwise operation; axes that meet are one from here on."""
    shape = {}
    for axis in layout.universe:
        members = frozenset().union(*(t.shape.get(axis, NOTHING) for t in tensors))
        layout.unite(members)
        shape[axis] = members
    return shape


def pointwise(function: Callable[..., Rational], *tensors: Sym) -> Sym:
    layout = tensors[0].layout
    return Sym(layout, joined(layout, *tensors), lambda n, env: function(n, *(t.real(n, env) for t in tensors)))


class SymMath:
    """The `Math` protocol on `Sym`."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    @property
    def true(self) -> Sym:
        return Sym(self.layout, {}, lambda n, env: TRUE)

    def const(self, value: Any) -> Sym:
        if isinstance(value, Sym):
            return value
        if isinstance(value, bool):
            return Sym(self.layout, {}, lambda n, env: TRUE if value else FALSE)
        if isinstance(value, float) and value - value != 0:
            raise NoFormula("an infinity or a nan is no real number")
        number = const(Fraction(value))
        return Sym(self.layout, {}, lambda n, env: number)

    def exp(self, x: Sym) -> Sym:
        return pointwise(lambda n, a: n.exp(a), x)

    def log(self, x: Sym) -> Sym:
        return pointwise(lambda n, a: n.log(a), x)

    def sqrt(self, x: Sym) -> Sym:
        return pointwise(lambda n, a: n.sqrt(a), x)

    def pow(self, x: Sym, y: Sym) -> Sym:
        return pointwise(lambda n, a, b: n.pow(a, b), x, y)

    def sin(self, x: Sym) -> Sym:
        return pointwise(lambda n, a: n.odd("sin", a), x)

    def cos(self, x: Sym) -> Sym:
        return pointwise(lambda n, a: n.even("cos", a), x)

    def atan(self, x: Sym) -> Sym:
        return pointwise(lambda n, a: n.odd("atan", a), x)

    def asin(self, x: Sym) -> Sym:
        return pointwise(lambda n, a: n.arc("asin", a), x)

    def acos(self, x: Sym) -> Sym:
        return pointwise(lambda n, a: n.arc("acos", a), x)

    def atan2(self, y: Sym, x: Sym) -> Sym:
        def value(n: Normalizer, a: Rational, b: Rational) -> Rational:
            zero = connect("and", n.relation("=", a), n.relation("=", b))
            n.require(negation(zero))
            return n.opaque("atan2", a, b)

        return pointwise(value, y, x)

    def erf(self, x: Sym) -> Sym:
        return pointwise(lambda n, a: n.odd("erf", a), x)

    def lgamma(self, x: Sym) -> Sym:
        return pointwise(lambda n, a: n.lgamma(a), x)

    def i0(self, x: Sym) -> Sym:
        return pointwise(lambda n, a: n.even("i0", a), x)

    def floor(self, x: Sym) -> Sym:
        return pointwise(lambda n, a: n.floor(a), x)

    def abs(self, x: Sym) -> Sym:
        return pointwise(lambda n, a: n.abs(a), x)

    def maximum(self, x: Sym, y: Sym) -> Sym:
        return pointwise(lambda n, a, b: n.maximum(a, b), x, y)

    def minimum(self, x: Sym, y: Sym) -> Sym:
        return pointwise(lambda n, a, b: n.minimum(a, b), x, y)

    # conditions

    def compare(self, predicate: str, x: Sym, y: Sym) -> Sym:
        shape = joined(self.layout, x, y)
        return Sym(self.layout, shape, lambda n, env: n.compare(predicate, x.real(n, env), y.real(n, env)))

    def logical_and(self, p: Sym, q: Sym) -> Sym:
        return Sym(self.layout, joined(self.layout, p, q), lambda n, env: connect("and", p.cond(n, env), q.cond(n, env)))

    def logical_or(self, p: Sym, q: Sym) -> Sym:
        return Sym(self.layout, joined(self.layout, p, q), lambda n, env: connect("or", p.cond(n, env), q.cond(n, env)))

    def logical_not(self, p: Sym) -> Sym:
        return Sym(self.layout, p.shape, lambda n, env: negation(p.cond(n, env)))

    def where(self, p: Sym, x: Sym, y: Sym) -> Sym:
        """Only the branch that is taken needs a value: the other one's definedness is no obligation."""

        def element(n: Normalizer, env: dict[Axis, dict[int, Ix]]) -> Value:
            cond = p.cond(n, env)
            known = n.decide(cond)
            if known is not None:
                return (x if known else y).at(n, env)
            before = n.obligations
            yes, no = branch(n, cond, x, env), branch(n, negation(cond), y, env)
            if yes is None or no is None:
                # one branch is never taken, for any index
                value = no if yes is None else yes
                if value is None:
                    raise Contradiction
                return value
            if isinstance(yes, Cond) and isinstance(no, Cond):
                return connect("or", connect("and", cond, yes), connect("and", negation(cond), no))
            values = [n.ite(v, ONE, ZERO, True) if isinstance(v, Cond) else v for v in (yes, no)]
            return n.ite(cond, values[0], values[1], n.obligations == before)

        return Sym(self.layout, joined(self.layout, p, x, y), element)

    # reductions

    def sum(self, x: Sym, axes: Iterable[Axis]) -> Sym:
        return self._reduce(lambda n, ixs, body: n.sum(ixs, body), x, axes, True)

    def prod(self, x: Sym, axes: Iterable[Axis]) -> Sym:
        return self._reduce(lambda n, ixs, body: n.prod(ixs, body), x, axes, True)

    def amax(self, x: Sym, axes: Iterable[Axis]) -> Sym:
        return self._reduce(lambda n, ixs, body: n.extreme("max", ixs, body), x, axes, False)

    def amin(self, x: Sym, axes: Iterable[Axis]) -> Sym:
        return self._reduce(lambda n, ixs, body: n.extreme("min", ixs, body), x, axes, False)

    def _reduce(self, combine: Callable[..., Rational], x: Sym, axes: Iterable[Axis], sized: bool) -> Sym:
        axes = tuple(axes)
        self.check(axes)
        if sized:
            self.layout.seen_by_reductions |= {x.shape[a] for a in axes if x.shape.get(a)}
        shape = {a: NOTHING if a in axes else members for a, members in x.shape.items()}

        def element(n: Normalizer, env: dict[Axis, dict[int, Ix]]) -> Value:
            inner = {
                a: self.bind(n, x.shape.get(a, NOTHING), i) if a in axes else env.get(a, {}) for i, a in enumerate(self.layout.universe)
            }
            ixs = [i for a in axes for i in inner.get(a, {}).values()]
            n.bound += ixs
            try:
                return combine(n, ixs, x.real(n, inner))
            finally:
                del n.bound[len(n.bound) - len(ixs) :]

        return Sym(self.layout, shape, element)

    def bind(self, n: Normalizer, members: frozenset[Member], offset: int) -> dict[int, Ix]:
        """New indices for the classes; their number tells the depth, so none is in use."""
        return {c: Ix(c, "free", BOUND + 8 * len(n.bound) + offset) for c in self.layout.of(members)}

    def check(self, axes: Iterable[Axis]) -> None:
        for axis in axes:
            if axis not in self.layout.universe:
                raise Unrelated(f"how axis {axis} relates to the others of this rule is not known")

    def size(self, x: Sym, axes: Iterable[Axis]) -> Sym:
        axes = tuple(axes)
        self.check(axes)
        self.layout.seen_by_reductions |= {x.shape[a] for a in axes if x.shape.get(a)}

        def element(n: Normalizer, env: dict[Axis, dict[int, Ix]]) -> Value:
            result = ONE
            for axis in axes:
                for c in self.layout.of(x.shape.get(axis, NOTHING)):
                    result = result * of_atom(atom("size", c))
            return result

        return Sym(self.layout, {}, element)

    # contraction and movement

    def matmul(self, a: Sym, b: Sym) -> Sym:
        """Σ_c A[…,i,c]·B[…,c,j]; the contracted sizes are equal, no side is broadcast."""
        self.check((-1, -2))
        left, right = a.shape.get(-1, NOTHING), b.shape.get(-2, NOTHING)
        self.layout.unite(left | right)
        self.layout.equal.add((left, right))
        self.layout.seen_by_reductions |= {s for s in (left, right) if s}
        batch = {
            axis: members for axis, members in joined(self.layout, _without_matrix(a), _without_matrix(b)).items() if axis not in (-1, -2)
        }
        shape = {**batch, -2: a.shape.get(-2, NOTHING), -1: b.shape.get(-1, NOTHING)}

        def element(n: Normalizer, env: dict[Axis, dict[int, Ix]]) -> Value:
            inner = self.bind(n, left | right, 0)
            ixs = list(inner.values())
            n.bound += ixs
            try:
                product = a.real(n, {**env, -2: env.get(-2, {}), -1: inner}) * b.real(n, {**env, -2: inner, -1: env.get(-1, {})})
                return n.sum(ixs, product)
            finally:
                del n.bound[len(n.bound) - len(ixs) :]

        return Sym(self.layout, shape, element)

    def transpose(self, x: Sym, perm: Any) -> Sym:
        if perm != "last_two":
            raise NoFormula("a permutation of axes that are counted from the left")
        self.check((-1, -2))
        return self.moved(x, {-1: -2, -2: -1})

    def moved(self, x: Sym, source: Mapping[Axis, Axis | None]) -> Sym:
        """The tensor whose axis a is the axis source[a] of x (None: an axis of size 1); other axes stay."""
        origin = {axis: source.get(axis, axis) for axis in self.layout.universe}
        shape = {axis: x.shape.get(o, NOTHING) if o is not None else NOTHING for axis, o in origin.items()}
        places = {o: axis for axis, o in origin.items() if o is not None}
        return Sym(self.layout, shape, lambda n, env: x.at(n, {o: env.get(axis, {}) for o, axis in places.items()}))

    def unsqueeze(self, x: Sym, place: int) -> Sym:
        """An axis of size 1 comes in at `place`, counted from the right in the result."""
        return self.moved(x, {a: a if a > place else None if a == place else a + 1 for a in self.layout.universe if isinstance(a, int)})

    def squeeze(self, x: Sym, place: int) -> Sym:
        """The axis at `place`, which has size 1, goes away."""
        if x.shape.get(place, NOTHING):
            raise NoFormula(f"whether axis {place} has size 1 is not known")
        return self.moved(x, {a: a if a > place else a - 1 for a in self.layout.universe if isinstance(a, int)})


def branch(n: Normalizer, cond: Cond, x: Sym, env: dict[Axis, dict[int, Ix]]) -> Value | None:
    """x where cond holds; None where that is never."""
    try:
        with n.guard(cond):
            return x.at(n, env)
    except Contradiction:
        return None


# Rules ----------------------------------------------------------------------------------------------------------------


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


def conjuncts(condition: Condition) -> list[Condition]:
    if isinstance(condition, AllOf):
        return [c for part in condition.parts for c in conjuncts(part)]
    return [condition]


def rule_expressions(rule: Rule) -> list[Expr]:
    from hnfc.dsl.core import condition_expressions

    roots = [rule.pattern, rule.replacement, *condition_expressions(rule.where)]
    return [node for root in roots for node in walk_expression(root)]


def used_axes(rule: Rule) -> set[Axis]:
    from hnfc.dsl.core import condition_parts

    axes: set[Axis] = set()
    for node in rule_expressions(rule):
        if isinstance(node, Size):
            axes |= set(node.axes)
        elif isinstance(node, Apply):
            axes |= set(dict(node.attributes).get("axes") or ())
    for part in condition_parts(rule.where):
        if isinstance(part, Free | SameSize):
            axes |= set(part.axes)
    return axes


CONTRACTING = frozenset(("matmul", "attention", "transpose"))


def reshaping(node: Expr) -> tuple[str, int] | None:
    """The reshapes that only add or drop an axis of size 1, as (`unsqueeze` or `squeeze`, axis)."""
    if isinstance(node, Apply) and node.name == "reshape" and len(node.operands) == 1 and len(node.attributes) == 1:
        key, place = node.attributes[0]
        if key in ("unsqueeze", "squeeze") and isinstance(place, int) and place < 0:
            return key, place
    return None


def known_ranks(rule: Rule) -> dict[str, int]:
    """The captures' ranks that the conditions fix."""
    return {
        c.operands[0].name: int(c.arguments[1])
        for c in conjuncts(rule.where)
        if isinstance(c, Property) and c.name == "rank" and isinstance(c.operands[0], Capture) and c.arguments[0] == "eq"
    }


def all_ranks_known(rule: Rule) -> bool:
    """Every capture's rank is fixed, so that every axis has a number from the right."""
    names = {n.name for n in rule_expressions(rule) if isinstance(n, Capture)} - scalar_captures(rule)
    return names <= known_ranks(rule).keys()


def universe(rule: Rule) -> tuple[Axis, ...]:
    """The axes that matter. Raises Unrelated where named and positional axes occur together."""
    axes = used_axes(rule)
    names = [n.name for n in rule_expressions(rule) if isinstance(n, Apply)]
    named = sorted(a for a in axes if isinstance(a, str))
    placed = {a for a in axes if isinstance(a, int)}
    if CONTRACTING & set(names):
        placed |= {-1, -2}
    steps = [step for n in rule_expressions(rule) if (step := reshaping(n)) is not None]
    if steps and named and all_ranks_known(rule):
        raise Unrelated(f"how axis {named[0]} lies to an axis that is added or dropped is not known")
    if steps and all_ranks_known(rule):
        deepest = max(known_ranks(rule).values(), default=0) + sum(step[0] == "unsqueeze" for step in steps)
        placed |= set(range(-deepest, 0)) | {step[1] for step in steps}
    if named and placed:
        raise Unrelated(f"how axis {named[0]} lies to the axes {', '.join(map(str, sorted(placed)))} is not known")
    tensors = {n.name for n in rule_expressions(rule) if isinstance(n, Capture)} - scalar_captures(rule)
    if any(a >= 0 for a in placed) and (len(tensors) > 1 or any(a < 0 for a in placed)):
        raise Unrelated("axes counted from the left, which are not the same for tensors of different rank")
    found = tuple(named) if named else tuple(sorted(placed))
    if len(found) > MAX_AXES:
        raise Unrelated(f"{len(found)} axes")
    return found


def boolean_captures(rule: Rule) -> frozenset[str]:
    """Captures that stand where only a truth value may."""
    found = set()
    for node in rule_expressions(rule):
        if isinstance(node, Capture) and node.dtypes == ("i1",):
            found.add(node.name)
        if not isinstance(node, Apply):
            continue
        places = node.operands[:1] if node.name == "where" else node.operands if node.name.startswith("logical_") else ()
        found |= {x.name for x in places if isinstance(x, Capture)}
    return frozenset(found)


def scalar_captures(rule: Rule) -> frozenset[str]:
    """Compile-time constants: each is one number."""
    captures = [n for n in rule_expressions(rule) if isinstance(n, Capture)]
    attributes = [v for n in rule_expressions(rule) if isinstance(n, Apply) for _, v in n.attributes if isinstance(v, Capture)]
    return frozenset(c.name for c in (*captures, *attributes) if c.const) | frozenset(c.name for c in attributes)


def abstracted(rule: Rule) -> tuple[Rule, bool]:
    """The rule with every operation that has no formula replaced by a new capture, the same one for equal expressions."""
    names: dict[Expr, Capture] = {}
    shaped = bool(used_axes(rule)) or any(isinstance(n, Apply) and n.name in CONTRACTING for n in rule_expressions(rule))

    fixed = all_ranks_known(rule)

    def known(node: Apply) -> bool:
        if fixed and reshaping(node) is not None:
            return True
        if node.name == "cast" and not real_format(dict(node.attributes).get("to"), rule):
            return False
        if node.operation.FACTS.real is None or (shaped and node.name == "broadcast"):
            return False
        layout = Layout(
            (-1, -2)
            if any(not isinstance(a, str) for a in dict(node.attributes).get("axes") or (-1,))
            else tuple(dict(node.attributes)["axes"])
        )
        blank = Sym(layout, {}, lambda n, env: ZERO)
        try:
            node.operation.FACTS.real(
                SymMath(layout), *[blank] * len(node.operands), **{k: math_attribute(v, lambda _: blank) for k, v in node.attributes}
            )
        except NoFormula:
            return False
        except Unrelated:
            return True
        return True

    def image(node: Expr) -> Expr:
        match node:
            case Size(operand, axes):
                return Size(image(operand), axes)
            case Apply():
                if not known(node):
                    return names.setdefault(node, Capture(f"{node.name}#{len(names)}"))
                return replace(node, operands=tuple(image(x) for x in node.operands))
        return node

    def condition(part: Condition) -> Condition:
        match part:
            case Comparison(predicate, x, y):
                return Comparison(predicate, image(x), image(y))
            case Free(operand, axes):
                return Free(image(operand), axes)
            case SameSize(x, y, axes):
                return SameSize(image(x), image(y), axes)
            case AllOf(parts):
                return AllOf(tuple(map(condition, parts)))
            case AnyOf(parts):
                return AnyOf(tuple(map(condition, parts)))
            case Not(inner):
                return Not(condition(inner))
            case Property():
                return part
        raise TypeError(f"no condition: {part!r}")

    left = image(rule.pattern)
    of_left = set(names)
    new = replace(rule, pattern=left, replacement=image(rule.replacement), where=condition(rule.where))
    if names:
        check_total(rule, names, of_left)
    return new, bool(names)


def real_format(element: Any, rule: Rule) -> bool:
    """A cast to this element type is the identity over the reals: a floating-point format."""
    if isinstance(element, DTypeOf):
        captures = [n for n in rule_expressions(rule) if isinstance(n, Capture) and n.name == element.capture]
        dtypes = [d for n in captures for d in n.dtypes]
        return bool(dtypes) and all(real_format(d, rule) for d in dtypes)
    return isinstance(element, str) and element.startswith(("f", "bf"))


TOTAL = frozenset(
    ("add", "sub", "mul", "neg", "abs", "exp", "expm1", "sin", "cos", "square", "maximum", "minimum", "relu", "sigmoid", "tanh", "cast")
)


def check_total(rule: Rule, names: Mapping[Expr, Capture], of_left: set[Expr]) -> None:
    """An operation without a formula may stand for any value only if it has one. Raises NoFormula where that is not sure."""
    inside = {id(x) for node in names for x in walk_expression(node)}
    for node in names:
        if (
            node not in of_left
            and not (isinstance(node, Apply) and node.name == "round_to")
            and not any(node == x for x in walk_expression(rule.pattern))
        ):
            raise NoFormula("the right side has an operation without a formula that the left side lacks")
        for x in walk_expression(node):
            if isinstance(x, Apply) and x not in names and x.name not in TOTAL and x.operation.FACTS.real is not None:
                raise NoFormula(f"whether {x.name} is defined below an operation without a formula is not known")
    if any(isinstance(x, Apply) and x.name == "where" and id(x) not in inside for x in rule_expressions(rule)):
        raise NoFormula("a choice beside an operation without a formula")
