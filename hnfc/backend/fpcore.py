"""`num` programs of numbers → FPCore expressions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from xdsl.ir import SSAValue

from hnfc.dialects.num.base import NumOp
from hnfc.dialects.num.constant import ConstantOp
from hnfc.frontend.fpcore_builder import COMPARISONS, PLAIN

_SYMBOLS = {name: symbol for symbol, name in PLAIN.items()}
_PREDICATES = {name: symbol for symbol, name in COMPARISONS.items()}
_WRITTEN = {
    "neg": "(- {0})", "square": "(* {0} {0})", "reciprocal": "(/ 1 {0})", "rsqrt": "(/ 1 (sqrt {0}))", "where": "(if {0} {1} {2})",
    "logical_and": "(and {0} {1})", "logical_or": "(or {0} {1})", "logical_not": "(not {0})", "relu": "(fmax {0} 0)",
    "sigmoid": "(/ 1 (+ 1 (exp (- {0}))))", "softplus": "(log1p (exp {0}))",
}  # fmt: skip


def expression(value: SSAValue, depth: int = 1000) -> str:
    """The expression of a value; what lies deeper than `depth` operations is left out as `…`."""
    owner = value.owner
    if not isinstance(owner, NumOp):
        return value.name_hint or "?"
    if isinstance(owner, ConstantOp):
        return _number(float(owner.attributes_as_python()["value"]))
    if depth == 0:
        return "…"
    name = owner.name.removeprefix("num.")
    operands = [expression(operand, depth - (name != "cast")) for operand in owner.operands]
    return operands[0] if name == "cast" else application(name, operands, owner.attributes_as_python().get("predicate"))


def application(name: str, operands: Sequence[str], predicate: str | None = None) -> str:
    """An operation of `num` on operands that are written already; the predicate is that of a comparison."""
    if name in _WRITTEN:
        return _WRITTEN[name].format(*operands)
    return f"({_PREDICATES[predicate] if predicate else _SYMBOLS.get(name, name)} {' '.join(operands)})"


def _number(x: float) -> str:
    """The shortest digits that give the number; a quotient of small whole numbers as one."""
    if math.isnan(x) or math.isinf(x):
        return "NAN" if math.isnan(x) else "INFINITY" if x > 0 else "(- INFINITY)"
    if x == int(x) and abs(x) < 1e15:
        return str(int(x))
    simple = Fraction(x).limit_denominator(1000)
    return f"{simple.numerator}/{simple.denominator}" if float(simple) == x and simple.denominator != 1 else repr(x)
