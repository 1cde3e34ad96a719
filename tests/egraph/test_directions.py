"""Ways to read a rule in a search."""

from __future__ import annotations

import hnfc
from hnfc.egraph.explorer import both_ways


def test_no_search_makes_what_a_rule_for_accuracy_mends() -> None:
    rules = [rule for phase in hnfc.load_rules("stability").phases for rule in phase]
    ways = both_ways(rules)
    mending = {rule.name for rule in rules if rule.group in ("stability", "cancellation") and not rule.both_ways}
    assert "distance_of_sums" in mending
    counts = {name: sum(d.compiled.rule.name == name for d in ways) for name in mending}
    assert counts["distance_of_sums"] == 1 and max(counts.values()) == 1
