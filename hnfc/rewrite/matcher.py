"""All rules as one matcher: a decision tree on the operation and on what it is made of, then AC-matching of what is left.

Matching is modulo associativity and commutativity of + and ×, modulo x/y = x·y⁻¹, x·x = x², and modulo a common
scale: `1 - exp(x)` is found by the pattern `exp(x) - 1` with scale -1. All of these are identities of the reals, so
a proof of the rule is a proof of what is found. What a sum or product holds beyond the pattern is kept beside the
replacement. A capture that stands alone takes all that the other terms leave over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from time import perf_counter

from xdsl.ir import Operation

from hnfc.core.value_numbering import Numbering
from hnfc.dsl import core
from hnfc.rewrite.bindings import Bindings
from hnfc.rewrite.matching import Matching
from hnfc.rewrite.nary_terms import (
    ARITHMETIC,
    ONE,
    PRODUCTS,
    SUMS,
    Product,
    Sum,
    is_interior,
    kind,
    over_reals,
    product_with_powers,
    sum_with_powers,
)
from hnfc.rewrite.pattern import (
    CapturePattern,
    OperationPattern,
    Pattern,
    ProductPattern,
    SumPattern,
    compile_pattern,
    pattern_kind,
    size_of,
)
from hnfc.rewrite.record import Statistics


@dataclass(frozen=True)
class CompiledRule:
    """One direction of a rule, ready to be matched; `needs_gain`: apply only if it lowers the cost (a rule written `<=>`)."""

    rule: core.Rule
    pattern: Pattern
    replacement: core.Expr
    needs_gain: bool = False

    @property
    def backwards(self) -> bool:
        """Return whether the rule is read from right to left."""
        return self.replacement == self.rule.pattern and self.replacement != self.rule.replacement

    @cached_property
    def contains_itself(self) -> bool:
        """Return whether a replacement holds the pattern, as where it is kept for some of the elements."""
        return not self.backwards and self.rule.pattern in core.walk(self.replacement)

    @cached_property
    def parts(self) -> tuple[tuple[str, int], ...]:
        """Parts that an n-ary term must hold for the pattern to fit, with their numbers."""
        return tuple(Counter(_chain_parts(self.pattern)).items()) if isinstance(self.pattern, SumPattern | ProductPattern) else ()

    @cached_property
    def takes_coefficient(self) -> bool:
        """Return whether a chain needs a constant factor for the pattern to fit."""
        return isinstance(self.pattern, ProductPattern) and any(isinstance(f, CapturePattern) and f.const for f, _ in self.pattern.factors)

    @cached_property
    def gains_by_shape(self) -> bool:
        """Return whether only operands of different shapes can make it pay: elementwise operations, and as many of each on either side."""
        before, after = _operations(self.rule.pattern), _operations(self.rule.replacement)
        return self.needs_gain and before == after and set(before) <= ARITHMETIC

    @cached_property
    def operand_kinds(self) -> tuple[tuple[int, str], ...]:
        """The kinds that operands at known places must have."""
        if not isinstance(self.pattern, OperationPattern) or self.pattern.commutative:
            return ()
        kinds = ((index, pattern_kind(operand)) for index, operand in enumerate(self.pattern.operands))
        return tuple((index, needed) for index, needed in kinds if needed is not None)


@dataclass(frozen=True)
class Match:
    """Match of a rule: the bindings of its names, and the rest of the n-ary term at the root.

    The root equals `scale · replacement + rest` (sums) or `scale · replacement · rest` (products).
    """

    compiled: CompiledRule
    root: Operation
    bindings: Bindings
    scale: Fraction = ONE
    rest: Sum | Product | None = None


def compile_rule(rule: core.Rule) -> list[CompiledRule]:
    """The rule's direction or directions; one that only adds operations cannot pay and is left out, and so is a rule
    with parameters, which have no value. Raises UnsupportedPattern."""
    if rule.parameters:
        return []
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
class _Decision:
    """One decision: the rules whose root is settled, by the kind of the part that narrows them most."""

    by_part: dict[str, list[tuple[int, CompiledRule]]] = field(default_factory=dict)
    any_part: list[tuple[int, CompiledRule]] = field(default_factory=list)


class Matcher:
    """The decision tree of a set of rules. `match(op)` yields what fits, the largest patterns first."""

    def __init__(self, compiled: list[CompiledRule]) -> None:
        self.rules = sorted(compiled, key=lambda c: -size_of(c.pattern))
        self._chains: dict[str, _Decision] = {"+": _Decision(), "*": _Decision()}
        self._operations: dict[str, _Decision] = {}
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
                node = self._operations.setdefault(pattern.operation.name, _Decision())
                key = next((k for k in map(pattern_kind, pattern.operands) if k is not None), None)
            if key is None:
                node.any_part.append((order, rule))
            else:
                node.by_part.setdefault(key, []).append((order, rule))

    def match(self, op: Operation, numbering: Numbering, counted: dict[str, Statistics] | None = None) -> Iterator[Match]:
        """Every way in which a rule fits with `op` as its root. counted: where tries are counted, and their time."""
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
                chain = (sum_with_powers if family is SUMS else product_with_powers)(op.results[0], numbering.of)
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
            fits = self._fit(found[order], op, chain, numbering)
            if counted is None:
                yield from fits
                continue
            name = found[order].rule.name
            if (statistics := counted.get(name)) is None:
                statistics = counted[name] = Statistics()
            statistics.tried += 1
            while True:
                start = perf_counter()
                match = next(fits, None)
                statistics.seconds += perf_counter() - start
                if match is None:
                    break
                yield match

    def _fit(self, rule: CompiledRule, op: Operation, chain: Sum | Product | None, numbering: Numbering) -> Iterator[Match]:
        matching = Matching(numbering)
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


def _candidates(node: _Decision, parts: Iterable[str]) -> Iterator[tuple[int, CompiledRule]]:
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


def _one_type(op: Operation) -> bool:
    """Return whether the operation, its operands and theirs are all of one type."""
    kind = op.results[0].type
    for operand in op.operands:
        owner = operand.owner
        if operand.type is not kind or (isinstance(owner, Operation) and any(inner.type is not kind for inner in owner.operands)):
            return False
    return True
