"""Proofs in Z3's theory of floating-point numbers: both sides as terms over the captures, and the claim that no input breaks.

What Z3 has no function for (an exponential, a reduction) becomes an unknown number, the same one wherever it occurs: what is
proved for every value of it holds for its value. A model that Z3 finds where there are none of these is an input to replay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import z3

from hnfc.dsl.core import Apply, Capture, Comparison, Condition, Expr, Literal, Property, Rule, conjuncts
from hnfc.dsl.ieee.evaluate import Batch
from hnfc.dsl.ieee.formats import BINARY, Array, Binary, nearest
from hnfc.dsl.soundness.limits import milliseconds_until
from hnfc.dsl.soundness.typing import Typing

ROUND = z3.RNE()
RESOURCES = 600_000
"""Limit of Z3 for a question, in its own units: a few tenths of a second. Seconds would make verdicts depend on the load."""


class NotEncoded(Exception):
    """The rule has no form in Z3; the message says why."""


@dataclass
class Encoder:
    """Expressions as Z3 terms. `unknown`: subterms that stand for an unknown number, by the expression."""

    typing: Typing
    captures: dict[str, Any] = field(default_factory=dict)
    unknown: dict[tuple[Expr, str], Any] = field(default_factory=dict)

    def term(self, node: Expr, wanted: str) -> Any:
        element = self.typing.of(node) or wanted
        match node:
            case Capture(name):
                return self.captures.setdefault(name, variable(name, element))
            case Literal(number):
                return literal(number, element)
            case Apply():
                found = self._apply(node, element)
                return self._unknown(node, element) if found is None else found
        return self._unknown(node, element)

    def _unknown(self, node: Expr, element: str) -> Any:
        key = (node, element)
        if key not in self.unknown:
            self.unknown[key] = variable(f"unknown {len(self.unknown)}", element)
        return self.unknown[key]

    def _apply(self, node: Apply, element: str) -> Any:
        """The term, or None where Z3 has no function that is this one."""
        name = node.name
        if name not in ENCODED:
            return None
        inner = self.typing.common(node.alike) or (self.typing.form if element == "i1" and name != "where" else element)
        if name == "cast":
            source = self.typing.of(node.operands[0]) or self.typing.form
            return _cast(self.term(node.operands[0], source), source, element)
        if name == "where":
            p, x, y = node.operands
            return z3.If(self.term(p, "i1"), self.term(x, element), self.term(y, element))
        operands = [self.term(x, inner) for x in node.operands]
        if inner == "i1":
            return _logical(name, operands)
        if name == "compare":
            return _COMPARISONS[dict(node.attributes)["predicate"]](*operands)
        return _FUNCTIONS[name](*operands)


def sort(element: str) -> Any:
    form = BINARY.get(element)
    if form is None or not form.infinite:
        raise NotEncoded(f"numbers of {element}")
    return z3.FPSort(form.bits - form.precision, form.precision)


def variable(name: str, element: str) -> Any:
    return z3.Bool(name) if element == "i1" else z3.FP(name, sort(element))


def literal(number: Fraction | float, element: str) -> Any:
    if element == "i1":
        return z3.BoolVal(number != 0)
    return value_of(nearest(number, BINARY[element]), sort(element)) if element in BINARY else sort(element)


def value_of(x: float, kind: Any) -> Any:
    """The Z3 numeral of a float64 that the sort holds."""
    if math.isnan(x):
        return z3.fpNaN(kind)
    if math.isinf(x):
        return z3.fpInfinity(kind, x < 0)
    if x == 0:
        return z3.fpZero(kind, math.copysign(1, x) < 0)
    return z3.simplify(z3.fpFPToFP(ROUND, z3.FPVal(x, z3.Float64()), kind))


def _maximum(x: Any, y: Any) -> Any:
    """IEEE 754-2019: NaN where either is, and +0 above -0."""
    zeros = z3.And(z3.fpIsZero(x), z3.fpIsZero(y))
    larger = z3.If(z3.fpGT(x, y), x, z3.If(zeros, z3.If(z3.fpIsNegative(x), y, x), y))
    return z3.If(z3.Or(z3.fpIsNaN(x), z3.fpIsNaN(y)), z3.fpNaN(x.sort()), larger)


def _minimum(x: Any, y: Any) -> Any:
    return z3.fpNeg(_maximum(z3.fpNeg(x), z3.fpNeg(y)))


def _one(x: Any) -> Any:
    return value_of(1.0, x.sort())


def _sign(x: Any) -> Any:
    zero = z3.fpPlusZero(x.sort())
    return z3.If(z3.fpGT(x, zero), _one(x), z3.If(z3.fpLT(x, zero), z3.fpNeg(_one(x)), zero))


# Sums and products in one form each, so that Z3 need not compare multipliers bit by bit. Two expressions that are the same real
# number, rounded once, with the same sign where that is 0, are the same; test_smt.py has Z3 prove each form in a small format.


def added(x: Any, y: Any) -> Any:
    """x + y = y + x, and x + x = 2·x."""
    if x.eq(y):
        return multiplied(value_of(2.0, x.sort()), x)
    return z3.fpAdd(ROUND, *sorted((x, y), key=lambda term: term.get_id()))


def multiplied(x: Any, y: Any) -> Any:
    """x·y = y·x, (-x)·y = -(x·y), 1·x = x, and |x|·|x| = x·x."""
    (x, turned_x), (y, turned_y) = _without_sign(x), _without_sign(y)
    for one, other in ((x, y), (y, x)):
        if one.eq(_one(one)):
            return z3.fpNeg(other) if turned_x != turned_y else other
    if x.eq(y) and x.decl().kind() == z3.Z3_OP_FPA_ABS:
        x = y = x.arg(0)
    product = z3.fpMul(ROUND, *sorted((x, y), key=lambda term: term.get_id()))
    return z3.fpNeg(product) if turned_x != turned_y else product


def divided(x: Any, y: Any) -> Any:
    """(-x)/y = x/(-y) = -(x/y), and x/y = x·(1/y) where 1/y is a number of the format."""
    (x, turned_x), (y, turned_y) = _without_sign(x), _without_sign(y)
    reciprocal = z3.simplify(z3.fpDiv(ROUND, _one(y), y)) if z3.is_fp_value(y) else None
    if reciprocal is not None and _is_power_of_two(y) and _is_power_of_two(reciprocal):
        quotient = multiplied(x, reciprocal)
    else:
        quotient = z3.fpDiv(ROUND, x, y)
    return z3.fpNeg(quotient) if turned_x != turned_y else quotient


def _without_sign(x: Any) -> tuple[Any, bool]:
    turned = False
    while x.decl().kind() == z3.Z3_OP_FPA_NEG:
        x, turned = x.arg(0), not turned
    return x, turned


def _is_power_of_two(x: Any) -> bool:
    return bool(x.isNormal()) and int(x.significand_as_long()) == 0


_FUNCTIONS: dict[str, Any] = {
    "add": added,
    "sub": lambda x, y: added(x, z3.fpNeg(y)),
    "mul": multiplied,
    "div": divided,
    "sqrt": lambda x: z3.fpSqrt(ROUND, x),
    "fma": lambda x, y, z: z3.fpFMA(ROUND, x, y, z),
    "square": lambda x: multiplied(x, x),
    "reciprocal": lambda x: divided(_one(x), x),
    "neg": z3.fpNeg,
    "abs": z3.fpAbs,
    "sign": _sign,
    "maximum": _maximum,
    "minimum": _minimum,
    "relu": lambda x: _maximum(x, z3.fpPlusZero(x.sort())),
    "floor": lambda x: z3.fpRoundToIntegral(z3.RTN(), x),
    "ceil": lambda x: z3.fpRoundToIntegral(z3.RTP(), x),
    "trunc": lambda x: z3.fpRoundToIntegral(z3.RTZ(), x),
    "round": lambda x: z3.fpRoundToIntegral(ROUND, x),
    "isnan": z3.fpIsNaN,
    "isinf": z3.fpIsInf,
    "isfinite": lambda x: z3.Not(z3.Or(z3.fpIsNaN(x), z3.fpIsInf(x))),
    "logical_not": z3.Not,
    "logical_and": z3.And,
    "logical_or": z3.Or,
    "logical_xor": z3.Xor,
}
"""Each rounds as `arithmetic.pointwise` does, and gives the same zero."""

ENCODED = frozenset((*_FUNCTIONS, "compare", "cast", "where"))

_COMPARISONS: dict[str, Any] = {
    "eq": z3.fpEQ, "ne": z3.fpNEQ, "lt": z3.fpLT, "le": z3.fpLEQ, "gt": z3.fpGT, "ge": z3.fpGEQ,
}  # fmt: skip


def _logical(name: str, operands: list[Any]) -> Any:
    return _FUNCTIONS[name](*operands) if name.startswith("logical_") else None


def _cast(x: Any, source: str, to: str) -> Any:
    if source == to:
        return x
    if source in BINARY and to in BINARY:
        return z3.fpFPToFP(ROUND, x, sort(to))
    if source == "i1" and to in BINARY:
        return z3.If(x, value_of(1.0, sort(to)), z3.fpPlusZero(sort(to)))
    if source in BINARY and to == "i1":
        return z3.Not(z3.fpIsZero(x))
    raise NotEncoded(f"a cast from {source} to {to}")


_ASSUMED = {"no-nans": "NaNs", "no-infs": "infinities", "no-signed-zeros": "signed zeros"}


# questions ----------------------------------------------------------------------------------------------------------


@dataclass
class SmtQuery:
    """Both sides of a rule in Z3, for queries whether an input breaks a claim."""

    rule: Rule
    typing: Typing
    element: str
    assume: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Raises NotEncoded or Mismatch."""
        self.encoder = Encoder(self.typing)
        self.left = self.encoder.term(self.rule.pattern, self.element)
        self.right = self.encoder.term(self.rule.replacement, self.element)

    @property
    def worthwhile(self) -> bool:
        """Return whether the sides are built of what Z3 knows, at least in part."""
        return not any((side, self.element) in self.encoder.unknown for side in (self.rule.pattern, self.rule.replacement))

    def breaks(self, claim: str, exceptions: tuple[str, ...], deadline: float = math.inf) -> Batch | bool | None:
        """False: proved that no input breaks the claim. True: given up. None: Z3 cannot say. Otherwise an input that does, to be replayed.

        claim: `same` bits but for the exceptions, `keeps` (right finite where left is), `gains nothing` (the converse).
        """
        exceptions += tuple(_ASSUMED[name] for name in sorted(self.assume) if _ASSUMED[name] not in exceptions)
        # in a context of its own, where what was asked before leaves no trace
        context = z3.Context()
        solver = z3.Solver(ctx=context)
        solver.set("timeout", milliseconds_until(deadline))
        solver.set("rlimit", RESOURCES)
        solver.add(*(formula.translate(context) for formula in (self._broken(claim, exceptions), *self._allowed(exceptions))))
        answer = solver.check()
        if answer == z3.unsat:
            return False
        if answer == z3.sat:
            # where a number is unknown, it may be one that its expression never has
            return None if self.encoder.unknown else self._model(solver.model())
        return None if "not supported" in solver.reason_unknown() else True

    def _broken(self, claim: str, exceptions: tuple[str, ...]) -> Any:
        if self.element == "i1":
            return self.left != self.right if claim == "same" else z3.BoolVal(False)
        finite = [z3.Not(z3.Or(z3.fpIsNaN(x), z3.fpIsInf(x))) for x in (self.left, self.right)]
        if claim == "keeps":
            nan = [z3.fpIsNaN(x) for x in self.encoder.captures.values() if z3.is_fp(x)]
            return z3.Or(
                z3.And(finite[0], z3.Not(finite[1])),
                z3.And(z3.fpIsInf(self.left), z3.fpIsNaN(self.right)),
                z3.And(z3.Or(*nan), z3.fpIsNaN(self.left), z3.Not(z3.fpIsNaN(self.right))),
            )
        if claim == "gains nothing":
            return z3.And(finite[1], z3.Not(finite[0]))
        differ = self.left != self.right
        if "signed zeros" in exceptions:
            differ = z3.And(differ, z3.Not(z3.And(z3.fpIsZero(self.left), z3.fpIsZero(self.right))))
        return differ

    def _allowed(self, exceptions: tuple[str, ...]) -> list[Any]:
        """Inputs that meet `where` and that no exception names.

        A condition that has no form here is left out: what holds without it holds with it.
        """
        conditions = [term for part in conjuncts(self.rule.where) if (term := self._condition(part)) is not None]
        for x in self.encoder.captures.values():
            if not z3.is_fp(x):
                continue
            if "NaNs" in exceptions:
                conditions.append(z3.Not(z3.fpIsNaN(x)))
            if "infinities" in exceptions:
                conditions.append(z3.Not(z3.fpIsInf(x)))
            if "signed zeros" in exceptions:
                conditions.append(z3.Not(z3.And(z3.fpIsZero(x), z3.fpIsNegative(x))))
        return conditions

    def _condition(self, condition: Condition) -> Any:
        match condition:
            case Property("finite", (Capture(name),)) if z3.is_fp(x := self.encoder.captures.get(name)):
                return z3.Not(z3.Or(z3.fpIsNaN(x), z3.fpIsInf(x)))
            case Comparison(predicate, Capture() | Literal() as x, Capture() | Literal() as y):
                elements = {element for side in (x, y) if (element := self.typing.of(side)) is not None}
                if len(elements) == 1 and all(self._is_number(side, *elements) for side in (x, y)):
                    return _COMPARISONS[predicate](*(self.encoder.term(side, *elements) for side in (x, y)))
        return None

    def _is_number(self, node: Expr, element: str) -> bool:
        """A capture that Z3 knows, or a number that needs no rounding."""
        if isinstance(node, Capture):
            return bool(z3.is_fp(self.encoder.captures.get(node.name)))
        return isinstance(node, Literal) and element in BINARY and nearest(node.value, BINARY[element]) == node.value

    def _model(self, model: Any) -> Batch:
        inputs: dict[str, Array] = {}
        for name, element in self.typing.captures.items():
            term = self.encoder.captures.get(name)
            found = None if term is None else model.eval(term.translate(model.ctx), model_completion=True)
            if element == "i1":
                inputs[name] = np.array([bool(z3.is_true(found))])
            else:
                inputs[name] = np.array([0.0 if found is None else float_of(found, BINARY[element])])
        return Batch(inputs, {}, self.typing)


def float_of(value: Any, form: Binary) -> float:
    """The float64 that is the Z3 numeral."""
    if value.isNaN():
        return math.nan
    if value.isInf():
        return -math.inf if value.isNegative() else math.inf
    if value.isZero():
        return -0.0 if value.isNegative() else 0.0
    sign, fraction = (-1 if value.isNegative() else 1), value.significand_as_long()
    exponent = value.exponent_as_long(biased=True)
    leading = 0 if value.isSubnormal() else 1 << (form.precision - 1)
    place = (1 if value.isSubnormal() else exponent) - 1 + form.least - form.precision + 1
    return sign * math.ldexp(leading + fraction, place)
