"""Rules in the form that the matcher reads: sums and products flattened as in `chains`, everything else a tree."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias

from hnfc.dialects.num import COMMUTATIVE, OPERATIONS
from hnfc.dialects.num.base import NumOp
from hnfc.dsl import core
from hnfc.rewrite.movement import is_movement
from hnfc.rewrite.nary_terms import ONE, PRODUCTS, SUMS, ZERO


@dataclass(frozen=True)
class CapturePattern:
    name: str
    dtypes: tuple[str, ...]
    const: bool


@dataclass(frozen=True)
class NumberPattern:
    value: Fraction | float


@dataclass(frozen=True)
class SizePattern:
    """A number that is the number of elements of a captured tensor along axes, both of which are bound before it is met."""

    size: core.Size


@dataclass(frozen=True)
class OperationPattern:
    operation: type[NumOp]
    operands: tuple[Pattern, ...]
    attributes: tuple[tuple[str, Any], ...]
    commutative: bool

    @cached_property
    def settings(self) -> dict[str, Any]:
        return dict(self.attributes)

    @cached_property
    def is_movement(self) -> bool:
        """Return whether the settings are in the rule's own form: along one axis."""
        return is_movement(self.operation.name.removeprefix("num."), self.settings)


@dataclass(frozen=True)
class ProductPattern:
    """coefficient · Π factorᵉ · Π size(operand, axes)ᵉ; bare captures stand last among the factors."""

    coefficient: Fraction
    factors: tuple[tuple[Pattern, int], ...]
    sizes: tuple[tuple[core.Size, int], ...]


@dataclass(frozen=True)
class SumPattern:
    """constant + Σ terms; terms that are a bare capture stand last."""

    constant: Fraction
    terms: tuple[ProductPattern, ...]


Pattern: TypeAlias = CapturePattern | NumberPattern | SizePattern | OperationPattern | ProductPattern | SumPattern


class UnsupportedPattern(Exception):
    """A left side that the matcher has no way to look for; the message says what."""


def compile_pattern(expression: core.Expr, structural: bool) -> Pattern:
    """Pattern to match; a left side that is nothing but a name once its arithmetic is done, as `a * b / b`, as it is written."""
    pattern = tree(expression) if structural else _flat(expression)
    return tree(expression, commuting=True) if _is_trivial(pattern) else pattern


def _is_trivial(pattern: Pattern) -> bool:
    match pattern:
        case SumPattern(constant, terms):
            return not terms or (len(terms) == 1 and constant == 0)
        case ProductPattern(_, factors, _):
            return not factors
    return not isinstance(pattern, OperationPattern)


def tree(expression: core.Expr, commuting: bool = False) -> Pattern:
    """The expression as it is written, with no flattening; `commuting`: but with operands in either order."""
    match expression:
        case core.Capture(name, dtypes, const):
            return CapturePattern(name, dtypes, const)
        case core.Literal(value):
            return NumberPattern(value)
        case core.Size():
            return SizePattern(expression)
        case core.Apply(operation, operands, attributes):
            commutes = commuting and operation in COMMUTATIVE
            return OperationPattern(operation, tuple(tree(operand, commuting) for operand in operands), attributes, commutes)


def _flat(expression: core.Expr) -> Pattern:
    match expression:
        case core.Capture() | core.Literal():
            return tree(expression)
        case core.Size():
            return _product(expression)
        case core.Apply(operation, operands, attributes):
            if operation in SUMS:
                return _sum(expression)
            if operation in PRODUCTS:
                product = _product(expression)
                if product.coefficient == 1 and not product.sizes and len(product.factors) == 1 and product.factors[0][1] == 1:
                    return product.factors[0][0]
                return product
            commutative = operation in COMMUTATIVE or ("predicate", "eq") in attributes
            return OperationPattern(operation, tuple(map(_flat, operands)), attributes, commutative)
    raise UnsupportedPattern(f"no way to look for {expression}")


