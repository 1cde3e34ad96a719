"""A verdict on one rule, for who calls hnfc from Python."""

from __future__ import annotations

from dataclasses import replace

from hnfc.dsl.core import Rule
from hnfc.dsl.rulebook import load_text
from hnfc.dsl.soundness.judge import verdict
from hnfc.dsl.soundness.obligations import obligations
from hnfc.dsl.soundness.verdict import DEFAULT_TIMEOUT_MS, Verdict


def check(rule: Rule | str, timeout_ms: int | None = None) -> Verdict:
    """The verdict, which knows its rule. Raises HnfError where a text is wrong, ValueError where it does not hold one rule."""
    chosen = only_rule(rule) if isinstance(rule, str) else rule
    found = verdict(chosen, DEFAULT_TIMEOUT_MS if timeout_ms is None else timeout_ms)
    return replace(found, rule=chosen, derivation=obligations)


TEXT = "<text>"


def only_rule(text: str) -> Rule:
    """The rule that the text itself holds; it may import others."""
    rules = [rule for rule in load_text(text, TEXT).rules if rule.file == TEXT]
    if len(rules) != 1:
        raise ValueError(f"the text holds {len(rules)} rules, not one")
    return rules[0]
