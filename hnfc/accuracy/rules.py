"""Rules of `.hnf` files on scalar terms: one step of rewriting, at the root of a term, in every way that fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from hnfc.accuracy.arithmetic import Arithmetic
from hnfc.accuracy.terms import COMMUTATIVE, Term, Terms
from hnfc.dsl import core

_HOLE = "?"


@dataclass(frozen=True)
class Step:
    """One use of a rule: what it replaced by what, and what its captures stood for."""

    rule: core.Rule
    bindings: tuple[tuple[str, Term], ...]
    before: Term
    after: Term


@dataclass(frozen=True)
class _Direction:
    rule: core.Rule
    pattern: Term
    replacement: Term


class RuleTable:
    """The rules, by the outermost operation of what they replace."""

    def __init__(self, rules: Sequence[core.Rule], arithmetic: Arithmetic) -> None:
        self.arithmetic = arithmetic
        self.terms = arithmetic.terms
        self._by_root: dict[str, list[_Direction]] = {}
        self._steps: dict[Term, list[Step]] = {}
        for rule in rules:
            for left, right in ((rule.pattern, rule.replacement), (rule.replacement, rule.pattern))[: 1 + rule.both_ways]:
                self._add(rule, pattern_term(left, self.terms), pattern_term(right, self.terms))

    def _add(self, rule: core.Rule, pattern: Term, replacement: Term) -> None:
        while pattern.op == "neg":
            pattern, replacement = pattern.args[0], self.terms.make("neg", replacement)
        self._by_root.setdefault(pattern.op, []).append(_Direction(rule, pattern, replacement))
        if pattern.op == "sub":
            # the same rule with both sides negated
            self._by_root["sub"].append(_Direction(rule, self.terms.make("neg", pattern), self.terms.make("neg", replacement)))

    def steps(self, term: Term) -> list[Step]:
        """Every way in which one rule changes the term at its root."""
        found = self._steps.get(term)
        if found is None:
            found = self._steps[term] = list(self._find(term))
        return found

    def _find(self, term: Term) -> Iterator[Step]:
        seen: set[Term] = {term}
        for direction in self._by_root.get(term.op, ()):
            for bindings in match(direction.pattern, term, {}):
                after = self.instance(direction.replacement, bindings)
                if after not in seen:
                    seen.add(after)
                    named = tuple((hole.value[1:], bound) for hole, bound in bindings.items())
                    yield Step(direction.rule, named, term, after)

    def instance(self, template: Term, bindings: Mapping[Term, Term]) -> Term:
        """The template with what its holes stand for, tidied from the inside out."""
        if template.op == "var":
            return bindings[template]
        if not template.args:
            return template
        return self.arithmetic.make(template.op, *(self.instance(a, bindings) for a in template.args), value=template.value)


def match(pattern: Term, term: Term, bindings: Mapping[Term, Term]) -> Iterator[Mapping[Term, Term]]:
    """Every way in which the pattern's holes can be filled so that it is the term."""
    if pattern.op == "var":
        bound = bindings.get(pattern)
        if bound is None:
            if pattern.value[0] == _HOLE or term.op == "const":
                yield {**bindings, pattern: term}
        elif bound is term:
            yield bindings
        return
    if pattern.op != term.op or pattern.value != term.value:
        return
    if pattern is term:
        yield bindings
        return
    if not pattern.args or len(pattern.args) != len(term.args):
        return
    if len(pattern.args) == 1:
        yield from match(pattern.args[0], term.args[0], bindings)
        return
    yield from _match_all(pattern.args, term.args, bindings)
    if pattern.op in COMMUTATIVE and term.args[0] is not term.args[1]:
        yield from _match_all(pattern.args, term.args[::-1], bindings)


def _match_all(patterns: Sequence[Term], terms: Sequence[Term], bindings: Mapping[Term, Term]) -> Iterator[Mapping[Term, Term]]:
    if not patterns:
        yield bindings
        return
    for found in match(patterns[0], terms[0], bindings):
        yield from _match_all(patterns[1:], terms[1:], found)


class NoScalars(Exception):
    """A rule that is about more than numbers."""


def pattern_term(expression: core.Expr, terms: Terms) -> Term:
    """A side of a rule as a term; captures are variables whose names begin with `?` (`!` for constants)."""
    if isinstance(expression, core.Capture):
        return terms.var(("!" if expression.const else _HOLE) + expression.name)
    if isinstance(expression, core.Literal):
        return terms.const(Fraction(expression.value))
    if not isinstance(expression, core.Apply):
        raise NoScalars("sizes are about tensors")
    args = [pattern_term(operand, terms) for operand in expression.operands]
    name = expression.name
    if name == "square" or (name == "pow" and args[1].op == "const" and args[1].value == 2):
        return terms.make("mul", args[0], args[0])
    if name == "reciprocal":
        return terms.make("div", terms.one, args[0])
    if name == "rsqrt":
        return terms.make("div", terms.one, terms.make("sqrt", args[0]))
    if name == "compare":
        return terms.make(name, *args, value=expression.attribute("predicate"))
    if expression.attributes:
        raise NoScalars(f"{name} is about tensors")
    return terms.make(name, *args)
