"""Every step of rewriting keeps the real value where the rule's condition holds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hnfc.accuracy.arithmetic import TermSimplifier
from hnfc.accuracy.reference import Columns
from hnfc.accuracy.rules import RuleTable, pattern_term
from hnfc.accuracy.terms import Term, Terms, subterms
from hnfc.dsl.rulebook import load_files, shipped
from tests.accuracy.programs import rules, term
from tests.accuracy.test_terms import EXPRESSIONS, POINTS


def same_values(before: Term, after: Term, inputs: dict[str, np.ndarray], condition: Term | None) -> int:
    """How many points were compared. Fails where two values surely differ, or the new one has none."""
    count = len(next(iter(inputs.values())))
    columns = [Columns({n: v.tolist() for n, v in inputs.items()}, count, 500) for _ in range(3)]
    left, right = columns[0].of(before), columns[1].of(after)
    meets = columns[2].of(condition) if condition is not None else [True] * count
    compared = 0
    for i in range(count):
        if meets[i] is True and i not in columns[0].undefined and i not in columns[2].undefined and left[i].is_finite():
            assert i not in columns[1].undefined, (before, after)
            if right[i].is_finite():
                assert left[i].overlaps(right[i]), (before, after)
                compared += 1
    return compared


@settings(max_examples=40, deadline=None)
@given(EXPRESSIONS, st.integers(0, 10**6))
def test_steps_on_random_terms(text, pick):
    terms = Terms()
    table = RuleTable(rules(), TermSimplifier(terms))
    steps = [step for node in subterms(term(text, "x y", terms)) for step in table.steps(node)]
    for step in steps[pick % 5 :: 5]:
        same_values(step.before, step.after, POINTS, step.condition)


OWN = [rule for rule in shipped().rules if rule.group == "accuracy"]


@pytest.mark.parametrize("rule", OWN, ids=lambda rule: rule.name)
def test_each_rule_of_the_group_takes_a_step_that_holds(rule):
    terms = Terms()
    table = RuleTable([rule], TermSimplifier(terms))
    holes = pattern_term(rule.pattern, terms)
    pattern = table.instance(holes, {t: terms.var(t.value[1:]) for t in subterms(holes) if t.op == "var"})
    steps = [step for step in table.steps(pattern) if step.name == rule.name]
    assert steps
    rng = np.random.default_rng(0)
    names = [t.value for t in subterms(pattern) if t.op == "var"]
    inputs = {name: np.concatenate([rng.uniform(0.1, 4, 30), rng.uniform(-4, 4, 60)]) for name in names}
    assert sum(same_values(step.before, step.after, inputs, step.condition) for step in steps) >= 10


def test_a_difference_is_a_sum_with_a_negative():
    terms = Terms()
    table = RuleTable(rules(), TermSimplifier(terms))
    found = {repr(step.after) for step in table.steps(term("(log (- 1 x))", "x", terms))}
    assert "(log1p (neg x))" in found


def test_only_identities_on_doubles_are_used(tmp_path):
    path = tmp_path / "own.hnf"
    path.write_text(
        'rule near "an approximation" exp(x) ~> 1 + x within 1e-3\n'
        'rule narrow "another format" log(x : f16) => log(x)  + 0\n'
        'rule many "a reduction" sum[k](x + y) => sum[k](x) + sum[k](y)\n'
        "    where size[k](x) = size[k](y)\n"
    )
    terms = Terms()
    table = RuleTable(load_files([path]).rules, TermSimplifier(terms))
    assert not table.steps(term("(exp x)", "x", terms)) and not table.steps(term("(log x)", "x", terms))
