"""Every shipped rule: proved, with a reason, a source and a graph in which it fires and is right."""

from __future__ import annotations

import random

import pytest

from hnfc.core.verdicts import _shipped, verdicts
from hnfc.dsl.fingerprint import fingerprint
from hnfc.dsl.rulebook import load_files, shipped
from hnfc.dsl.soundness import prove_all
from hnfc.pipeline.levels import LEVELS
from hnfc.rewrite.matcher import compile_rule
from hnfc.rewrite.rule_tests import run_tests

BOOK = shipped()
RULES = BOOK.rules


@pytest.fixture(scope="module")
def results():
    found = {}
    for result in run_tests(BOOK):
        found.setdefault(result.rule, []).append(result)
    return found


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_says_why_and_whence_and_fires(rule, results):
    assert rule.reason and rule.source
    assert compile_rule(rule) or rule.parameters
    assert rule.name in results, "no test"
    for result in results[rule.name]:
        assert result.passed, result.diagnostic


def test_shipped_verdicts_are_those_of_this_prover():
    """A change of a rule, an operation's meaning or the prover makes them stale: `python -m hnfc.core.verdicts` finds them anew."""
    stale = [rule.name for rule in RULES if fingerprint(rule) not in _shipped("verdicts.json")]
    assert not stale


def proved_here_and_now(rules, record_property):
    found = prove_all(rules)
    not_proved = [(rule.name, verdict.reason) for rule, verdict in zip(rules, found, strict=True) if not verdict.proved]
    assert not not_proved
    record_property("shown", f"{len(rules)} shipped rules proved, {sum(v.seconds for v in found):.1f} s of prover time")


def test_some_shipped_rules_are_proved_here_and_now(record_property):
    proved_here_and_now(random.Random(1).sample(RULES, 30), record_property)


@pytest.mark.slow
def test_every_shipped_rule_is_proved_here_and_now(record_property):
    proved_here_and_now(RULES, record_property)


def test_levels_name_groups_that_exist():
    groups = set(BOOK.groups())
    assert {name for phases in LEVELS.values() for phase in phases for name in phase} <= groups
    assert {"stability", "fusion", "cancellation", "reassociation", "precision", "movement"} <= groups


def test_the_false_rules_of_the_sources_are_refuted(tmp_path):
    path = tmp_path / "false.hnf"
    path.write_text(
        "rule silu_is_not_sigmoid x / (1 + exp(-x)) => sigmoid(x)\n"
        "rule layer_norm_does_not_commute (x @ w - mean[-1](x @ w)) => (x - mean[-1](x)) @ w\n"
        "rule log_splits log(a * b) => log(a) + log(b)\n"
        "rule broadcast_counts sum[k](x) + sum[k](y) => sum[k](x + y)\n"
    )
    found = verdicts(load_files([path]).rules)
    assert {name: v.status.value for name, v in found.items()} == dict.fromkeys(found, "REFUTED")
    assert all(v.counterexample is not None for v in found.values())
