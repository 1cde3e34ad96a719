"""Element types in a rule: integers that wrap, truth values that become numbers, casts that cut off, operations that have no type.

`explicit_integers` writes all of it into the rule as operations, so that prover and search need not know of element types:

- `round_to si8` in the place of integer arithmetic: the number modulo 2⁸. Sums and products need it once, at their end, since they are
  the same modulo 2⁸ whether their operands have wrapped or not.
- `round_to trunc si8` in the place of a cast from floating point: the integer part, defined where the type holds it.
- `round_to none`: no type, as for a sum of truth values and floating-point numbers.

An undeclared capture is a floating-point tensor; the rewriter fires no arithmetic on others (`over_reals` of its n-ary terms).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Set
from dataclasses import replace
from fractions import Fraction

from hnfc.dialects.facts import Access, NoFormula
from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.rounding import INTEGERS
from hnfc.dialects.types import FORMATS, Kind
from hnfc.dsl.core import (
    AllOf,
    AnyOf,
    Apply,
    Capture,
    Comparison,
    Condition,
    Expr,
    Literal,
    Property,
    Rule,
    Size,
    conjuncts,
    map_expressions,
    map_leaves,
)
from hnfc.dsl.soundness.element_types import FLOAT, NO_TYPE, NUMBER, TRUTH_TYPE, ElementTypes, alike, required_types, types_of_captures
from hnfc.dsl.soundness.scan import EXPLICIT, VALUES, rule_expressions

CUT_OFF = "trunc "

MAX_VARIANTS = 24

BITS = {"si8": 8, "ui8": 8, "si16": 16, "si32": 32, "si64": 64}


def is_as_of_reals(node: Apply) -> bool:
    """Return whether the operation gives of integers what it gives of real numbers."""
    return node.facts.ignores_wrapping or node.name == "remainder"


def bounds(element: str) -> tuple[int, int]:
    """The least and the greatest number of an integer type."""
    low, high = INTEGERS[element]
    return int(low), int(high) - (element == "si64")


def variants(rule: Rule) -> list[Rule]:
    """The rule once for each choice of integer and truth types where annotations or `dtype` leave several; the rule itself otherwise.

    No rule where some capture can have no type at all. Raises NoFormula where the choices are too many.
    """
    types = types_of_captures(rule)
    if any(not known for known in types.values()):
        return []
    required = required_types(rule)
    kinds = {name: _kinds(known, required.get(name, frozenset())) for name, known in types.items()}
    open_ = sorted(name for name, choices in kinds.items() if len(choices) > 1)
    count = 1
    for name in open_:
        count *= len(kinds[name])
    if count > MAX_VARIANTS:
        raise NoFormula(f"{count} choices of element types")
    chosen = {name: choices[0] for name, choices in kinds.items()}
    if not open_ and not required:
        return [rule]
    return [
        annotated(rule, {**chosen, **dict(zip(open_, choice, strict=True))}) for choice in itertools.product(*(kinds[n] for n in open_))
    ]


def _kinds(known: tuple[str, ...], required: Set[str]) -> list[tuple[str, ...]]:
    """Floating-point formats together, but for those that conditions ask for; other types one by one."""
    floats = tuple(name for name in known if name in FORMATS and name not in required)
    return [*([floats] if floats else []), *((name,) for name in known if name not in floats)]


def annotated(rule: Rule, types: dict[str, tuple[str, ...]]) -> Rule:
    """The rule with these element types on its captures."""

    def image(node: Expr) -> Expr:
        match node:
            case Capture(name, _, const):
                return Capture(name, types.get(name, ()), const)
            case Size(operand, axes):
                return Size(image(operand), axes)
            case Apply():
                attributes = tuple((k, image(v) if isinstance(v, Capture | Size | Apply | Literal) else v) for k, v in node.attributes)
                return replace(node, operands=tuple(map(image, node.operands)), attributes=attributes)
        return node

    def decided(part: Condition) -> Condition:
        match part:
            case Property("dtype", (Capture(name),), (wanted,)) if types.get(name):
                return AllOf(()) if types[name] == (wanted,) else AnyOf(())
        return part

    where = map_expressions(map_leaves(rule.where, decided), image)
    return replace(rule, pattern=image(rule.pattern), replacement=image(rule.replacement), where=where)


def explicit_integers(rule: Rule) -> Rule:
    """The rule with every wrap, cut and missing type as an operation, and with conditions that say which numbers captures may be.

    Raises NoFormula where integers have no meaning here.
    """
    types = ElementTypes(rule)
    if not types.matters:
        return rule
    maker = _Maker(types)
    sides = maker.image(rule.pattern), maker.image(rule.replacement)
    where = map_expressions(rule.where, maker.image)
    captures = {n.name: n for n in rule_expressions(rule) if isinstance(n, Capture)}
    parts = [part for name, known in sorted(types.values(maker.numbers).items()) for part in _limits(captures[name], known)]
    if isinstance(rule.pattern, Apply) and types.of(rule.pattern) != types.of(rule.replacement):
        sides = sides[0], _of_type(sides[1], types.of(rule.pattern), types.of(rule.replacement))
    return replace(rule, pattern=sides[0], replacement=sides[1], where=AllOf((*conjuncts(where), *parts, EXPLICIT)))


def _of_type(side: Expr, wanted: str, found: str) -> Expr:
    """The right side, without a type where its element type is another one than the left side's."""
    if NO_TYPE in (wanted, found) or NUMBER in (wanted, found):
        return side
    return rounding(side, NO_TYPE)


