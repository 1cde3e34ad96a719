"""A record of a proof: beside every normal form the expression that it stands for, and a claim for every step on the way.

`TracingNormalizer` computes what `Normalizer` does. Its results are `Traced` terms: arithmetic, choices and comparisons are kept as
they were written, and each application of a theorem of `elementary.py` or `reductions.py` is a node with its normal form.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from hnfc.dsl.core import Rule
from hnfc.dsl.soundness.claims import Claim, ClaimNode, Equivalent, Fact, Goal, Lemma, RecordedSigns, Same, value_node
from hnfc.dsl.soundness.closing import Closer, Query, in_mask
from hnfc.dsl.soundness.denote import Denotation
from hnfc.dsl.soundness.limits import Work
from hnfc.dsl.soundness.normal_form import Normalizer, connect, negation
from hnfc.dsl.soundness.proof_observer import Case, ProofObserver
from hnfc.dsl.soundness.signs import ANY, Contradiction
from hnfc.dsl.soundness.term import FALSE, ONE, ZERO, Atom, Index, Place, Proposition, Rational, atom, of_atom


class Traced(Rational):
    """A normal form with the node that it belongs to."""

    def __init__(self, plain: Rational, node: ClaimNode) -> None:
        super().__init__(plain.num, plain.den)
        self.plain, self.node = plain, node

    def __add__(self, other: Rational) -> Rational:
        return combined("+", self, other)

    def __radd__(self, other: Rational) -> Rational:
        return self if other.zero else combined("+", other, self)

    def __sub__(self, other: Rational) -> Rational:
        return combined("-", self, other)

    def __rsub__(self, other: Rational) -> Rational:
        return combined("-", other, self)

    def __mul__(self, other: Rational) -> Rational:
        return combined("*", self, other)

    def __rmul__(self, other: Rational) -> Rational:
        return combined("*", other, self)

    def __neg__(self) -> Rational:
        value = -self.plain
        return Traced(value, ClaimNode("neg", (self.node,), value))


def plain(x: Rational) -> Rational:
    return x.plain if isinstance(x, Traced) else x


def node_of(x: Rational) -> ClaimNode:
    return x.node if isinstance(x, Traced) else value_node(x)


def combined(op: str, left: Rational, right: Rational) -> Traced:
    x, y = plain(left), plain(right)
    value = x + y if op == "+" else x - y if op == "-" else x * y
    return Traced(value, ClaimNode(op, (node_of(left), node_of(right)), value))


PREDICATES = {"=": "eq", ">": "gt", ">=": "ge"}


class TracingNormalizer(Normalizer):
    """A normalizer that records claims. `given`: facts that its signs lack, since a value was put in the place of another."""

    signs: RecordedSigns

    def __init__(self, integral: frozenset[str], given: Sequence[Fact]) -> None:
        super().__init__(integral=integral)
        self.signs = RecordedSigns(self.rename, integral)
        self.given = list(given)
        self.lemmas: list[Lemma] = []
        self.claims: list[Claim] = []
        self.recorded: set[tuple[Any, ...]] = set()
        self.inside = 0

    # claims

    def claim(self, what: str, goal: Goal, signs: RecordedSigns | None = None, query: Query | None = None) -> None:
        """Claims that the goal follows from the assumptions of these signs, by default the present ones."""
        self.claims.append(Claim(what, goal, (signs or self.signs).copy(), tuple(self.given), tuple(self.lemmas), query))

    def once(self, what: str, key: tuple[Any, ...], goal: Goal, signs: RecordedSigns | None = None) -> None:
        """Claims what has not been claimed under these guards, or under fewer."""
        guards = tuple(self.guards)
        if not any((what, *key, guards[:i]) in self.recorded for i in range(len(guards) + 1)):
            self.recorded.add((what, *key, guards))
            self.claim(what, goal, signs)

    def under_guards(self, cond: Proposition) -> Proposition:
        return connect("or", cond, *map(negation, self.guards))

    def note(self, what: str, *parts: Any) -> None:
        match what:
            case "a size":
                self.given.append(Fact(self.signs.why, parts[0]))
            case "multiple-angle":
                self.lemmas.append(Lemma(what, tuple(Proposition("=", of_atom(base) - image) for base, image in parts[0].items())))
            case "equal-arguments":
                x, y = parts
                for a, b in zip(x.args, y.args, strict=True):
                    if isinstance(a, Rational) and a != b:
                        self.claim("arguments", Same(value_node(a), value_node(b)))
                self.lemmas.append(Lemma(what, (Proposition("=", of_atom(x) - of_atom(y)),)))
            case "exp-injective":
                terms, scale = parts
                self.claim("exponential", Same(exponential(terms, scale), value_node(ONE)))
                self.lemmas.append(Lemma(what, (Proposition("=", terms),)))
            case _:
                self.signs.why = what

    def answered(self, query: Query) -> None:
        """A fact from here on, which Z3 confirmed."""
        assert isinstance(query.signs, RecordedSigns)
        for cond, name in query.named.items():
            if name in ("fact", "instance"):
                self.once("fact", (cond,), cond, query.signs)
        self.claim("Z3", query.goal, query.signs, query)
        if query.goal.kind != "false":
            self.given.append(Fact("shown before", self.under_guards(query.goal)))

    def sign(self, x: Rational) -> int:
        x = plain(x)
        mask = self.signs.sign(x)
        if mask != ANY and x.constant() is None:
            self.once("sign", (x, mask), in_mask(x, mask))
        return super().sign(x)

    def require(self, cond: Proposition) -> None:
        needed = not self.settled and cond.kind != "true"
        if needed and not self.proving and self.guards:
            guarded = self.under_guards(cond)
            self.given.append(Fact("the left side is defined", guarded, tuple(i for i in self.bound if i in guarded.ixs)))
        before = self.signs.copy()
        with self.signs.saying("shown before" if self.proving else self.signs.why):
            super().require(cond)
        if needed and self.proving:
            self.claim("defined", cond, before)

    # facts

    def tell(
        self, theorem: str, says: Proposition, x: Rational, mask: int, quantified: tuple[Index, ...], hypothesis: Proposition | None
    ) -> None:
        if hypothesis is not None:
            self.once("sign of elements", (hypothesis,), hypothesis)
        total = says.args[0]
        if isinstance(total, Traced):
            self.checked(total.node)
            says = Proposition(says.kind, total.plain)
        self.given.append(Fact(theorem, says, quantified))
        self.once("sign of elements", (x, mask), in_mask(x, mask))
        with self.signs.saying("shown before"):
            super().tell(theorem, says, x, mask, quantified, hypothesis)

    def assume_equal(self, x: Rational) -> None:
        before = set(self.subst)
        super().assume_equal(plain(x))
        for base in self.subst.keys() - before:
            equation = Proposition("=", of_atom(base) - self.subst[base])
            self.claim("substitution", equation)
            self.given.append(Fact("substitution", equation))

    @contextlib.contextmanager
    def guard(self, cond: Proposition) -> Iterator[None]:
        before = self.signs
        self.signs = before.copy()
        self.guards.append(cond)
        self.outside.append(before)
        try:
            with self.signs.saying("this branch is taken"):
                self.signs.assume(cond)
            yield
        except Contradiction:
            self.claim("branch", FALSE)
            raise
        finally:
            self.signs = before
            self.guards.pop()
            self.outside.pop()

    def index_value(self, place: Place) -> Rational:
        with self.signs.saying("an index is within its range"):
            value = super().index_value(place)
        return value if self.inside else Traced(value, value_node(value))

    def size_of(self, cls: int) -> Rational:
        value = plain(super().size_of(cls))
        return value if self.inside else Traced(value, value_node(value))

    def place(self, cls: int, value: Rational) -> Place:
        self.checked(node_of(value))
        return super().place(cls, plain(value))

    def range_of(self, length: Rational) -> int:
        self.checked(node_of(length))
        return super().range_of(plain(length))

    # comparisons

    def relation(self, kind: str, x: Rational) -> Proposition:
        cond = super().relation(kind, plain(x))
        if isinstance(x, Traced) and not self.inside:
            self.once("condition", (kind, x.node), Equivalent(PREDICATES[kind], x.node, value_node(ZERO), cond))
        return cond

    def compare(self, predicate: str, x: Rational, y: Rational) -> Proposition:
        cond = super().compare(predicate, plain(x), plain(y))
        left, right = node_of(x), node_of(y)
        if not self.inside and not (left.leaf and right.leaf and cond.kind in ("true", "false")):
            self.once("condition", (predicate, left, right), Equivalent(predicate, left, right, cond))
        return cond

    # terms

    def applied(self, op: str, function: Callable[..., Rational], operands: Sequence[Rational], detail: Any = None) -> Rational:
        """function(*operands) as one node; functions inside are steps of its theorem."""
        if self.inside:
            return function(*operands)
        self.inside += 1
        try:
            value = function(*map(plain, operands))
        finally:
            self.inside -= 1
        node = ClaimNode(op, [node_of(x) for x in operands], value, detail, self.guards)
        if node.leaf or op in ("/", "power"):
            # what a theorem was applied to, or what must not be 0
            for operand in node.operands[1:] if op == "/" else node.operands:
                self.checked(operand)
        return Traced(value, node)

    def checked(self, node: ClaimNode) -> None:
        """Claims that the node has the value of its normal form, which is used from here on."""
        if not node.leaf:
            self.once("normal form", (node,), Same(node, value_node(node.value)))

    def capture(self, name: str, places: tuple[Place, ...]) -> Rational:
        value = super().capture(name, places)
        return value if self.inside else Traced(value, ClaimNode("capture", (), value, atom("cap", name, places)))

    def divide(self, x: Rational, y: Rational) -> Rational:
        return self.applied("/", super().divide, (x, y))

    def exp(self, x: Rational) -> Rational:
        return self.applied("exp", super().exp, (x,))

    def log(self, x: Rational) -> Rational:
        return self.applied("log", super().log, (x,))

    def sqrt(self, x: Rational) -> Rational:
        return self.applied("sqrt", super().sqrt, (x,))

    def pow(self, x: Rational, y: Rational) -> Rational:
        c, power = y.constant(), super().pow
        if c is not None and c.denominator == 1 and abs(c) <= 64:
            return self.applied("power", lambda x: power(x, plain(y)), (x,), int(c))
        return self.applied("pow", power, (x, y))

    def sin(self, x: Rational) -> Rational:
        return self.applied("sin", super().sin, (x,))

    def cos(self, x: Rational) -> Rational:
        return self.applied("cos", super().cos, (x,))

    def odd(self, kind: str, x: Rational) -> Rational:
        function = super().odd
        return self.applied(kind, lambda x: function(kind, x), (x,))

    def even(self, kind: str, x: Rational) -> Rational:
        function = super().even
        return self.applied(kind, lambda x: function(kind, x), (x,))

    def arc(self, kind: str, x: Rational) -> Rational:
        function = super().arc
        return self.applied(kind, lambda x: function(kind, x), (x,))

    def opaque(self, kind: str, *xs: Rational) -> Rational:
        function = super().opaque
        return self.applied(kind, lambda *xs: function(kind, *xs), xs)

    def atan2(self, y: Rational, x: Rational) -> Rational:
        return self.applied("atan2", super().atan2, (y, x))

    def floor(self, x: Rational) -> Rational:
        return self.applied("floor", super().floor, (x,))

    def lgamma(self, x: Rational) -> Rational:
        return self.applied("lgamma", super().lgamma, (x,))

    def abs(self, x: Rational) -> Rational:
        return self.applied("abs", super().abs, (x,))

    def maximum(self, x: Rational, y: Rational) -> Rational:
        return self.applied("max", super().maximum, (x, y))

    def minimum(self, x: Rational, y: Rational) -> Rational:
        return self.applied("min", super().minimum, (x, y))

    def ite(self, cond: Proposition, x: Rational, y: Rational, linear: bool) -> Rational:
        function = super().ite
        return self.applied("ite", lambda x, y: function(cond, x, y, linear), (x, y), cond)

    def sum(self, ixs: Sequence[Index], body: Rational) -> Rational:
        function = super().sum
        return self.applied("sum", lambda body: function(ixs, body), (body,), tuple(ixs))

    def prod(self, ixs: Sequence[Index], body: Rational) -> Rational:
        function = super().prod
        return self.applied("prod", lambda body: function(ixs, body), (body,), tuple(ixs))

    def extreme(self, kind: str, ixs: Sequence[Index], body: Rational) -> Rational:
        function = super().extreme
        return self.applied("largest" if kind == "max" else "least", lambda body: function(kind, ixs, body), (body,), tuple(ixs))


def exponential(terms: Rational, scale: int) -> ClaimNode:
    """exp(scale·terms) as the product that theorems on exp make of it: (exp m)^c for a monomial c·m, p^c for a term c·log p."""
    result = value_node(ONE)
    for mono, c in terms.num.items():
        base: Atom | None = mono[0][0] if len(mono) == 1 and mono[0][1] == 1 else None
        if base is not None and base.kind == "log":
            inside: Rational = base.args[0]
            factor = ClaimNode("power", (value_node(inside),), ONE, int(c * scale))
        else:
            factor = value_node(of_atom(atom("exp", Rational({mono: Fraction(1)})), c * scale))
        result = ClaimNode("*", (result, factor), ONE)
    return result


@dataclass
class Closed:
    """A case that was closed: with its two sides, or as impossible. rule: as it was read, from left to right."""

    rule: Rule
    meaning: Denotation
    assumptions: Case
    n: TracingNormalizer
    reason: str
    sides: tuple[Rational, Rational] | None = None


@dataclass
class Record(ProofObserver):
    """Every case that was closed, in order."""

    closed: list[Closed] = field(default_factory=list)
    rule: Rule | None = None
    current: tuple[Denotation, Case, TracingNormalizer] | None = None

    def about(self, rule: Rule) -> None:
        self.rule = rule

    def tools(self, meaning: Denotation, assumptions: Case, integral: frozenset[str], work: Work) -> tuple[Normalizer, Closer]:
        n = TracingNormalizer(integral, [Fact("case", cond if value else negation(cond)) for cond, value in assumptions])
        closer = Closer(n.rename, work, n.answered)
        n.entails = closer.entails
        self.current = meaning, assumptions, n
        return n, closer

    def equal(self, left: Rational, right: Rational, reason: str) -> None:
        self._close(reason, (plain(left), plain(right))).claim("equality", Same(node_of(left), node_of(right)))

    def impossible(self) -> None:
        n = self._close("impossible", None)
        if not (n.claims and n.claims[-1].query is not None and n.claims[-1].goal == FALSE):
            n.claim("impossible", FALSE)

    def _close(self, reason: str, sides: tuple[Rational, Rational] | None) -> TracingNormalizer:
        assert self.rule is not None and self.current is not None
        meaning, assumptions, n = self.current
        self.closed.append(Closed(self.rule, meaning, assumptions, n, reason, sides))
        return n
