"""All rules as one matcher: a decision tree on the operation and on what it is made of, then AC-matching of what is left.

Matching is modulo associativity and commutativity of + and ×, modulo x/y = x·y⁻¹, x·x = x², and modulo a common
scale: `1 - exp(x)` is found by the pattern `exp(x) - 1` with scale -1. All of these are identities of the reals, so
a proof of the rule is a proof of what is found. What a sum or product holds beyond the pattern is kept beside the
replacement. A capture that stands alone takes all that the other terms leave over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from hnfc.dialects.num.base import NumOp, decode
from hnfc.dialects.types import DYNAMIC, ELEMENT_NAMES
from hnfc.dsl import core
from hnfc.rewrite.chains import (
    ONE,
    PRODUCTS,
    SUMS,
    ZERO,
    Factors,
    Item,
    Number,
    Product,
    Root,
    Sum,
    constant_of,
    is_float,
    is_interior,
    kind,
    over_reals,
    product_of,
    sum_of,
)
from hnfc.rewrite.numbering import Numbering
from hnfc.rewrite.pattern import (
    CapturePattern,
    NumberPattern,
    OperationPattern,
    Pattern,
    ProductPattern,
    SumPattern,
    compile_pattern,
    pattern_kind,
    size_of,
)

Binding: TypeAlias = "SSAValue | Root | Product | Sum | Fraction | float | frozenset[int]"
Bindings: TypeAlias = Mapping[str, Binding]
AXIS = "axis "
"""Axis variables share the bindings with captures, under this prefix."""
_MAX_STEPS = 4000


@dataclass(frozen=True)
class CompiledRule:
    """One direction of a rule, ready to be matched; `needs_gain`: apply only if it lowers the cost (a rule written `<=>`)."""

    rule: core.Rule
    pattern: Pattern
    replacement: core.Expr
    needs_gain: bool = False

    @cached_property
    def parts(self) -> tuple[tuple[str, int], ...]:
        """What a chain must hold for the pattern to fit, and how many of each."""
        return tuple(Counter(_chain_parts(self.pattern)).items()) if isinstance(self.pattern, SumPattern | ProductPattern) else ()

    @cached_property
    def takes_coefficient(self) -> bool:
        """Whether a chain needs a constant factor for the pattern to fit."""
        return isinstance(self.pattern, ProductPattern) and any(isinstance(f, CapturePattern) and f.const for f, _ in self.pattern.factors)

    @cached_property
    def gains_by_shape(self) -> bool:
        """Whether only operands of different shapes can make it pay: elementwise operations, and as many of each on either side."""
        before, after = _operations(self.rule.pattern), _operations(self.rule.replacement)
        return self.needs_gain and before == after and set(before) <= {"add", "sub", "mul", "div"}

    @cached_property
    def operand_kinds(self) -> tuple[tuple[int, str], ...]:
        """The kinds that operands at known places must have."""
        if not isinstance(self.pattern, OperationPattern) or self.pattern.commutative:
            return ()
        kinds = ((index, pattern_kind(operand)) for index, operand in enumerate(self.pattern.operands))
        return tuple((index, needed) for index, needed in kinds if needed is not None)


@dataclass(frozen=True)
class Match:
    """Where a rule fits: what its names stand for, and what the chain at the root holds beyond the pattern.

    The root equals `scale · replacement + rest` (sums) or `scale · replacement · rest` (products).
    """

    compiled: CompiledRule
    root: Operation
    bindings: Bindings
    scale: Fraction = ONE
    rest: Sum | Product | None = None


def compile_rule(rule: core.Rule) -> list[CompiledRule]:
    """The rule's direction or directions; one that only adds operations cannot pay and is left out. Raises UnsupportedPattern."""
    directions = [(rule.pattern, rule.replacement)]
    if rule.both_ways:
        directions.append((rule.replacement, rule.pattern))
    return [
        CompiledRule(rule, compile_pattern(left, rule.structural), right, rule.both_ways)
        for left, right in directions
        if not rule.both_ways or not _operations(left) < _operations(right)
    ]


def _operations(expression: core.Expr) -> Counter[str]:
    return Counter(node.name for node in core.walk(expression) if isinstance(node, core.Apply))


@dataclass
class _Node:
    """One decision: the rules whose root is settled, by the kind of the part that narrows them most."""

    by_part: dict[str, list[tuple[int, CompiledRule]]] = field(default_factory=dict)
    any_part: list[tuple[int, CompiledRule]] = field(default_factory=list)


