"""Rules for the tests, from text."""

from __future__ import annotations

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
    return rules_of((HERE / name).read_text(encoding="utf-8"))
