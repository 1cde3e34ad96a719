"""Sums and products as the matcher sees them: flattened, with exact coefficients, whatever way they were bracketed.

    a - 2*b + 1        →  constant 1, terms {a: 1, b: -2}
    x * x / sqrt(v)    →  coefficient 1, factors {x: 2, sqrt(v): -1}

An inner sum or product is flattened into the outer one only if the outer one is its only user: what others use as
well stays one term. So every operation belongs to one chain, and flattening all chains takes linear time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from xdsl.ir import Operation, SSAValue

from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.base import decode

_ADD, _SUB, _NEG = OPERATIONS["add"], OPERATIONS["sub"], OPERATIONS["neg"]
_MUL, _DIV, _SQUARE = OPERATIONS["mul"], OPERATIONS["div"], OPERATIONS["square"]
_RECIPROCAL, _RSQRT, _CONSTANT = OPERATIONS["reciprocal"], OPERATIONS["rsqrt"], OPERATIONS["constant"]
SUMS = (_ADD, _SUB)
PRODUCTS = (_MUL, _DIV, _NEG, _SQUARE, _RECIPROCAL, _RSQRT)


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
    """The number that every element of the value is, known at compile time; ±inf and nan come as floats."""
    owner = value.owner
    if not isinstance(owner, _CONSTANT):
        return None
    number = float(decode(owner.properties["value"]))
    return Fraction(number) if math.isfinite(number) else number


def is_interior(op: Operation, family: tuple[type[Operation], ...]) -> bool:
    """Whether the operation is part of a larger chain of the same family."""
    use = op.results[0].get_user_of_unique_use()
    return use is not None and isinstance(use, family)


def sum_of(value: SSAValue) -> Sum:
    """The value as a sum; one term if it is no addition or subtraction."""
    constant = Fraction(0)
    terms: list[Product] = []
    stack: list[tuple[SSAValue, Fraction]] = [(value, Fraction(1))]
    while stack:
        current, sign = stack.pop()
        owner = current.owner
        if isinstance(owner, SUMS) and (current is value or current.has_one_use()):
            right = -sign if isinstance(owner, _SUB) else sign
            stack.append((owner.operands[1], right))
            stack.append((owner.operands[0], sign))
            continue
        number = constant_of(current)
        if isinstance(number, Fraction):
            constant += sign * number
            continue
        term = product_of(current, inner=current is not value)
        if len(term.factors) == 1 and term.factors[0][1] == 1:
            item = term.factors[0][0]
            # -(a + b) inside a sum is -a - b
            if item is not current and isinstance(item, SSAValue) and isinstance(item.owner, SUMS) and item.has_one_use():
                stack.append((item, sign * term.coefficient))
                continue
        terms.append(Product(sign * term.coefficient, term.factors))
    return Sum(constant, tuple(terms))


def product_of(value: SSAValue, inner: bool = False) -> Product:
    """The value as a product; one factor if it is no product. `inner`: flatten it only if it has one user."""
    owner = value.owner
    if not isinstance(owner, PRODUCTS) or (inner and not value.has_one_use()):
        return Product(Fraction(1), ((value, 1),))
    coefficient = Fraction(1)
    exponents: dict[Item, int] = {}
    stack: list[tuple[SSAValue, int]] = [(value, 1)]
    while stack:
        current, exponent = stack.pop()
        owner = current.owner
        if isinstance(owner, PRODUCTS) and (current is value or current.has_one_use()):
            if isinstance(owner, _MUL):
                stack += [(owner.operands[1], exponent), (owner.operands[0], exponent)]
                continue
            if isinstance(owner, _DIV):
                stack += [(owner.operands[1], -exponent), (owner.operands[0], exponent)]
                continue
            if isinstance(owner, _NEG):
                coefficient *= (-1) ** exponent
                stack.append((owner.operands[0], exponent))
                continue
            if isinstance(owner, _SQUARE):
                stack.append((owner.operands[0], 2 * exponent))
                continue
            if isinstance(owner, _RECIPROCAL):
                stack.append((owner.operands[0], -exponent))
                continue
            root = Root(owner.operands[0])
            exponents[root] = exponents.get(root, 0) - exponent
            continue
        number = constant_of(current)
        if isinstance(number, Fraction) and number != 0:
            coefficient *= number**exponent
            continue
        exponents[current] = exponents.get(current, 0) + exponent
    return Product(coefficient, tuple((item, e) for item, e in exponents.items() if e != 0))


def kind(item: Item) -> str:
    """What the decision tree switches on: `+` and `*` for chains, else the name of the operation; `` for inputs."""
    if isinstance(item, Root):
        return "sqrt"
    owner = item.owner
    if isinstance(owner, SUMS):
        return "+"
    if isinstance(owner, PRODUCTS):
        return "*"
    return owner.name[4:] if isinstance(owner, Operation) else ""
