"""Rules for the tests, from text."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from hnfc.dsl.core import Rule
from hnfc.dsl.elaborate import Elaborator
from hnfc.dsl.parser import parse

HERE = Path(__file__).parent


def rules_of(text: str) -> list[Rule]:
    return Elaborator(parse(text, "test.hnf")).rules()


def rule_of(text: str) -> Rule:
    return rules_of(f'library t "test"\nrule r {text}')[0]


def corpus(name: str) -> list[Rule]:
    """The rules of a file beside this one, which is read once: parsing takes up to a second, and eighteen modules of tests want them."""
    return list(_corpus(name))


@cache
def _corpus(name: str) -> tuple[Rule, ...]:
    return tuple(rules_of((HERE / name).read_text(encoding="utf-8")))
