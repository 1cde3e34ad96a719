"""Names of rules that were found: the operations of the left side, from outside in."""

from __future__ import annotations

from hnfc.dsl import core
from hnfc.dsl.core import Apply, Rule

_WORDS = 4


def name_of(rule: Rule, taken: dict[str, int]) -> str:
    """A name that is not taken yet; it is taken afterwards."""
    words = [node.name for node in reversed(list(core.walk(rule.pattern))) if isinstance(node, Apply)]
    name = "_of_".join(words[:_WORDS]) or "number"
    taken[name] = taken.get(name, 0) + 1
    return name if taken[name] == 1 else f"{name}_{taken[name]}"
