"""What the tests of `-O accuracy` share: programs written as text."""

from __future__ import annotations

from functools import cache

from hnfc.accuracy import rules_for_programs
from hnfc.accuracy.reading import program_term
from hnfc.accuracy.terms import Term, Terms
from hnfc.dsl import core
from hnfc.frontend.fpcore import FPCoreProgram, all_programs


def one(expression: str, arguments: str = "x", pre: str = "") -> FPCoreProgram:
    given = f" :pre {pre}" if pre else ""
    (program,) = all_programs(f"(FPCore ({arguments}){given} {expression})", "test.fpcore")
    assert isinstance(program, FPCoreProgram)
    return program


def term(expression: str, arguments: str = "x", terms: Terms | None = None) -> Term:
    return program_term(one(expression, arguments), terms or Terms())[0]


@cache
def rules() -> tuple[core.Rule, ...]:
    return rules_for_programs()