class Matcher:
    """The decision tree of a set of rules. `match(op)` yields what fits, the largest patterns first."""

    def __init__(self, compiled: list[CompiledRule]) -> None:
        self.rules = sorted(compiled, key=lambda c: -size_of(c.pattern))
        self._chains: dict[str, _Node] = {"+": _Node(), "*": _Node()}
        self._operations: dict[str, _Node] = {}
        for order, rule in enumerate(self.rules):
            pattern = rule.pattern
            if isinstance(pattern, SumPattern | ProductPattern):
                parts = _chain_parts(pattern)
                node = self._chains["+" if isinstance(pattern, SumPattern) else "*"]
                if "*" in parts and len(parts) > 1:
                    parts.remove("*")
                key = max(parts, key=_rarity, default=None)
            else:
                assert isinstance(pattern, OperationPattern)
                node = self._operations.setdefault(pattern.operation.name, _Node())
                key = next((k for k in map(pattern_kind, pattern.operands) if k is not None), None)
            if key is None:
                node.any_part.append((order, rule))
            else:
                node.by_part.setdefault(key, []).append((order, rule))

    def match(self, op: Operation, numbering: Numbering) -> Iterator[Match]:
        """Every way in which a rule fits with `op` as its root."""
        found: dict[int, CompiledRule] = {}
        chain: Sum | Product | None = None
        cls = type(op)
        node = self._operations.get(op.name)
        if node is not None:
            kinds = [kind(operand) for operand in op.operands]
            for order, rule in _candidates(node, set(kinds)):
                for index, needed in rule.operand_kinds:
                    if index < len(kinds) and kinds[index] != needed:
                        break
                else:
                    if not (rule.gains_by_shape and _one_type(op)):
                        found[order] = rule
        family = SUMS if cls in SUMS else PRODUCTS if cls in PRODUCTS else None
        if family is not None and not is_interior(op, family):
            node = self._chains["+" if family is SUMS else "*"]
            if node.any_part or node.by_part:
                chain = sum_of(op.results[0]) if family is SUMS else product_of(op.results[0])
                parts: dict[str, int] = {}
                for part in _subject_parts(chain):
                    parts[part] = parts.get(part, 0) + 1
                for order, rule in _candidates(node, parts):
                    if rule.takes_coefficient and isinstance(chain, Product) and chain.coefficient == 1:
                        continue
                    for part, count in rule.parts:
                        if parts.get(part, 0) < count:
                            break
                    else:
                        found[order] = rule
        if not found or not over_reals(op):
            return
        for order in sorted(found):
            yield from self._fit(found[order], op, chain, numbering)

    def _fit(self, rule: CompiledRule, op: Operation, chain: Sum | Product | None, numbering: Numbering) -> Iterator[Match]:
        matching = _Matching(numbering)
        pattern = rule.pattern
        if isinstance(pattern, SumPattern) and isinstance(chain, Sum):
            for scale, rest, bindings in matching.sum(pattern, chain, {}, exact=False):
                yield Match(rule, op, bindings, scale, rest)
        elif isinstance(pattern, ProductPattern) and isinstance(chain, Product):
            for scale, product, bindings in matching.product(pattern, chain, {}, exact=False):
                # a size is a number like any other: dividing by 7 is no mean over 3 elements, whatever the scale
                if not pattern.sizes or abs(scale) == 1:
                    yield Match(rule, op, bindings, scale, product)
        elif isinstance(pattern, OperationPattern):
            for bindings in matching.value(pattern, op.results[0], {}):
                yield Match(rule, op, bindings)


def _candidates(node: _Node, parts: Iterable[str]) -> Iterator[tuple[int, CompiledRule]]:
    yield from node.any_part
    for part in parts:
        yield from node.by_part.get(part, ())


_RARITY = {"+": 0, "*": 0, "constant": 1, "sum": 2, "mean": 2, "matmul": 2, "exp": 3, "log": 3}


def _rarity(part: str) -> int:
    return _RARITY.get(part, 5)


def _chain_parts(pattern: SumPattern | ProductPattern) -> list[str]:
    if isinstance(pattern, ProductPattern):
        return [part for factor, _ in pattern.factors if (part := pattern_kind(factor)) is not None]
    parts: list[str] = []
    for term in pattern.terms:
        if len(term.factors) > 1 or (term.factors and term.factors[0][1] != 1):
            parts.append("*")
        elif term.factors and (part := pattern_kind(term.factors[0][0])) is not None:
            parts.append(part)
    return parts


def _subject_parts(chain: Sum | Product) -> Iterator[str]:
    if isinstance(chain, Product):
        for item, _ in chain.factors:
            yield kind(item)
        return
    for term in chain.terms:
        if len(term.factors) == 1 and term.factors[0][1] == 1:
            yield kind(term.factors[0][0])
        else:
            yield "*"


