"""Formulas as expressions over the operations of the dialect: what ball arithmetic, NumPy and the prover read."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hnfc.dialects.num import OPERATIONS
from hnfc.dsl.core import Apply, Capture, Expr, Literal, Size
from hnfc.dsl.error.polynomial import ErrorAtom, Mono, Poly
from hnfc.dsl.polynomials import Exponent

ZERO_LITERAL = Literal(Fraction(0))


def call(name: str, *operands: Expr, **attributes: Any) -> Apply:
    return Apply(OPERATIONS[name], operands, tuple(attributes.items()))


class Writer:
    """Polynomials as expressions; equal parts become one node."""

    def __init__(self) -> None:
        self.memo: dict[str, Expr] = {}

    def expression(self, x: Poly) -> Expr:
        if x.key not in self.memo:
            parts = [self.term(mono, c) for mono, c in sorted(x.terms.items(), key=lambda t: [(a.key, e) for a, e in t[0]])]
            result: Expr = parts[0] if parts else ZERO_LITERAL
            for part in parts[1:]:
                result = call("add", result, part)
            self.memo[x.key] = result
        return self.memo[x.key]

    def term(self, mono: Mono, c: Fraction) -> Expr:
        """c·Π atom^e; a value under conditions is one only where they hold."""
        conditions = [a for a, _ in mono if a.kind == "ind"]
        above = [self.power(a, e) for a, e in mono if e > 0 and a.kind != "ind"]
        below = [self.power(a, -e) for a, e in mono if e < 0]
        result: Expr = Literal(c)
        if above:
            result = above[0]
            for factor in above[1:]:
                result = call("mul", result, factor)
            if c != 1:
                result = call("mul", Literal(c), result)
        for factor in below:
            result = call("div", result, factor)
        for atom in conditions:
            result = call("where", self.condition(atom.args[0]), result, ZERO_LITERAL)
        return result

    def power(self, atom: ErrorAtom, e: Exponent) -> Expr:
        if atom.kind == "exp":
            return call("exp", self.expression(atom.args[0].scale(Fraction(e))))
        base = self.atom(atom)
        if e == 1:
            return base
        if e == 2:
            return call("square", base)
        if e == Fraction(1, 2):
            return call("sqrt", base)
        return call("pow", base, Literal(Fraction(e)))

    def atom(self, atom: ErrorAtom) -> Expr:
        if atom.key not in self.memo:
            self.memo[atom.key] = self._atom(atom)
        return self.memo[atom.key]

    def _atom(self, atom: ErrorAtom) -> Expr:
        args = atom.args
        match atom.kind:
            case "var":
                assert isinstance(atom.like, Capture)
                return atom.like
            case "size":
                return Size(atom.like, (args[0],))
            case "base":
                return self.expression(args[0])
            case "abs" | "sign":
                return call(atom.kind, self.expression(args[0]))
            case "sum" | "prod" | "max" | "min":
                axes, body, missing = args
                return call(atom.kind, self.whole(self.expression(body), atom.like, bool(missing)), axes=axes)
            case "matmul":
                left, right, lacking = args
                sides = zip((left, right), atom.like, lacking, strict=True)
                return call("matmul", *(self.whole(self.expression(x), like, bool(axes)) for x, like, axes in sides))
            case "conv":
                left, right, lacking, attributes = args
                sides = zip((left, right), atom.like, lacking, strict=True)
                return Apply(OPERATIONS["conv"], tuple(self.whole(self.expression(x), like, lack) for x, like, lack in sides), attributes)
            case "move":
                return Apply(OPERATIONS[args[1]], tuple(map(self.expression, args[0])), args[2])
            case "fn":
                return Apply(OPERATIONS[args[0]], tuple(self.expression(x) for x in args[1]), args[2])
        raise AssertionError(atom.kind)

    @staticmethod
    def whole(x: Expr, like: Expr, needed: bool) -> Expr:
        """x in the shape of `like`: a size counts all elements that are added up, not only those that differ."""
        return call("add", x, call("mul", ZERO_LITERAL, like)) if needed else x

    def condition(self, tree: Any) -> Expr:
        match tree[0]:
            case "cap":
                return Capture(tree[1])
            case "not":
                return call("logical_not", self.condition(tree[1]))
            case "and":
                return call("logical_and", self.condition(tree[1]), self.condition(tree[2]))
        return call("compare", self.expression(tree[1]), ZERO_LITERAL, predicate=tree[0])
