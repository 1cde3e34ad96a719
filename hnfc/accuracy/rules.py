"""Rules of `.hnf` files on scalar terms: one step of rewriting, at the root of a term, in every way that fits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial, reduce

from hnfc.accuracy.arithmetic import TermSimplifier
from hnfc.accuracy.factoring import PolynomialForms
from hnfc.accuracy.terms import COMMUTATIVE, Term, Terms
from hnfc.accuracy.turns import without_turns
from hnfc.dsl import core
from hnfc.dsl.constants import Constant
from hnfc.dsl.polynomials import rational_root
from hnfc.frontend.fpcore_builder import PLAIN

_HOLE = "?"


REGROUPED = "polynomial_regrouped"
TURNED = "whole_turns_removed"
EXACT = {
    REGROUPED: "exact: both expand to the same polynomial",
    TURNED: "exact: the argument is less by whole turns or parts of one",
}
"""Steps that are no rules, and why each is an identity."""


@dataclass(frozen=True)
class RuleUse:
    """One use of a rule, or of one of the steps in EXACT: what was replaced by what, and what captures stood for."""

    name: str
    bindings: tuple[tuple[str, Term], ...]
    before: Term
    after: Term
    condition: Term | None = None
    """The rule's `where` on these operands, a truth value; None for a rule that has none."""


@dataclass(frozen=True)
class _Direction:
    rule: core.Rule
    pattern: Term
    replacement: Term
    condition: Term | None


class RuleTable:
    """The rules, by the outermost operation of what they replace: identities on numbers in binary64."""

    def __init__(self, rules: Sequence[core.Rule], arithmetic: TermSimplifier) -> None:
        self.arithmetic = arithmetic
        self.terms = arithmetic.terms
        self.polynomials = PolynomialForms(arithmetic)
        self._by_root: dict[str, list[_Direction]] = {}
        self._steps: dict[Term, list[RuleUse]] = {}
        for rule in rules:
            if rule.within is not None or not (_scalar(rule.pattern) and _scalar(rule.replacement) and _comparisons_only(rule.where)):
                continue
            condition = None if rule.where == core.TRUE else condition_term(rule.where, self.terms)
            for left, right in ((rule.pattern, rule.replacement), (rule.replacement, rule.pattern))[: 1 + rule.both_ways]:
                if set(core.captures(right)) <= set(core.captures(left)):
                    self._add(_Direction(rule, pattern_term(left, self.terms), pattern_term(right, self.terms), condition))

    def _add(self, direction: _Direction) -> None:
        while direction.pattern.op == "neg":
            direction = self._negated(direction)
        if not direction.pattern.args:
            return
        self._by_root.setdefault(direction.pattern.op, []).append(direction)
        if direction.pattern.op == "sub":
            self._by_root["sub"].append(self._negated(direction))

    def _negated(self, direction: _Direction) -> _Direction:
        """The same rule with both sides negated."""
        pattern, replacement = (self.terms.make("neg", side) for side in (direction.pattern, direction.replacement))
        return _Direction(direction.rule, pattern, replacement, direction.condition)

    def steps(self, term: Term) -> list[RuleUse]:
        """Every way in which one rule, or a step of EXACT, changes the term at its root."""
        found = self._steps.get(term)
        if found is None:
            found = self._steps[term] = list(self._find(term))
        return found

    def _find(self, term: Term) -> Iterator[RuleUse]:
        seen: set[Term] = {term}
        directions = self._by_root.get(term.op, [])
        if term.op == "sub":
            directions = directions + self._by_root.get("add", [])
        for direction in directions:
            for bindings in match(self.terms, direction.pattern, term, {}):
                after = self.instance(direction.replacement, bindings)
                if after not in seen and not _root_of_number(after):
                    seen.add(after)
                    named = tuple((hole.value[1:], bound) for hole, bound in bindings.items())
                    condition = None if direction.condition is None else self._signs(self.instance(direction.condition, bindings))
                    yield RuleUse(direction.rule.name, named, term, after, condition)

        for after in self.polynomials.of(term):
            if after not in seen:
                seen.add(after)
                yield RuleUse(REGROUPED, (), term, after)
        for after in without_turns(self.arithmetic, term):
            if after not in seen:
                seen.add(after)
                yield RuleUse(TURNED, (), term, after)

    def _signs(self, condition: Term) -> Term:
        """The condition with comparisons of products with 0 so that no product underflows: x·y has the sign of x/|x|·y."""
        if condition.op.startswith("logical"):
            return self.terms.make(condition.op, *(self._signs(a) for a in condition.args))
        if condition.op != "compare" or condition.args[1] is not self.terms.zero:
            return condition
        if condition.args[0].op == "neg":
            opposite = _OPPOSITE.get(condition.value, condition.value)
            return self._signs(self.terms.make("compare", condition.args[0].args[0], self.terms.zero, value=opposite))
        factors = [f for f in _factors(condition.args[0]) if f.op != "const" or f.value <= 0]
        if condition.value == "ge" and len(odd := [f for f in dict.fromkeys(factors) if factors.count(f) % 2]) < len(factors):
            # squares have no sign
            product = reduce(partial(self.terms.make, "mul"), odd) if odd else self.terms.one
            return self._signs(self.terms.make("compare", product, self.terms.zero, value="ge"))
        if len(factors) < 2 or any(f.op == "const" for f in factors):
            return condition
        *signs, product = sorted(factors, key=lambda f: f.index)
        for x in signs:
            product = self.terms.make("mul", self.terms.make("div", x, self.terms.make("abs", x)), product)
        return self.terms.make("compare", product, self.terms.zero, value=condition.value)

    def instance(self, template: Term, bindings: Mapping[Term, Term]) -> Term:
        """The template with what its holes stand for, tidied from the inside out."""
        if template.op == "var":
            return bindings[template]
        if not template.args:
            return template
        return self.arithmetic.make(template.op, *(self.instance(a, bindings) for a in template.args), value=template.value)


