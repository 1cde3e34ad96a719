"""Rules and verdicts for the tests of IEEE arithmetic."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from hnfc.dsl.core import Rule
from hnfc.dsl.ieee import FORMATS_JUDGED, IeeeVerdict, ieee_verdicts
from hnfc.dsl.ieee.evaluate import Batch, sides
from hnfc.dsl.soundness.typing import Typing, element_types
from tests.soundness.reading import rule_of, rules_of

HERE = Path(__file__).parent

__all__ = ["FORMATS_JUDGED", "both_sides", "corpus", "rule_of", "verdict_of", "verdicts"]


@cache
def corpus(name: str) -> list[Rule]:
    return rules_of((HERE / name).read_text(encoding="utf-8"))


@cache
def verdicts(rule: Rule) -> dict[str, IeeeVerdict]:
    """By format; found once for all tests."""
    return {v.format: v for v in ieee_verdicts(rule)}


def verdict_of(text: str, form: str, **settings: Any) -> IeeeVerdict:
    (verdict,) = ieee_verdicts(rule_of(text), (form,), **settings)
    return verdict


def both_sides(rule: Rule, form: str, axes: dict[str, tuple[int, ...]] | None = None, **inputs: Any) -> tuple[Any, Any]:
    """What the sides are on one input."""
    elements = element_types(rule, form)
    assert elements is not None
    left, right = sides(
        rule.pattern, rule.replacement, Batch({k: np.array([v]) for k, v in inputs.items()}, axes or {}, Typing(elements, form))
    )
    return left[0], right[0]
