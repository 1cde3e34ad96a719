"""Scalar terms over the operations of `num`, each made once: equal terms are the same object.

`Terms.make` brings a term into the shape that rules are matched on, by changes that no rounding sees (up to the sign of zero): operands
of `+` and `×` have one order, and signs move outward, so that a - b, a + (-b) and -(b - a) are one term.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from xdsl.traits import Commutative

from hnfc.dialects.facts import Parity
from hnfc.dialects.num import OPERATIONS

COMMUTATIVE = frozenset(name for name, operation in OPERATIONS.items() if operation.has_trait(Commutative))
ODD = frozenset(name for name, operation in OPERATIONS.items() if operation.FACTS.parity is Parity.ODD)
EVEN = frozenset(name for name, operation in OPERATIONS.items() if operation.FACTS.parity is Parity.EVEN)


class Term:
    """A variable (`value` is its name), a constant (`value` is its exact value), or an operation of `num` on terms."""

    __slots__ = ("args", "index", "op", "size", "value")

    def __init__(self, op: str, args: tuple[Term, ...], value: Any, index: int) -> None:
        self.op = op
        self.args = args
        self.value = value
        self.index = index
        self.size: int = 1 + sum(a.size for a in args)
        """Nodes of the term as a tree."""

    def __repr__(self) -> str:
        if self.op in ("var", "const"):
            return str(self.value)
        return f"({self.op}{'' if self.value is None else ':' + str(self.value)} {' '.join(map(repr, self.args))})"


class Terms:
    """The terms of one run."""

    def __init__(self) -> None:
        self._made: dict[Any, Term] = {}
        self._ordered: list[Term] = []
        self.zero, self.one, self.two = (self.const(Fraction(n)) for n in range(3))

    def var(self, name: str) -> Term:
        return self._intern("var", (), name)

    def const(self, value: Fraction | int) -> Term:
        return self._intern("const", (), Fraction(value))

    def _intern(self, op: str, args: tuple[Term, ...], value: Any = None) -> Term:
        key = (op, args, value)
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = Term(op, args, value, len(self._ordered))
            self._ordered.append(found)
        return found

    def make(self, op: str, *args: Term, value: Any = None) -> Term:
        """The operation on the operands."""
        shape = _SHAPES.get(op)
        if shape is not None:
            return shape(self, *args)
        if op in ODD and args[0].op == "neg":
            return self.make("neg", self.make(op, args[0].args[0]))
        if op in EVEN and args[0].op == "neg":
            return self.make(op, args[0].args[0])
        if op == "abs" and args[0].op in ("mul", "div"):
            return self.make(args[0].op, *(self.make("abs", a) for a in args[0].args))
        if op == "abs" and (args[0].op in ("abs", "sqrt") or (args[0].op == "const" and args[0].value >= 0)):
            return args[0]
        if op in COMMUTATIVE and args[0].index > args[1].index:
            args = (args[1], args[0])
        return self._intern(op, args, value)

    def size(self, x: Term) -> Term:
        """The size of the value that an operation has computed: |x·y|, where `make` writes |x|·|y|."""
        square = x.op == "mul" and x.args[0] is x.args[1]
        return x if square else self._intern("abs", (x,)) if x.op in ("mul", "div") else self.make("abs", x)

    # shapes ------------------------------------------------------------------------------------------------------

    def _neg(self, x: Term) -> Term:
        if x.op == "const":
            return self.const(-x.value)
        if x.op == "neg":
            return x.args[0]
        if x.op == "sub":
            return self._intern("sub", (x.args[1], x.args[0]))
        return self._intern("neg", (x,))

    def _add(self, x: Term, y: Term) -> Term:
        if x.op == "const" and y.op == "const" and _exact(x.value) and _exact(y.value):
            return self.const(x.value + y.value)
        if is_const(x, 0):
            return y
        if is_const(y, 0):
            return x
        if _negative(y):
            return self._sub(x, self._neg(y))
        if _negative(x):
            return self._sub(y, self._neg(x))
        return self._intern("add", (x, y) if x.index <= y.index else (y, x))

    def _sub(self, x: Term, y: Term) -> Term:
        if x.op == "const" and y.op == "const" and _exact(x.value) and _exact(y.value):
            return self.const(x.value - y.value)
        if is_const(y, 0):
            return x
        if is_const(x, 0):
            return self._neg(y)
        if _negative(y):
            return self._add(x, self._neg(y))
        if _negative(x):
            return self._neg(self._add(self._neg(x), y))
        return self._intern("sub", (x, y))

    def _mul(self, x: Term, y: Term) -> Term:
        if x.op == "const" and y.op == "const" and _exact(x.value) and _exact(y.value):
            return self.const(x.value * y.value)
        if is_const(x, 1):
            return y
        if is_const(y, 1):
            return x
        if _negative(x) != _negative(y):
            return self._neg(self._mul(*((self._neg(x), y) if _negative(x) else (x, self._neg(y)))))
        if _negative(x):
            return self._mul(self._neg(x), self._neg(y))
        return self._intern("mul", (x, y) if x.index <= y.index else (y, x))

    def _div(self, x: Term, y: Term) -> Term:
        if x.op == "const" and y.op == "const" and y.value != 0 and _exact(x.value) and _exact(y.value):
            return self.const(x.value / y.value)
        if is_const(y, 1):
            return x
        if _negative(x) != _negative(y):
            return self._neg(self._div(*((self._neg(x), y) if _negative(x) else (x, self._neg(y)))))
        if _negative(x):
            return self._div(self._neg(x), self._neg(y))
        return self._intern("div", (x, y))


_SHAPES: dict[str, Callable[..., Term]] = {"neg": Terms._neg, "add": Terms._add, "sub": Terms._sub, "mul": Terms._mul, "div": Terms._div}


def is_const(term: Term, value: int) -> bool:
    return term.op == "const" and bool(term.value == value)


def _negative(term: Term) -> bool:
    return term.op == "neg" or (term.op == "const" and term.value < 0)


def _exact(value: Fraction) -> bool:
    """A number that a double holds: arithmetic on two of them, done exactly, rounds once as the operation would."""
    d = value.denominator
    return d & (d - 1) == 0 and abs(value.numerator).bit_length() <= 53 and d.bit_length() < 900 and abs(value) < 2**900


def subterms(term: Term) -> Iterator[Term]:
    """Every subterm once, operands first."""
    seen: set[Term] = set()
    stack = [(term, False)]
    while stack:
        node, done = stack.pop()
        if done:
            yield node
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((a, False) for a in reversed(node.args))


def variables(term: Term) -> list[Term]:
    return sorted((t for t in subterms(term) if t.op == "var"), key=lambda t: t.index)