def _root_of_number(term: Term) -> bool:
    """Return whether a root of a number was split off, as √½·√|x| of √(x/2): a number is never why a product leaves the format."""
    return term.op == "mul" and any(a.op == "sqrt" and a.args[0].op == "const" for a in term.args)


_OPPOSITE = {"ge": "le", "gt": "lt", "le": "ge", "lt": "gt"}


def _factors(term: Term) -> list[Term]:
    return [f for a in term.args for f in _factors(a)] if term.op == "mul" else [term]


def match(terms: Terms, pattern: Term, term: Term, bindings: Mapping[Term, Term]) -> Iterator[Mapping[Term, Term]]:
    """Every way in which the pattern's holes can be filled so that it is the term; a difference is a sum with a negative."""
    if pattern.op == "var":
        bound = bindings.get(pattern)
        if bound is None:
            if pattern.value[0] == _HOLE or term.op == "const":
                yield {**bindings, pattern: term}
        elif bound is term:
            yield bindings
        return
    if pattern is term:
        yield bindings
        return
    if pattern.op == "mul" and pattern.args[0] is pattern.args[1] and term.args and (root := _root(terms, term)) is not None:
        yield from match(terms, pattern.args[0], root, bindings)
        return
    args = term.args
    if pattern.op == "add" and term.op == "sub":
        args = (args[0], terms.make("neg", args[1]))
    elif pattern.op == "neg" and term.op == "const" and term.value < 0:
        args = (terms.const(-term.value),)
    elif pattern.op != term.op or pattern.value != term.value or len(pattern.args) != len(args):
        return
    yield from _match_all(terms, pattern.args, args, bindings)
    if pattern.op in COMMUTATIVE and args[0] is not args[1]:
        yield from _match_all(terms, pattern.args, args[::-1], bindings)


def _root(terms: Terms, term: Term) -> Term | None:
    """The term whose square this one is, as 2·x of 4·(x·x); None where it is none to the eye."""
    if term.op == "const" and term.value >= 0:
        root = rational_root(term.value, 2)
        return None if root is None else terms.const(root)
    if term.op == "mul" and term.args[0] is term.args[1]:
        return term.args[0]
    if term.op in ("mul", "div"):
        x, y = (_root(terms, a) for a in term.args)
        return None if x is None or y is None else terms.make(term.op, x, y)
    return None


def _match_all(
    terms: Terms, patterns: Sequence[Term], args: Sequence[Term], bindings: Mapping[Term, Term]
) -> Iterator[Mapping[Term, Term]]:
    if not patterns:
        yield bindings
        return
    for found in match(terms, patterns[0], args[0], bindings):
        yield from _match_all(terms, patterns[1:], args[1:], found)


_EXPRESSIBLE = frozenset((*PLAIN.values(), "neg", "square", "reciprocal", "rsqrt"))


def _scalar(expression: core.Expr) -> bool:
    """Return whether a side of a rule is about numbers, and FPCore has its operations."""
    return all(
        (isinstance(node, core.Capture) and (not node.dtypes or "f64" in node.dtypes))
        or (isinstance(node, core.Literal) and math.isfinite(node.value))
        or (isinstance(node, core.Apply) and node.name in _EXPRESSIBLE and not node.attributes)
        for node in core.walk(expression)
    )


def _comparisons_only(condition: core.Condition) -> bool:
    """Return whether a condition is about the values of numbers."""
    return all(isinstance(part, core.Comparison | core.AllOf | core.AnyOf | core.Not) for part in core.condition_parts(condition)) and all(
        _scalar(expression) for expression in core.condition_expressions(condition)
    )


def condition_term(condition: core.Condition, terms: Terms) -> Term:
    """A `where` as a truth value, its captures as in `pattern_term`."""
    match condition:
        case core.Comparison(predicate, x, y):
            return terms.make("compare", pattern_term(x, terms), pattern_term(y, terms), value=predicate)
        case core.Not(part):
            return terms.make("logical_not", condition_term(part, terms))
        case core.AllOf(parts) | core.AnyOf(parts):
            name = "logical_and" if isinstance(condition, core.AllOf) else "logical_or"
            result, *rest = [condition_term(part, terms) for part in parts]
            for term in rest:
                result = terms.make(name, result, term)
            return result
    raise TypeError(f"no condition on numbers: {condition!r}")


def pattern_term(expression: core.Expr, terms: Terms) -> Term:
    """A side of a rule as a term; captures are variables whose names begin with `?` (`!` for constants)."""
    if isinstance(expression, core.Capture):
        return terms.var(("!" if expression.const else _HOLE) + expression.name)
    if isinstance(expression, core.Literal):
        if isinstance(expression.value, Constant):
            # as programs have it
            return terms.make("mul", terms.const(4 * expression.value.factor), terms.make("atan", terms.one))
        return terms.const(Fraction(expression.value))
    assert isinstance(expression, core.Apply)
    args = [pattern_term(operand, terms) for operand in expression.operands]
    name = expression.name
    if name == "square" or (name == "pow" and args[1].op == "const" and args[1].value == 2):
        return terms.make("mul", args[0], args[0])
    if name == "reciprocal":
        return terms.make("div", terms.one, args[0])
    if name == "rsqrt":
        return terms.make("div", terms.one, terms.make("sqrt", args[0]))
    return terms.make(name, *args)