class _Matching:
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
            case OperationPattern():
                yield from self.operation(pattern, item, bindings)
            case SumPattern():
                if not isinstance(item, Root) and is_float(item):
                    for scale, rest, result in self.sum(pattern, sum_of(item), bindings, exact=True):
                        if scale == 1 and rest is None:
                            yield result
            case ProductPattern():
                if not isinstance(item, Root) and not is_float(item):
                    return
                chain = product_of(item) if not isinstance(item, Root) else Product(ONE, ((item, 1),))
                for ratio, left, result in self.product(pattern, chain, bindings, exact=True):
                    if ratio == 1 and left is None:
                        yield result

    def operation(self, pattern: OperationPattern, item: Item, bindings: Bindings) -> Iterator[Bindings]:
        if isinstance(item, Root):
            if pattern.operation.name == "num.sqrt":
                yield from self.value(pattern.operands[0], item.radicand, bindings)
            return
        op = item.owner
        if type(op) is not pattern.operation or len(op.operands) != len(pattern.operands) or not over_reals(op):
            return
        if op.name == "num.matmul" and not _are_matrices(op):
            return
        after = self.attributes(pattern, op, bindings)
        if after is None:
            return
        yield from self.operands(pattern.operands, tuple(op.operands), after)
        if pattern.commutative and len(op.operands) == 2 and op.operands[0] is not op.operands[1]:
            yield from self.operands(pattern.operands, (op.operands[1], op.operands[0]), after)

    def operands(self, patterns: tuple[Pattern, ...], items: tuple[SSAValue, ...], bindings: Bindings) -> Iterator[Bindings]:
        if not patterns:
            yield bindings
            return
        for after in self.value(patterns[0], items[0], bindings):
            yield from self.operands(patterns[1:], items[1:], after)

    def attributes(self, pattern: OperationPattern, op: NumOp, bindings: Bindings) -> Bindings | None:
        wanted = dict(pattern.attributes)
        for key, attribute in op.properties.items():
            if key == "axes":
                shape = _shape(op.operands[0])
                found = frozenset(axis - len(shape) for axis in decode(attribute))
                if any(shape[axis] == 0 for axis in found):
                    return None
                after = self.axes(wanted.pop(key), found, bindings)
                if after is None:
                    return None
                bindings = after
            elif wanted.get(key) == "last_two":
                wanted.pop(key)
                if not _swaps_last_two(decode(attribute)):
                    return None
            elif isinstance(wanted.get(key), core.Capture):
                name = wanted.pop(key).name
                number = _exactly(decode(attribute))
                if number is None:
                    return None
                if name in bindings and bindings[name] != number:
                    return None
                bindings = {**bindings, name: number}
            elif key not in wanted or not _same_attribute(wanted.pop(key), decode(attribute)):
                return None
        for key, value in wanted.items():
            if key == "to":
                target = ELEMENT_NAMES.get(_type(op.results[0]).element_type)
                if isinstance(value, core.DTypeOf):
                    captured = bindings.get(value.capture)
                    value = ELEMENT_NAMES.get(_type(captured).element_type) if isinstance(captured, SSAValue) else None
                if value != target:
                    return None
            elif key in ("unsqueeze", "squeeze"):
                if not _is_unit_reshape(key, value, _shape(op.operands[0]), _shape(op.results[0])):
                    return None
            else:
                return None
        return bindings

    def axes(self, wanted: core.Axes, found: frozenset[int], bindings: Bindings) -> Bindings | None:
        literal = frozenset(axis for axis in wanted if isinstance(axis, int))
        if not literal <= found:
            return None
        left = found - literal
        unbound = []
        for axis in wanted:
            if isinstance(axis, str):
                bound = bindings.get(AXIS + axis)
                if bound is None:
                    unbound.append(axis)
                elif isinstance(bound, frozenset) and bound <= left:
                    left -= bound
                else:
                    return None
        if not unbound:
            return bindings if not left else None
        if len(unbound) > 1 or not left:
            return None
        if any(left & bound for name, bound in bindings.items() if name.startswith(AXIS) and isinstance(bound, frozenset)):
            return None
        return {**bindings, AXIS + unbound[0]: left}

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
            left_constant = constant if pattern.constant is ZERO else constant - scale * pattern.constant
            if pattern.constant is not ZERO and left_constant != 0:
                return
            rest = Sum(left_constant, left) if left or left_constant != 0 else None
            if rest is None or not exact:
                yield scale, rest, bindings
            return
        wanted = pattern.terms[index]
        capture = _bare_capture(wanted)
        if capture is not None and not capture.const and capture.name not in bindings and index == len(pattern.terms) - 1:
            own, left_constant = scale or ONE, constant
            if pattern.constant is not ZERO:
                own = scale if scale is not None else constant / pattern.constant
                left_constant = constant - own * pattern.constant
                if own == 0 or left_constant != 0:
                    return
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
        ratio = subject.coefficient if pattern.coefficient is ONE else subject.coefficient / pattern.coefficient
        yield from self._factors(pattern, 0, subject.factors, ratio, bindings, exact)

    def _factors(
        self, pattern: ProductPattern, index: int, left: Factors, ratio: Fraction, bindings: Bindings, exact: bool
    ) -> Iterator[tuple[Fraction, Product | None, Bindings]]:
        self.steps += 1
        if self.steps > _MAX_STEPS:
            return
        if index == len(pattern.factors):
            for size, exponent in pattern.sizes:
                number = self.size(size, bindings)
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
                for scale, rest, after in self.sum(wanted, sum_of(item), bindings, exact=True):
                    if rest is None:
                        yield from self._factors(pattern, index + 1, others, ratio * scale**exponent, after, exact)
                continue
            for after in self.value(wanted, item, bindings):
                yield from self._factors(pattern, index + 1, others, ratio, after, exact)

    def size(self, size: core.Size, bindings: Bindings) -> int | None:
        return extent(bound_value(size.operand, bindings), resolve_axes(size.axes, bindings))