def _sum(expression: core.Expr) -> SumPattern:
    constant = Fraction(0)
    terms: list[ProductPattern] = []

    def add(node: core.Expr, sign: Fraction) -> None:
        nonlocal constant
        if isinstance(node, core.Apply) and node.operation in SUMS:
            add(node.operands[0], sign)
            add(node.operands[1], -sign if node.name == "sub" else sign)
        elif isinstance(node, core.Literal) and math.isfinite(node.value):
            constant += sign * _rational(node.value)
        else:
            product = _product(node)
            if not product.factors and not product.sizes:
                constant += sign * product.coefficient
            else:
                coefficient = sign * product.coefficient
                terms.append(ProductPattern(ONE if coefficient == 1 else coefficient, product.factors, product.sizes))

    add(expression, Fraction(1))
    terms.sort(key=lambda term: _vagueness(term))
    return SumPattern(constant if constant != 0 else ZERO, tuple(terms))


def _product(expression: core.Expr) -> ProductPattern:
    coefficient = ONE
    factors: dict[Pattern, int] = {}
    sizes: dict[core.Size, int] = {}

    def multiply(node: core.Expr, exponent: int) -> None:
        nonlocal coefficient
        name = node.name if isinstance(node, core.Apply) else ""
        if isinstance(node, core.Literal) and math.isfinite(node.value) and node.value != 0:
            coefficient *= _rational(node.value) ** exponent
        elif isinstance(node, core.Size):
            sizes[node] = sizes.get(node, 0) + exponent
        elif isinstance(node, core.Apply) and name in ("mul", "div"):
            multiply(node.operands[0], exponent)
            multiply(node.operands[1], exponent if name == "mul" else -exponent)
        elif isinstance(node, core.Apply) and name == "neg":
            coefficient *= (-1) ** exponent
            multiply(node.operands[0], exponent)
        elif isinstance(node, core.Apply) and name == "square":
            multiply(node.operands[0], 2 * exponent)
        elif isinstance(node, core.Apply) and name == "reciprocal":
            multiply(node.operands[0], -exponent)
        else:
            if isinstance(node, core.Apply) and name == "rsqrt":
                node, exponent = core.Apply(OPERATIONS["sqrt"], node.operands), -exponent
            pattern = _flat(node)
            factors[pattern] = factors.get(pattern, 0) + exponent

    multiply(expression, 1)
    kept = [(pattern, exponent) for pattern, exponent in factors.items() if exponent != 0]
    kept.sort(key=lambda factor: _vagueness(factor[0]))
    return ProductPattern(ONE if coefficient == 1 else coefficient, tuple(kept), tuple(sizes.items()))


def _rational(value: Fraction | float) -> Fraction:
    """A number as chains hold it; a multiple of π is the nearest float64, as it is in models."""
    return value if isinstance(value, Fraction) else Fraction(float(value))


def _vagueness(pattern: Pattern) -> int:
    """0 for what starts with an operation, 1 for what holds one inside, 2 for a bare capture."""
    match pattern:
        case CapturePattern():
            return 2
        case ProductPattern(_, factors, _):
            return max((_vagueness(p) for p, _ in factors), default=0) if all(_vagueness(p) == 2 for p, _ in factors) else 0
    return 0


def size_of(pattern: Pattern) -> int:
    """The number of operations that a match of the pattern covers; larger patterns are tried first."""
    match pattern:
        case OperationPattern(_, operands, _, _):
            return 1 + sum(map(size_of, operands))
        case ProductPattern(_, factors, _):
            return len(factors) + sum(size_of(p) for p, _ in factors)
        case SumPattern(constant, terms):
            return len(terms) + (constant != 0) + sum(map(size_of, terms))
    return 0


def pattern_kind(pattern: Pattern) -> str | None:
    """The kind of value (as in `chains.kind`) that the pattern needs at its place; None where any will do."""
    match pattern:
        case OperationPattern(operation):
            return "*" if operation in PRODUCTS else "+" if operation in SUMS else operation.name[4:]
        case SumPattern():
            return "+"
        case ProductPattern(_, factors, _):
            # a lone factor fits what is no product: its coefficient may be 1, or go into a capture
            return "*" if len(factors) > 1 or (factors and factors[0][1] != 1) else None
        case NumberPattern():
            return "constant"
    return None
