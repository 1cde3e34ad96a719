"""Exponentials in a tensor program as pairs (m, e) for m·exp(e): sums take the largest exponent out, logarithms add it, nothing overflows.

A pair stands for a value until an operation needs the number itself. Each step is an instance of an identity of rules/rescaling.hnf, as
long as exponents lie in the range of their type; what only moves elements moves m and e alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from xdsl.dialects.builtin import FloatAttr, TensorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from hnfc.accuracy.losses import float_type
from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.base import NumOp
from hnfc.dialects.num.constant import ConstantOp
from hnfc.dialects.types import DYNAMIC, FORMATS, TypeMismatch, tensor

Largest: TypeAlias = "Callable[[Sequence[SSAValue]], SSAValue]"


@dataclass(frozen=True)
class Pair:
    """m·exp(e). None: m is 1, or e is 0. positive: whether m is known to be greater than 0."""

    m: SSAValue | None
    e: SSAValue | None
    positive: bool = False


@dataclass
class Rescaling:
    """Pairs for the values of a block that exponentials are part of. `apply` inserts operations, and changes no use of a value.

    zeros: whether the exponent of a term counts that is 0. Where it does not, a mask hides what overflows, and the gradient by a factor
    that is 0 by chance may be lost.
    """

    block: Block
    starts: Collection[Operation]
    zeros: bool = True
    made: dict[Operation, Operation] = field(default_factory=dict)
    """New operations, each with the one before which it stands."""
    identities: set[str] = field(default_factory=set)
    has_signs: bool = False
    """True if a term of a sum may be 0, so that it matters whether its exponent counts."""
    replaced: dict[SSAValue, SSAValue] = field(default_factory=dict)
    """Values that have other operations as users than those that take pairs, and what stands for them."""
    _pairs: dict[SSAValue, Pair] = field(default_factory=dict)
    _plain: dict[SSAValue, SSAValue] = field(default_factory=dict)
    _at: Operation = field(init=False)

    def apply(self) -> None:
        """Makes the pairs, and the numbers where something else needs them."""
        handled: set[Operation] = set()
        for op in list(self.block.ops):
            if not isinstance(op, NumOp) or len(op.results) != 1 or not float_type(op.results[0]):
                continue
            self._at = op
            found = self._of(op)
            if found is None:
                continue
            handled.add(op)
            if isinstance(found, Pair):
                self._pairs[op.results[0]] = found
            else:
                self._plain[op.results[0]] = found
        for value in (*self._pairs, *self._plain):
            outside = [use.operation for use in value.uses if use.operation not in handled and use.operation not in self.made]
            assert isinstance(value.owner, Operation)
            self._at = value.owner
            if outside and value.owner not in self.starts:
                self.replaced[value] = self._plain[value] if value in self._plain else self._number(self._pairs[value])

    def _of(self, op: NumOp) -> Pair | SSAValue | None:
        """The pair or the number that stands for the result; None where the operation stays as it is."""
        if op in self.starts:
            return Pair(None, self._current(op.operands[0]), True)
        if not any(operand in self._pairs for operand in op.operands):
            return None
        handler = _HANDLERS.get(op.name.removeprefix("num."))
        try:
            return handler(self, op) if handler is not None else None
        except TypeMismatch:
            return None

    # values

    def _current(self, value: SSAValue) -> SSAValue:
        return self._plain.get(value, value)

    def _pair(self, value: SSAValue) -> Pair:
        if value in self._pairs:
            return self._pairs[value]
        owner = value.owner
        positive = isinstance(owner, ConstantOp) and owner.value.value.data > 0
        return Pair(self._current(value), None, positive)

    def _emit(self, name: str, *operands: SSAValue, **attributes: Any) -> SSAValue:
        return self._insert(OPERATIONS[name].make(*operands, **attributes))

    def _insert(self, new: Operation) -> SSAValue:
        Rewriter.insert_op(new, InsertPoint.before(self._at))
        self.made[new] = self._at
        return new.results[0]

    def _constant(self, number: float) -> SSAValue:
        element = self._at.results[0].type.element_type  # type: ignore[attr-defined]
        return self._insert(ConstantOp.create(result_types=[tensor(element, ())], properties={"value": FloatAttr(number, 64)}))

    def _number(self, pair: Pair) -> SSAValue:
        if pair.e is None:
            return _given(pair.m)
        if pair.m is None:
            return self._emit("exp", pair.e)
        exponent = pair.e if pair.positive else self._where_not_zero(pair.m, pair.e, self._capped(pair.e))
        return self._emit("mul", pair.m, self._emit("exp", exponent))

    def _exponent(self, pair: Pair) -> SSAValue:
        return pair.e if pair.e is not None else self._constant(0.0)

    @property
    def _element(self) -> str:
        return float_type(self._at.results[0])

    def _combined(self, name: str, x: SSAValue | None, y: SSAValue | None) -> SSAValue | None:
        """x·y or x + y, where None is the neutral element."""
        if x is None or y is None:
            return y if x is None else x
        return self._emit(name, x, y)

    def _whole(self, value: SSAValue | None, like: SSAValue, number: float) -> SSAValue:
        """The value, or the number where there is none, in the shape of another."""
        value = self._constant(number) if value is None else value
        shape = _shape(like)
        if _shape(value) == shape:
            return value
        if DYNAMIC in shape:
            raise TypeMismatch("a size that is not known when compiling")
        return self._emit("broadcast", value, shape=shape)

    def _taken_out(self, pairs: Sequence[Pair], exponents: Sequence[SSAValue], largest: Largest) -> SSAValue:
        """The exponent that leaves a sum: the largest one of all terms, or of those that are not 0 if there is such a one.

        It is a finite number, through which no gradient passes, since any other gives the same.
        """
        limit = FORMATS[self._element].largest
        lowest = self._constant(-limit)
        greatest = largest(exponents)
        signs = not all(pair.m is None or pair.positive for pair in pairs)
        self.has_signs |= signs
        if signs and not self.zeros:
            counted = [
                e if p.m is None or p.positive else self._where_not_zero(p.m, e, lowest) for p, e in zip(pairs, exponents, strict=True)
            ]
            found = largest(counted)
            nothing = self._emit("compare", found, lowest, predicate="le")
            greatest = self._emit("where", nothing, greatest, found)
        finite = self._emit("minimum", self._emit("maximum", greatest, lowest), self._constant(limit))
        return self._emit("detach", finite)

    def _where_not_zero(self, m: SSAValue, exponent: SSAValue, otherwise: SSAValue) -> SSAValue:
        return self._emit("where", self._emit("compare", m, self._constant(0.0), predicate="ne"), exponent, otherwise)

    def _capped(self, exponent: SSAValue) -> SSAValue:
        """An exponent whose power is a finite number: of a factor 0 it makes 0, and of its derivative what it should as far as there are
        numbers."""
        self.identities.add("rescaled_without_zeros")
        form = FORMATS[self._element]
        # a runner's exp, and the rounded constant, may be off by some units
        return self._emit("minimum", exponent, self._constant((1 - 2 * form.unit_roundoff) * math.log(form.largest)))

    def _scaled_by(self, pair: Pair, exponent: SSAValue, taken: SSAValue) -> SSAValue:
        """m·exp(e - t), where e - t is greater than 0 only if m is 0 and zeros do not count."""
        rest = self._emit("sub", exponent, taken)
        if pair.m is None:
            return self._emit("exp", rest)
        return self._emit("mul", pair.m, self._emit("exp", rest if pair.positive or self.zeros else self._capped(rest)))

    def _largest_along(self, axes: tuple[int, ...], of: Sequence[SSAValue]) -> SSAValue:
        return self._emit("max", *of, axes=axes)

    # operations

    def product(self, op: NumOp) -> Pair:
        self.identities.add("rescaled_product")
        a, b = map(self._pair, op.operands)
        return Pair(self._combined("mul", a.m, b.m), self._combined("add", a.e, b.e), a.positive and b.positive)

    def quotient(self, op: NumOp) -> Pair:
        self.identities.add("rescaled_quotient")
        a, b = map(self._pair, op.operands)
        m = a.m if b.m is None else self._emit("reciprocal", b.m) if a.m is None else self._emit("div", a.m, b.m)
        e = a.e if b.e is None else self._emit("neg", b.e) if a.e is None else self._emit("sub", a.e, b.e)
        return Pair(m, e, a.positive and b.positive)

    def reciprocal(self, op: NumOp) -> Pair:
        self.identities.add("rescaled_quotient")
        a = self._pair(op.operands[0])
        return Pair(None if a.m is None else self._emit("reciprocal", a.m), self._emit("neg", _given(a.e)), a.positive)

    def negation(self, op: NumOp) -> Pair:
        self.identities.add("rescaled_product")
        a = self._pair(op.operands[0])
        return Pair(self._emit("neg", self._whole(a.m, op.operands[0], 1.0)), a.e)

    def size(self, op: NumOp) -> Pair:
        self.identities.add("rescaled_size")
        a = self._pair(op.operands[0])
        return a if a.positive or a.m is None else Pair(self._emit("abs", a.m), a.e)

    def square(self, op: NumOp) -> Pair:
        self.identities.add("rescaled_product")
        a = self._pair(op.operands[0])
        return Pair(None if a.m is None else self._emit("square", a.m), self._multiple(a, 2.0), a.positive)

    def root(self, op: NumOp) -> Pair:
        """√x and 1/√x."""
        inverse = op.name == "num.rsqrt"
        self.identities.add("rescaled_inverse_root" if inverse else "rescaled_root")
        a = self._pair(op.operands[0])
        return Pair(None if a.m is None else self._insert(type(op).make(a.m)), self._multiple(a, -0.5 if inverse else 0.5), a.positive)

    def power(self, op: NumOp) -> Pair | None:
        """A constant power of a positive number."""
        base, exponent = op.operands
        if not isinstance(exponent.owner, ConstantOp) or base not in self._pairs or not self._pairs[base].positive:
            return None
        self.identities.add("rescaled_power")
        a = self._pairs[base]
        m = None if a.m is None else self._emit("pow", a.m, exponent)
        return Pair(m, self._multiple(a, exponent.owner.value.value.data), True)

    def _multiple(self, pair: Pair, factor: float) -> SSAValue:
        return self._emit("mul", _given(pair.e), self._constant(factor))

    def logarithm(self, op: NumOp) -> SSAValue:
        self.identities.add("rescaled_logarithm")
        a = self._pair(op.operands[0])
        return _given(a.e) if a.m is None else self._emit("add", self._emit("log", a.m), _given(a.e))

    def addition(self, op: NumOp) -> Pair:
        self.identities.add("rescaled_addition")
        a, b = map(self._pair, op.operands)
        exponents = self._exponent(a), self._exponent(b)
        taken = self._taken_out((a, b), exponents, lambda of: self._emit("maximum", *of))
        parts = [self._scaled_by(pair, exponent, taken) for pair, exponent in zip((a, b), exponents, strict=True)]
        return Pair(self._insert(type(op).make(*parts)), taken, op.name == "num.add" and a.positive and b.positive)

    def reduction(self, op: NumOp) -> Pair | None:
        """A sum or a mean."""
        if "accumulate" in op.properties:
            return None
        self.identities.add("rescaled_sum")
        (x,) = op.operands
        a, axes = self._pair(x), op.attributes_as_python()["axes"]
        a = Pair(a.m if a.m is None else self._whole(a.m, x, 1.0), self._whole(a.e, x, 0.0), a.positive)
        exponent = _given(a.e)
        taken = self._taken_out((a,), (exponent,), partial(self._largest_along, axes))
        return Pair(self._insert(type(op).make(self._scaled_by(a, exponent, taken), axes=axes)), taken, a.positive)

    def contraction(self, op: NumOp) -> Pair | None:
        x, y = op.operands
        self.identities.update(("rescaled_sum", "rescaled_product"))
        factors, exponents = [], []
        for operand, axis in ((x, -1), (y, max(-2, -len(_shape(y))))):
            if operand not in self._pairs:
                factors.append(self._current(operand))
                continue
            a = self._pairs[operand]
            a = Pair(a.m if a.m is None else self._whole(a.m, operand, 1.0), self._whole(a.e, operand, 0.0), a.positive)
            exponent, axes = _given(a.e), (len(_shape(operand)) + axis,)
            taken = self._taken_out((a,), (exponent,), partial(self._largest_along, axes))
            factors.append(self._scaled_by(a, exponent, taken))
            exponents.append(self._beside_vector(taken, operand, y if operand is x else x, axis))
        both = len(exponents) == 2 and all(self._pairs[v].positive for v in (x, y))
        e = exponents[0] if len(exponents) == 1 else self._emit("add", *exponents)
        return Pair(self._emit("matmul", *factors), e, both)

    def _beside_vector(self, taken: SSAValue, operand: SSAValue, other: SSAValue, axis: int) -> SSAValue:
        """The exponent of each sum: a product with a vector has no axis in the place of the one that was summed over."""
        if len(_shape(operand)) > 1 and len(_shape(other)) > 1:
            return taken
        if DYNAMIC in (shape := list(_shape(taken))):
            raise TypeMismatch("a size that is not known when compiling")
        del shape[axis]
        return self._emit("reshape", taken, shape=tuple(shape))

    def choice(self, op: NumOp) -> Pair:
        self.identities.add("rescaled_choice")
        which, x, y = op.operands
        a, b = self._pair(x), self._pair(y)
        one, zero = self._constant(1.0), self._constant(0.0)
        m = None if a.m is None and b.m is None else self._emit("where", which, a.m or one, b.m or one)
        return Pair(m, self._emit("where", which, a.e or zero, b.e or zero), a.positive and b.positive)

    def movement(self, op: NumOp) -> Pair:
        """Moves m and e as the value is moved."""
        moved = [operand for operand in op.operands if float_type(operand)]
        pairs = {operand: self._pair(operand) for operand in moved}

        def image(part: Callable[[Pair], SSAValue | None], number: float) -> SSAValue:
            operands = [self._whole(part(pairs[o]), o, number) if o in pairs else o for o in op.operands]
            return self._insert(type(op).create(operands=operands, result_types=[op.results[0].type], properties=dict(op.properties)))

        plain = all(pair.m is None for pair in pairs.values())
        m = None if plain else image(lambda pair: pair.m, 1.0)
        return Pair(m, image(lambda pair: pair.e, 0.0), all(pair.positive for pair in pairs.values()))


def _given(value: SSAValue | None) -> SSAValue:
    assert value is not None, "a pair has an exponent"
    return value


def _shape(value: SSAValue) -> tuple[int, ...]:
    assert isinstance(value.type, TensorType)
    return tuple(value.type.get_shape())


_HANDLERS: dict[str, Callable[[Rescaling, NumOp], Pair | SSAValue | None]] = {
    "mul": Rescaling.product, "div": Rescaling.quotient, "reciprocal": Rescaling.reciprocal, "neg": Rescaling.negation,
    "abs": Rescaling.size, "sqrt": Rescaling.root, "rsqrt": Rescaling.root, "square": Rescaling.square, "pow": Rescaling.power,
    "log": Rescaling.logarithm, "add": Rescaling.addition, "sub": Rescaling.addition, "sum": Rescaling.reduction,
    "mean": Rescaling.reduction, "matmul": Rescaling.contraction, "where": Rescaling.choice, "reshape": Rescaling.movement,
    "transpose": Rescaling.movement, "slice": Rescaling.movement, "reverse": Rescaling.movement, "broadcast": Rescaling.movement,
    "concat": Rescaling.movement, "gather": Rescaling.movement, "index_select": Rescaling.movement,
}  # fmt: skip