_PLAIN = (Fraction, float, frozenset, Root, Product, Sum)
"""What a binding can be besides a value of the program (isinstance of those is slow: they have an abstract base)."""


def resolve_axes(axes: core.Axes, bindings: Bindings) -> frozenset[int] | None:
    """The axes, counted from the right, that axis variables stand for; None if one is unbound."""
    result: set[int] = set()
    for axis in axes:
        if isinstance(axis, int):
            result.add(axis)
        else:
            bound = bindings.get(AXIS + axis)
            if not isinstance(bound, frozenset):
                return None
            result |= bound
    return frozenset(result)


def bound_value(expression: core.Expr, bindings: Bindings) -> SSAValue | None:
    """The value that a captured name stands for, if it is one value of the program."""
    if not isinstance(expression, core.Capture):
        return None
    bound = bindings.get(expression.name)
    return bound if isinstance(bound, SSAValue) else None


def extent(value: SSAValue | None, axes: frozenset[int] | None) -> int | None:
    """The number of elements along the axes; None if it is not known when compiling. Axes that a value lacks have size 1."""
    if value is None or axes is None or not isinstance(value.type, TensorType):
        return None
    shape = _shape(value)
    result = 1
    for axis in axes:
        size = shape[axis] if -axis <= len(shape) else 1
        if size == DYNAMIC:
            return None
        result *= size
    return result


def same_number(a: Number, b: Number) -> bool:
    """Whether two constants are one number; decimals in a rule stand for the nearest float64."""
    try:
        return a == b or float(a) == float(b)
    except OverflowError:
        return False


def _exactly(attribute: Any) -> Number | None:
    """An attribute as a number; None where it is none that a rule could be proved for."""
    if isinstance(attribute, float):
        return Fraction(attribute) if attribute - attribute == 0 else None
    return Fraction(attribute) if isinstance(attribute, int) else None


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


def _type(value: SSAValue) -> TensorType[Attribute]:
    assert isinstance(value.type, TensorType)
    return value.type


def _shape(value: SSAValue) -> tuple[int, ...]:
    return tuple(_type(value).get_shape())


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


def _same_attribute(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, Fraction | float) and isinstance(found, int | float):
        return float(wanted) == float(found)
    return bool(wanted == found)


def _one_type(op: Operation) -> bool:
    """Whether the operation, its operands and theirs are all of one type."""
    kind = op.results[0].type
    for operand in op.operands:
        owner = operand.owner
        if operand.type is not kind or (isinstance(owner, Operation) and any(inner.type is not kind for inner in owner.operands)):
            return False
    return True


def _are_matrices(op: Operation) -> bool:
    """What rules are proved for: operands of rank 2 or more, and at least one element along the contracted axis."""
    a, b = (_shape(operand) for operand in op.operands)
    return len(a) >= 2 and len(b) >= 2 and a[-1] != 0


def _swaps_last_two(perm: tuple[int, ...]) -> bool:
    rank = len(perm)
    return rank >= 2 and perm == (*range(rank - 2), rank - 1, rank - 2)


def _is_unit_reshape(key: str, axis: int, source: tuple[int, ...], target: tuple[int, ...]) -> bool:
    if key == "squeeze":
        source, target = target, source
    position = len(target) + axis
    return 0 <= position < len(target) and target[position] == 1 and target[:position] + target[position + 1 :] == source
