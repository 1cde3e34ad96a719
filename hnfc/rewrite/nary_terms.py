"""Sums and products as the matcher sees them: flattened, with exact coefficients, whatever way they were bracketed.

    a - 2*b + 1        →  constant 1, terms {a: 1, b: -2}
    x * x / sqrt(v)    →  coefficient 1, factors {x: 2, sqrt(v): -1}

An inner sum or product is flattened into the outer one only if the outer one is its only user: what others use as
well stays one term. So every operation belongs to one chain, and flattening all chains takes linear time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from xdsl.dialects.builtin import ComplexType
from xdsl.ir import Operation, SSAValue

from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.base import NumOp, decode
from hnfc.dialects.types import ELEMENT_TYPES, FORMATS

_ADD, _SUB, _NEG = OPERATIONS["add"], OPERATIONS["sub"], OPERATIONS["neg"]
_MUL, _DIV, _SQUARE = OPERATIONS["mul"], OPERATIONS["div"], OPERATIONS["square"]
_RECIPROCAL, _RSQRT, _CONSTANT = OPERATIONS["reciprocal"], OPERATIONS["rsqrt"], OPERATIONS["constant"]
_CAST = OPERATIONS["cast"]
SUMS: frozenset[type] = frozenset((_ADD, _SUB))
PRODUCTS: frozenset[type] = frozenset((_MUL, _DIV, _NEG, _SQUARE, _RECIPROCAL, _RSQRT))
# Membership of the exact class: isinstance on these (abstract) classes costs ten times as much.
_KINDS: dict[type, str] = {cls: "+" if cls in SUMS else "*" if cls in PRODUCTS else name for name, cls in OPERATIONS.items()}
ARITHMETIC = frozenset(("add", "sub", "mul", "div"))
"""Operations of two operands that terms are built of."""
ONE, ZERO = Fraction(1), Fraction(0)


_FLOATS = frozenset(type(ELEMENT_TYPES[name]) for name in FORMATS)


def is_float(value: SSAValue) -> bool:
    """Return whether the elements stand for real numbers."""
    return type(getattr(value.type, "element_type", None)) in _FLOATS


def over_reals(op: Operation) -> bool:
    """Return whether the operation computes its formula over the reals: integers wrap and truncate, complex numbers are no reals."""
    cls = type(op)
    if is_float(op.results[0]):
        return cls is not _CAST or not _is_complex(op.operands[0])
    return isinstance(op, NumOp) and op.FACTS.ignores_wrapping and not any(map(_is_complex, (*op.operands, *op.results)))


def _is_complex(value: SSAValue) -> bool:
    return type(getattr(value.type, "element_type", None)) is ComplexType


class Root(NamedTuple):
    """√radicand, where the program holds only its reciprocal (rsqrt)."""

    radicand: SSAValue


Item: TypeAlias = SSAValue | Root
Number: TypeAlias = Fraction | float
Factors: TypeAlias = tuple[tuple[Item, int], ...]


@dataclass(frozen=True, slots=True)
class Product:
    """coefficient · Π itemᵉ"""

    coefficient: Fraction
    factors: Factors


@dataclass(frozen=True, slots=True)
class Sum:
    """constant + Σ coefficient · Π itemᵉ"""

    constant: Fraction
    terms: tuple[Product, ...]


def constant_of(value: SSAValue) -> Number | None:
    """The number that the value is, known at compile time; ±inf and nan come as floats.

    A splat of several elements is no number: it could widen what it is combined with, and a sum would count it as often
    as it has elements. `canonicalize-movement` makes a number of it where it does not widen anything.
    """
    owner = value.owner
    if type(owner) is not _CONSTANT or any(size != 1 for size in value.type.get_shape()):  # type: ignore[attr-defined]
        return None
    number = float(decode(owner.properties["value"]))
    return Fraction(number) if math.isfinite(number) else number


def is_interior(op: Operation, family: frozenset[type]) -> bool:
    """Return whether the operation is part of a larger chain of the same family."""
    use = op.results[0].get_user_of_unique_use()
    return type(use) in family


def sum_of(value: SSAValue) -> Sum:
    """The value as a sum; one term if it is no addition or subtraction."""
    constant = ZERO
    terms: list[Product] = []
    stack: list[tuple[SSAValue, Fraction]] = [(value, ONE)]
    while stack:
        current, sign = stack.pop()
        owner = current.owner
        cls = type(owner)
        if cls in SUMS and (current is value or current.has_one_use()):
            x, y = owner.operands  # type: ignore[union-attr]
            stack.append((y, -sign if cls is _SUB else sign))
            stack.append((x, sign))
            continue
        if cls is _CONSTANT:
            number = constant_of(current)
            if type(number) is Fraction:
                constant += sign * number
                continue
        term = product_of(current, inner=current is not value)
        if not term.factors:
            constant += sign * term.coefficient
            continue
        if len(term.factors) == 1 and term.factors[0][1] == 1:
            item = term.factors[0][0]
            # -(a + b) inside a sum is -a - b
            if item is not current and not isinstance(item, Root) and type(item.owner) in SUMS and item.has_one_use():
                stack.append((item, sign * term.coefficient))
                continue
        terms.append(term if sign is ONE else Product(sign * term.coefficient, term.factors))
    return Sum(constant, tuple(terms))


def product_of(value: SSAValue, inner: bool = False) -> Product:
    """The value as a product; one factor if it is no product. `inner`: flatten it only if it has one user."""
    if type(value.owner) not in PRODUCTS or (inner and not value.has_one_use()):
        return Product(ONE, ((value, 1),))
    coefficient = ONE
    exponents: dict[Item, int] = {}
    stack: list[tuple[SSAValue, int]] = [(value, 1)]
    while stack:
        current, exponent = stack.pop()
        owner = current.owner
        cls = type(owner)
        if cls in PRODUCTS and (current is value or current.has_one_use()):
            operands = owner.operands  # type: ignore[union-attr]
            if cls is _MUL:
                stack += [(operands[1], exponent), (operands[0], exponent)]
            elif cls is _DIV:
                stack += [(operands[1], -exponent), (operands[0], exponent)]
            elif cls is _NEG:
                if exponent % 2:
                    coefficient = -coefficient
                stack.append((operands[0], exponent))
            elif cls is _SQUARE:
                stack.append((operands[0], 2 * exponent))
            elif cls is _RECIPROCAL:
                stack.append((operands[0], -exponent))
            else:
                root = Root(operands[0])
                exponents[root] = exponents.get(root, 0) - exponent
            continue
        if cls is _CONSTANT:
            number = constant_of(current)
            if type(number) is Fraction and number != 0:
                coefficient *= number**exponent
                continue
        exponents[current] = exponents.get(current, 0) + exponent
    factors: list[tuple[Item, int]] = []
    for item, e in exponents.items():
        # x/x stays: without it the product would forget that it widens to the shape of x
        factors += [(item, e)] if e else [(item, 1), (item, -1)]
    return Product(coefficient, tuple(factors))


def sum_with_powers(value: SSAValue, number: Callable[[SSAValue], int]) -> Sum:
    """`sum_of`, with powers in the products in place of factors that are computed alike."""
    found = sum_of(value)
    if all(len(term.factors) < 2 for term in found.terms):
        return found
    return Sum(found.constant, tuple(_with_powers(term, number) for term in found.terms))


def product_with_powers(value: SSAValue, number: Callable[[SSAValue], int]) -> Product:
    """`product_of`, with a power in place of factors that are computed alike; `number` is the value number."""
    return _with_powers(product_of(value), number)


def _with_powers(product: Product, number: Callable[[SSAValue], int]) -> Product:
    if len(product.factors) < 2:
        return product
    # only factors of one kind of operation are numbered, since numbering looks at all that they are made of
    made = Counter(type(item.owner) for item, _ in product.factors if not isinstance(item, Root))
    repeated = {cls for cls, count in made.items() if count > 1 and issubclass(cls, NumOp)}
    if not repeated:
        return product
    first: dict[tuple[int, bool], SSAValue] = {}
    powers: dict[Item, dict[bool, int]] = {}
    for item, e in product.factors:
        alike = item
        if not isinstance(item, Root) and type(item.owner) in repeated:
            alike = first.setdefault((number(item), e > 0), item)
        of_sign = powers.setdefault(alike, {})
        of_sign[e > 0] = of_sign.get(e > 0, 0) + e
    return Product(product.coefficient, tuple((item, e) for item, of_sign in powers.items() for e in of_sign.values()))


def kind(item: Item) -> str:
    """Key of the decision tree: `+` and `*` for chains, else the name of the operation; `` for inputs."""
    return "sqrt" if isinstance(item, Root) else _KINDS.get(type(item.owner), "")