def _limits(capture: Capture, known: tuple[str, ...]) -> Iterator[Condition]:
    """Numbers that the capture may be."""
    yield Property(VALUES, (capture,), known)
    if known[0] in BITS:
        low, high = bounds(known[0])
        yield Comparison("ge", capture, Literal(Fraction(low)))
        yield Comparison("le", capture, Literal(Fraction(high)))


def rounding(node: Expr, format: str) -> Expr:
    return Apply(OPERATIONS["round_to"], (node,), (("format", format),))


class _Maker:
    def __init__(self, types: ElementTypes) -> None:
        self.types = types
        self.memo: dict[int, tuple[Expr, Expr]] = {}
        self.numbers: dict[str, str] = {}
        """Compile-time constants that stand beside integers, and the integer type."""

    def image(self, node: Expr) -> Expr:
        if id(node) not in self.memo:
            self.memo[id(node)] = (node, self._image(node))
        return self.memo[id(node)][1]

    def _image(self, node: Expr) -> Expr:
        match node:
            case Size(operand, axes):
                return Size(self.image(operand), axes)
            case Apply():
                return self._apply(node)
        return node

    def _apply(self, node: Apply) -> Expr:
        kind = self.types.of(node)
        operands = tuple(self.image(x) for x in node.operands)
        if kind == NO_TYPE:
            return rounding(replace(node, operands=operands), NO_TYPE)
        if node.name == "cast":
            return self._cast(node, operands[0])
        kinds = {self.types.of(x) for x in node.operands} - {NUMBER}
        whole = sorted(kinds & BITS.keys())
        if TRUTH_TYPE in kinds and not (Kind.TRUTH in node.facts.accepts and is_as_of_reals(node)) and node.name != "attention":
            raise NoFormula(f"`{node.name}` of truth values")
        if not whole:
            return replace(node, operands=operands)
        self._check_numbers(node, whole[0])
        if is_as_of_reals(node) or (node.name == "attention" and kind == FLOAT):
            return replace(node, operands=operands)
        if node.name == "abs":
            return rounding(replace(node, operands=operands), whole[0])
        if not node.facts.modular:
            raise NoFormula(f"`{node.name}` of integers ({whole[0]})")
        return rounding(self._unwrapped(node), whole[0])

    def _unwrapped(self, node: Expr) -> Expr:
        """The node where only what is congruent to it matters."""
        kind = self.types.of(node)
        if not isinstance(node, Apply) or not node.facts.modular or kind not in BITS:
            return self.image(node)
        self._check_numbers(node, kind)
        if node.facts.access is not Access.ELEMENTWISE and kind != "si64":
            # runners accumulate narrow integers in types of their own
            raise NoFormula(f"`{node.name}` of integers ({kind})")
        return replace(node, operands=tuple(self._unwrapped(x) for x in node.operands))

    def _check_numbers(self, node: Apply, element: str) -> None:
        low, high = bounds(element)
        for x in node.operands:
            if isinstance(x, Capture) and x.const and x in alike(node):
                self.numbers[x.name] = element
            if isinstance(x, Literal) and not (isinstance(x.value, Fraction) and x.value.denominator == 1 and low <= x.value <= high):
                raise NoFormula(f"{x.value} beside integers ({element})")

    def _cast(self, node: Apply, operand: Expr) -> Expr:
        source, to = self.types.of(node.operands[0]), self.types.target(node.attribute("to"))
        if to == source and to not in (FLOAT, NUMBER):
            return operand
        if to == TRUTH_TYPE:
            return Apply(OPERATIONS["compare"], (operand, Literal(Fraction(0))), (("predicate", "ne"),))
        if to in BITS or to == FLOAT:
            if source == TRUTH_TYPE:
                return Apply(OPERATIONS["where"], (operand, Literal(Fraction(1)), Literal(Fraction(0))))
            if to == FLOAT:
                return replace(node, operands=(operand,))
            if source in BITS:
                (low, high), (least, greatest) = bounds(to), bounds(source)
                return operand if low <= least and greatest <= high else rounding(self._unwrapped(node.operands[0]), to)
            return rounding(operand, CUT_OFF + to)
        raise NoFormula(f"a cast to {to}")
