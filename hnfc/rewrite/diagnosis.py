"""Diagnosis of a rule that does not fit: the parts of its left side that are there, and the first that is not.

A match is all or nothing; here each part of the pattern is given the best part of the program that is left for it, and the parts that find
none are left out. It explains and decides nothing: whether a rule runs is the matcher's business.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from xdsl.ir import Block, Operation, SSAValue

from hnfc.dialects.num.base import NumOp
from hnfc.dsl import core
from hnfc.rewrite.attributes import fit_attributes
from hnfc.rewrite.bindings import Bindings
from hnfc.rewrite.matching import same_number
from hnfc.rewrite.nary_terms import PRODUCTS, SUMS, Item, Product, Root, constant_of, product_of, sum_of
from hnfc.rewrite.pattern import (
    CapturePattern,
    NumberPattern,
    OperationPattern,
    Pattern,
    ProductPattern,
    SumPattern,
    UnsupportedPattern,
    compile_pattern,
    size_of,
)


@dataclass(frozen=True)
class Nearly:
    """A place where `found` of the `size` parts of a pattern are there. missing: the first one that is not, in words."""

    place: str
    found: int
    size: int
    missing: str


@dataclass(frozen=True)
class _Fit:
    """Number of parts that are there, the first missing one, and the bindings."""

    found: int
    missing: str
    bindings: Bindings


def nearly(rule: core.Rule, block: Block, location: Callable[[Operation], str], most: int = 8) -> list[Nearly]:
    """The places of a function that come closest to the rule's left side without fitting it, the closest first.

    A third of the left side is there at least: what has less is something else.
    """
    try:
        pattern = compile_pattern(rule.pattern, rule.structural)
    except UnsupportedPattern:
        return []
    size = max(size_of(pattern), 1)
    look = _Look(location)
    found = []
    for operation in block.ops:
        if not isinstance(operation, NumOp) or len(operation.results) != 1 or not _may_root(pattern, operation):
            continue
        fit = look.value(pattern, operation.results[0], {})
        if fit.missing and size > 1 and size <= 3 * fit.found:
            found.append(Nearly(location(operation), min(fit.found, size - 1), size, fit.missing))
    found.sort(key=lambda near: -near.found)
    best = [near for near in dict.fromkeys(found) if near.found * 2 >= found[0].found]
    return best[:most]


def _may_root(pattern: Pattern, operation: Operation) -> bool:
    match pattern:
        case OperationPattern(kind):
            return type(operation) is kind
        case SumPattern():
            return type(operation) in SUMS
        case ProductPattern():
            return type(operation) in PRODUCTS
    return False


@dataclass
class _Look:
    location: Callable[[Operation], str]

    def value(self, pattern: Pattern, item: Item, bindings: Bindings) -> _Fit:
        match pattern:
            case CapturePattern(name, dtypes, const):
                return self._capture(name, dtypes, const, item, bindings)
            case NumberPattern(number):
                own = constant_of(item) if not isinstance(item, Root) else None
                if own is not None and same_number(own, number):
                    return _Fit(0, "", bindings)
                return _Fit(0, f"the rule has {_number(number)} where the model has {self.described(item)}", bindings)
            case OperationPattern():
                return self._operation(pattern, item, bindings)
            case SumPattern(constant, terms):
                return self._sum(constant, terms, item, bindings)
            case ProductPattern():
                chain = Product(Fraction(1), ((item, 1),)) if isinstance(item, Root) else product_of(item)
                return self._product(pattern, chain, item, bindings)
        raise TypeError(f"no pattern: {pattern!r}")

    def _capture(self, name: str, dtypes: tuple[str, ...], const: bool, item: Item, bindings: Bindings) -> _Fit:
        if const:
            number = constant_of(item) if not isinstance(item, Root) else None
            if number is None or isinstance(number, float):
                return _Fit(0, f"the rule wants a constant `{name}` where the model has {self.described(item)}", bindings)
            return _Fit(0, "", {**bindings, name: number})
        bound = bindings.get(name)
        if bound is None:
            return _Fit(0, "", {**bindings, name: item})
        if bound is item:
            return _Fit(0, "", bindings)
        return _Fit(0, f"`{name}` is {self.described(bound)} in one place and {self.described(item)} in another", bindings)

    def _operation(self, pattern: OperationPattern, item: Item, bindings: Bindings) -> _Fit:
        name = pattern.operation.name.removeprefix("num.")
        owner = None if isinstance(item, Root) else item.owner
        if type(owner) is not pattern.operation:
            return _Fit(0, f"the rule has `{name}` where the model has {self.described(item)}", bindings)
        assert isinstance(owner, NumOp)
        missing = ""
        after = bindings if pattern.is_movement else next(iter(fit_attributes(pattern.settings, owner, bindings)), None)
        if after is None:
            missing, after = f"`{name}` has other axes or settings than the rule asks for", bindings
        orders = [tuple(owner.operands)]
        if pattern.commutative and len(owner.operands) == 2:
            orders.append((owner.operands[1], owner.operands[0]))
        return max((self._all(pattern.operands, order, after, 1, missing) for order in orders), key=_rank)

    def _all(self, patterns: tuple[Pattern, ...], items: tuple[SSAValue, ...], bindings: Bindings, found: int, missing: str) -> _Fit:
        for pattern, item in zip(patterns, items, strict=False):
            fit = self.value(pattern, item, bindings)
            found, missing, bindings = found + fit.found, missing or fit.missing, fit.bindings
        return _Fit(found, missing, bindings)

    def _sum(self, constant: Fraction, terms: tuple[ProductPattern, ...], item: Item, bindings: Bindings) -> _Fit:
        if isinstance(item, Root):
            return _Fit(0, f"the rule has a sum where the model has {self.described(item)}", bindings)
        subject = sum_of(item)
        if len(subject.terms) < 2 and subject.constant == 0:
            return _Fit(0, f"the rule has a sum where the model has {self.described(item)}", bindings)
        found, missing = int(constant != 0 and abs(subject.constant) == abs(constant)), ""
        if constant != 0 and not found:
            missing = f"the rule adds {_number(constant)}, and the model {_number(subject.constant) if subject.constant else 'no number'}"
        left = list(subject.terms)
        for term in terms:
            fits = [(self._product(term, product, item, bindings), index) for index, product in enumerate(left)]
            if not fits:
                missing = missing or "the rule's sum has a term more"
                continue
            fit, index = max(fits, key=lambda pair: _rank(pair[0]))
            found, missing, bindings = found + 1 + fit.found, missing or fit.missing, fit.bindings
            del left[index]
        return _Fit(found, missing, bindings)

    def _product(self, pattern: ProductPattern, subject: Product, whole: Item, bindings: Bindings) -> _Fit:
        found, missing = 0, ""
        left = list(subject.factors)
        for factor, exponent in pattern.factors:
            fits = [(self.value(factor, item, bindings), item, power) for item, power in left]
            if not fits:
                missing = missing or f"the rule has a factor more than {self.described(whole)}"
                continue
            fit, item, power = max(fits, key=lambda entry: (_rank(entry[0]), entry[2] == exponent))
            if power != exponent and not fit.missing:
                fit = _Fit(fit.found, f"the rule has {_power(exponent)} of what the model has {_power(power)} of", fit.bindings)
            found, missing, bindings = found + 1 + fit.found, missing or fit.missing, fit.bindings
            left.remove((item, power))
        return _Fit(found, missing, bindings)

    def described(self, item: object) -> str:
        """A value in the reader's words."""
        if isinstance(item, Root):
            return "a reciprocal square root"
        if not isinstance(item, SSAValue):
            return "a number" if not isinstance(item, Product) else "a product"
        owner = item.owner
        if not isinstance(owner, Operation):
            return f"input {item.index}"  # type: ignore[attr-defined]
        number = constant_of(item)
        if number is not None:
            return _number(number)
        return f"`{owner.name.removeprefix('num.')}` ({self.location(owner)})"


def _rank(fit: _Fit) -> tuple[bool, int]:
    return not fit.missing, fit.found


def _power(exponent: int) -> str:
    return {1: "a factor", -1: "a divisor", 2: "the square", -2: "the inverse square"}.get(exponent, f"the power {exponent}")


def _number(x: object) -> str:
    return f"{float(x):g}"  # type: ignore[arg-type]
