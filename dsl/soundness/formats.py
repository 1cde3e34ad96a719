"""Casts that round: a cast is the identity over the reals where its format holds every value that may come, else a rounding.

The last cast of a side is left out where the other side is rounded at its end, too: both end in the element type of the result, and
what is compared is what they round.
"""

from __future__ import annotations

from dataclasses import replace

from hnfc.dialects.facts import Exactness, Result
from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.types import FLOATS, FORMATS
from hnfc.dsl.core import Apply, Capture, DTypeOf, Expr, Literal, Rule, Size, conjuncts, map_expressions
from hnfc.dsl.soundness.integers import BITS, bounds, explicit_integers, variants
from hnfc.dsl.soundness.scan import EXPLICIT, boolean_captures, rule_expressions

Formats = frozenset[str]

TRUTH: Formats = frozenset()
"""0 and 1, which every format has."""


def explicit_roundings(rule: Rule) -> Rule:
    """The rule with `round_to` in the place of every cast that may change a value, and no other casts between floating-point formats."""
    if EXPLICIT in conjuncts(rule.where):
        return rule
    if len(choices := variants(rule)) == 1:
        (rule,) = choices
    reader = _Reader(element_types(rule), boolean_captures(rule))
    rule = explicit_integers(rule)
    sides = [rule.pattern, rule.replacement]
    ends = [reader.without_last_cast(side, other) for side, other in (sides, sides[::-1])]
    return replace(rule, pattern=reader.image(ends[0]), replacement=reader.image(ends[1]), where=map_expressions(rule.where, reader.image))


def element_types(rule: Rule) -> dict[str, tuple[str, ...]]:
    """The element types that each captured tensor may have: those that are declared for it, or for one that it is combined with."""
    nodes = rule_expressions(rule)
    declared = {n.name: n.dtypes for n in nodes if isinstance(n, Capture) and n.dtypes}
    groups: list[set[str]] = [{n.name} for n in nodes if isinstance(n, Capture)]
    for node in nodes:
        if isinstance(node, Apply):
            alike = set().union(*(_sources(x) for x in node.alike))
            groups = [*(g for g in groups if not g & alike), alike.union(*(g for g in groups if g & alike))]
    return {name: declared[known] for group in groups for known in sorted(group & declared.keys())[:1] for name in group}


def _sources(node: Expr) -> set[str]:
    """The captures whose element type the expression has."""
    match node:
        case Capture(name, const=False):
            return {name}
        case Apply() if node.facts.result is Result.SAME:
            return set().union(*map(_sources, node.alike))
    return set()


def holds_all(wide: str, narrow: str) -> bool:
    """Return whether every number of `narrow` is one of `wide`, which is a floating-point format or the same integer type."""
    if narrow in BITS:
        return wide == narrow or (wide in FORMATS and max(map(abs, bounds(narrow))) <= FLOATS[wide].exact_integers)
    if wide not in FORMATS:
        return False
    a, b = FORMATS[wide], FORMATS[narrow]
    return a.unit_roundoff <= b.unit_roundoff and a.largest >= b.largest and a.tiny <= b.tiny


class _Reader:
    def __init__(self, declared: dict[str, tuple[str, ...]], booleans: frozenset[str]) -> None:
        self.declared, self.booleans = declared, booleans

    def without_last_cast(self, side: Expr, other: Expr) -> Expr:
        """The side before its last cast, unless the other side's values have that format anyway."""
        if not (isinstance(side, Apply) and side.name == "cast" and _is_float(to := side.attribute("to"))):
            return side
        values = self.formats(other)
        rounded = values is not None and isinstance(to, str) and all(holds_all(to, name) for name in values)
        return side if rounded else side.operands[0]

    def image(self, node: Expr) -> Expr:
        match node:
            case Size(operand, axes):
                return Size(self.image(operand), axes)
            case Apply():
                operands = tuple(self.image(operand) for operand in node.operands)
                if node.name != "cast" or not _is_float(to := node.attribute("to")):
                    return replace(node, operands=operands)
                if self._is_identity(node.operands[0], to):
                    return operands[0]
                if isinstance(to, DTypeOf) and len(known := self.declared.get(to.capture, ())) == 1:
                    to = known[0]
                return Apply(OPERATIONS["round_to"], operands, (("format", to),), node.span)
        return node

    def _is_identity(self, operand: Expr, to: str | DTypeOf) -> bool:
        values = self.formats(operand)
        if isinstance(to, DTypeOf):
            # the type of the very tensor that is cast, or of one that has the same
            return isinstance(operand, Capture) and operand.name == to.capture
        return values is not None and all(holds_all(to, name) for name in values)

    def formats(self, node: Expr) -> Formats | None:
        """The formats whose numbers the values are among; None where they may be any."""
        match node:
            case Capture(name) if name in self.booleans:
                return TRUTH
            case Apply() if node.facts.result is Result.TRUTH:
                return TRUTH
            case Capture(name):
                known = self.declared.get(name, ())
                return frozenset(known) if known and all(d in FORMATS or d in BITS for d in known) else None
            case Apply() if node.name == "round_to" and (whole := str(node.attribute("format")).removeprefix("trunc ")) in BITS:
                return frozenset((whole,))
            case Apply() if node.name == "cast":
                to = node.attribute("to")
                if self._is_identity(node.operands[0], to):
                    return self.formats(node.operands[0])
                return frozenset((to,)) if to in FORMATS else None
            case Apply() if node.facts.exactness in (Exactness.SELECTION, Exactness.NEGATION):
                found = [self.formats(x) for x in node.alike if not isinstance(x, Literal)]
                known_all = [f for f in found if f is not None]
                return frozenset().union(*known_all) if len(known_all) == len(found) else None
        return None


def _is_float(to: object) -> bool:
    return isinstance(to, DTypeOf) or to in FORMATS
