"""Backtracking search for the ways in which one pattern fits one value, modulo associativity, commutativity and scale."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, SSAValue

from hnfc.core.value_numbering import Numbering
from hnfc.dialects.types import ELEMENT_NAMES
from hnfc.rewrite.attributes import fit_attributes, integer, size_of
from hnfc.rewrite.bindings import Binding, Bindings, Integers, shape_of
from hnfc.rewrite.movement import match_settings
from hnfc.rewrite.nary_terms import (
    ONE,
    ZERO,
    Factors,
    Item,
    Number,
    Product,
    Root,
    Sum,
    constant_of,
    is_float,
    over_reals,
    product_with_powers,
    sum_with_powers,
)
from hnfc.rewrite.pattern import (
    CapturePattern,
    NumberPattern,
    OperationPattern,
    Pattern,
    ProductPattern,
    SizePattern,
    SumPattern,
)

_MAX_STEPS = 4000


class Matching:
    """Backtracking search for the bindings of one pattern, with a limit on its steps."""

    def __init__(self, numbering: Numbering) -> None:
        self.numbering = numbering
        self.steps = 0

    def value(self, pattern: Pattern, item: Item, bindings: Bindings) -> Iterator[Bindings]:
        """The bindings under which `item` is an instance of the pattern, exactly."""
        self.steps += 1
        if self.steps > _MAX_STEPS:
            return
        match pattern:
            case CapturePattern():
                bound = self.bind(pattern, item, bindings)
                if bound is not None:
                    yield bound
            case NumberPattern(value):
                if not isinstance(item, Root):
                    number = constant_of(item)
                    if number is not None and same_number(number, value):
                        yield bindings
            case SizePattern(size):
                number = None if isinstance(item, Root) else constant_of(item)
                if number is not None and number == size_of(size, bindings):
                    yield bindings
            case OperationPattern():
                yield from self.operation(pattern, item, bindings)
            case SumPattern():
                if not isinstance(item, Root) and is_float(item):
                    for scale, rest, result in self.sum(pattern, sum_with_powers(item, self.numbering.of), bindings, exact=True):
                        if scale == 1 and rest is None:
                            yield result
            case ProductPattern():
                if not isinstance(item, Root) and not is_float(item):
                    return
                chain = product_with_powers(item, self.numbering.of) if not isinstance(item, Root) else Product(ONE, ((item, 1),))
                for ratio, left, result in self.product(pattern, chain, bindings, exact=True):
                    if ratio == 1 and left is None:
                        yield result

    def operation(self, pattern: OperationPattern, item: Item, bindings: Bindings) -> Iterator[Bindings]:
        if isinstance(item, Root):
            if pattern.operation.name == "num.sqrt":
                yield from self.value(pattern.operands[0], item.radicand, bindings)
            return
        op = item.owner
        if isinstance(op, Operation):
            yield from self.instance(pattern, op, tuple(op.operands), bindings)

    def instance(self, pattern: OperationPattern, op: Operation, operands: tuple[SSAValue, ...], bindings: Bindings) -> Iterator[Bindings]:
        """The bindings under which one operation is an instance of the pattern; `operands` stand for those that it has."""
        if type(op) is not pattern.operation or len(operands) != len(pattern.operands) or not over_reals(op):
            return
        if op.name == "num.matmul" and not _are_matrices(op):
            return
        if pattern.is_movement:
            fitting = match_settings(pattern.settings, op, bindings)
            if fitting is not None:
                for found in self.operands(pattern.operands, operands, fitting[0]):
                    if all(integer(expression, found) == value for expression, value in fitting[1]):
                        yield found
            return
        for after in fit_attributes(pattern.settings, op, bindings):
            yield from self.operands(pattern.operands, operands, after)
            if pattern.commutative and len(operands) == 2 and operands[0] is not operands[1]:
                yield from self.operands(pattern.operands, operands[::-1], after)

    def operands(self, patterns: tuple[Pattern, ...], items: tuple[SSAValue, ...], bindings: Bindings) -> Iterator[Bindings]:
        if not patterns:
            yield bindings
            return
        for after in self.value(patterns[0], items[0], bindings):
            yield from self.operands(patterns[1:], items[1:], after)

    def bind(self, pattern: CapturePattern, item: Item | Product | Sum | Fraction, bindings: Bindings) -> Bindings | None:
        if pattern.const:
            number = constant_of(item) if isinstance(item, SSAValue) else None
            if number is None or isinstance(number, float):
                # an infinity is no number that a rule could be proved for
                return None
            bound = bindings.get(pattern.name)
            if bound is not None:
                return bindings if bound == number else None
            return {**bindings, pattern.name: number}
        if pattern.dtypes:
            element = _element(item)
            if element is None or element not in pattern.dtypes:
                return None
        bound = bindings.get(pattern.name)
        if bound is None:
            return {**bindings, pattern.name: item}
        return bindings if self.same(bound, item) else None

    def same(self, a: Binding, b: Binding) -> bool:
        if a is b:
            return True
        if isinstance(a, _PLAIN) or isinstance(b, _PLAIN):
            return self._same_plain(a, b)
        return type(a.owner) is type(b.owner) is not Block and self.numbering.of(a) == self.numbering.of(b)

    def _same_plain(self, a: Binding, b: Binding) -> bool:
        if isinstance(a, Fraction) or isinstance(b, Fraction):
            return isinstance(a, Fraction) and isinstance(b, Fraction) and a == b
        if isinstance(a, Root) and isinstance(b, Root):
            return self.numbering.of(a.radicand) == self.numbering.of(b.radicand)
        if isinstance(a, Product) and isinstance(b, Product):
            return self.key(a) == self.key(b)
        if isinstance(a, Sum) and isinstance(b, Sum):
            return a.constant == b.constant and sorted(map(self.key, a.terms)) == sorted(map(self.key, b.terms))
        return False

    def key(self, product: Product) -> tuple[Any, ...]:
        return (product.coefficient, *sorted((self.item_key(item), e) for item, e in product.factors))

    def item_key(self, item: Item) -> tuple[int, int]:
        return (1, self.numbering.of(item.radicand)) if isinstance(item, Root) else (0, self.numbering.of(item))

    # chains

    def sum(self, pattern: SumPattern, subject: Sum, bindings: Bindings, *, exact: bool) -> Iterator[tuple[Fraction, Sum | None, Bindings]]:
        """Ways to split `subject` into scale · pattern + rest; `exact`: with no rest (a bare capture may take it)."""
        yield from self._terms(pattern, 0, subject.terms, subject.constant, None, bindings, exact)

    def _terms(
        self,
        pattern: SumPattern,
        index: int,
        left: tuple[Product, ...],
        constant: Fraction,
        scale: Fraction | None,
        bindings: Bindings,
        exact: bool,
    ) -> Iterator[tuple[Fraction, Sum | None, Bindings]]:
        self.steps += 1
        if self.steps > _MAX_STEPS:
            return
        if index == len(pattern.terms):
            if scale is None:
                return
            if pattern.constant is not ZERO and not same_number(constant, scale * pattern.constant):
                return
            left_constant = constant if pattern.constant is ZERO else ZERO
            rest = Sum(left_constant, left) if left or left_constant != 0 else None
            if rest is None or not exact:
                yield scale, rest, bindings
            return
        wanted = pattern.terms[index]
        capture = _bare_capture(wanted)
        if capture is not None and not capture.const and capture.name not in bindings and index == len(pattern.terms) - 1:
            own, left_constant = scale or ONE, constant
            if pattern.constant is not ZERO:
                own = scale if scale is not None else _ratio(constant, pattern.constant)
                if own == 0 or not same_number(constant, own * pattern.constant):
                    return
                left_constant = ZERO
            if not left and left_constant == 0:
                return
            factor = ONE if own is ONE and wanted.coefficient is ONE else 1 / (own * wanted.coefficient)
            taken = _simplest(Sum(left_constant, left) if factor == 1 else _scaled(left_constant, left, factor))
            after = self.bind(capture, taken, bindings)
            if after is not None:
                yield own, None, after
            return
        if capture is not None and capture.const:
            own = scale if scale is not None else ONE
            number = constant / (own * wanted.coefficient)
            if number != 0 and bindings.get(capture.name, number) == number:
                yield from self._terms(pattern, index + 1, left, ZERO, own, {**bindings, capture.name: number}, exact)
            return
        for i, term in enumerate(left):
            for ratio, over, after in self.product(wanted, term, bindings, exact=True):
                if over is None and (scale is None or ratio == scale):
                    yield from self._terms(pattern, index + 1, left[:i] + left[i + 1 :], constant, ratio, after, exact)

    def product(
        self, pattern: ProductPattern, subject: Product, bindings: Bindings, *, exact: bool
    ) -> Iterator[tuple[Fraction, Product | None, Bindings]]:
        """Ways to split `subject` into scale · pattern · rest; `exact`: with no rest but the scale."""
        ratio = subject.coefficient if pattern.coefficient is ONE else _ratio(subject.coefficient, pattern.coefficient)
        yield from self._factors(pattern, 0, subject.factors, ratio, bindings, exact)

    def _factors(
        self, pattern: ProductPattern, index: int, left: Factors, ratio: Fraction, bindings: Bindings, exact: bool
    ) -> Iterator[tuple[Fraction, Product | None, Bindings]]:
        self.steps += 1
        if self.steps > _MAX_STEPS:
            return
        if index == len(pattern.factors):
            for size, exponent in pattern.sizes:
                number = size_of(size, bindings)
                if not number:
                    return
                ratio /= Fraction(number) ** exponent
            if not left:
                yield ratio, None, bindings
            elif not exact:
                yield ratio, Product(ONE, left), bindings
            return
        wanted, exponent = pattern.factors[index]
        last = index == len(pattern.factors) - 1
        if (
            isinstance(wanted, CapturePattern)
            and not wanted.const
            and wanted.name not in bindings
            and last
            and abs(exponent) == 1
            and not pattern.sizes
        ):
            # 1/c · 1/y is a product that c·y does not fit in a denominator: c·y = 1/(1/(c·y)) needs c·y ≠ 0
            if (left or ratio != 1) and (exponent == 1 or all(e < 0 for _, e in left)):
                taken = _simplest(Sum(ZERO, (Product(ratio, left) if exponent == 1 else _inverse(ratio, left),)))
                after = self.bind(wanted, taken, bindings)
                if after is not None:
                    yield ONE, None, after
            return
        if isinstance(wanted, CapturePattern) and wanted.const and abs(exponent) == 1:
            # a constant factor is the coefficient of the chain
            bound = bindings.get(wanted.name)
            if bound is None and ratio != 1:
                yield from self._factors(pattern, index + 1, left, ONE, {**bindings, wanted.name: ratio**exponent}, exact)
            elif isinstance(bound, Fraction) and bound != 0:
                yield from self._factors(pattern, index + 1, left, ratio / bound**exponent, bindings, exact)
            return
        for i, (item, found) in enumerate(left):
            if found * exponent < 0 or abs(found) < abs(exponent):
                continue
            remaining = found - exponent
            others = left[:i] + (((item, remaining),) if remaining else ()) + left[i + 1 :]
            if type(wanted) is SumPattern and not isinstance(item, Root):
                for scale, rest, after in self.sum(wanted, sum_with_powers(item, self.numbering.of), bindings, exact=True):
                    if rest is None:
                        yield from self._factors(pattern, index + 1, others, ratio * scale**exponent, after, exact)
                continue
            for after in self.value(wanted, item, bindings):
                yield from self._factors(pattern, index + 1, others, ratio, after, exact)


_PLAIN = (Fraction, float, frozenset, Integers, Root, Product, Sum)
"""Kinds of bindings besides values of the program (isinstance of those is slow: they have an abstract base)."""


def same_number(a: Number, b: Number) -> bool:
    """Return whether two constants are one number; decimals in a rule stand for the nearest float64."""
    try:
        return a == b or float(a) == float(b)
    except OverflowError:
        return False


def _ratio(number: Fraction, by: Fraction) -> Fraction:
    return ONE if same_number(number, by) else number / by


def _scaled(constant: Fraction, terms: tuple[Product, ...], factor: Fraction) -> Sum:
    return Sum(constant * factor, tuple(Product(term.coefficient * factor, term.factors) for term in terms))


def _inverse(coefficient: Fraction, factors: Factors) -> Product:
    return Product(1 / coefficient, tuple((item, -exponent) for item, exponent in factors))


def _simplest(group: Sum) -> Sum | Product | Item | Fraction:
    """The group as a single value where it is one."""
    if not group.terms:
        return group.constant
    if group.constant == 0 and len(group.terms) == 1:
        (product,) = group.terms
        if not product.factors:
            return product.coefficient
        if product.coefficient == 1 and len(product.factors) == 1 and product.factors[0][1] == 1:
            return product.factors[0][0]
        return product
    return group


def _bare_capture(product: ProductPattern) -> CapturePattern | None:
    if len(product.factors) == 1 and product.factors[0][1] == 1 and not product.sizes and isinstance(product.factors[0][0], CapturePattern):
        return product.factors[0][0]
    return None


def _element(item: Item | Product | Sum | Fraction) -> str | None:
    match item:
        case SSAValue():
            return ELEMENT_NAMES.get(item.type.element_type) if isinstance(item.type, TensorType) else None
        case Root(radicand):
            return _element(radicand)
        case Product(_, factors) if factors:
            return _element(factors[0][0])
        case Sum(_, terms) if terms:
            return _element(terms[0])
    return None


def _are_matrices(op: Operation) -> bool:
    """Assumptions of proofs on products: operands of rank 2 or more, and at least one element along the contracted axis."""
    a, b = (shape_of(operand) for operand in op.operands)
    return len(a) >= 2 and len(b) >= 2 and a[-1] != 0
