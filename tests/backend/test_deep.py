"""Graphs of thousands of operations in a row: nothing may lean on Python's call stack."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from hnfc.core.verdicts import verdicts
from hnfc.dsl import core
from hnfc.dsl.rulebook import shipped
from hnfc.frontend.reading import read
from hnfc.pipeline.compile import compile_module
from hnfc.pipeline.levels import phases
from hnfc.pipeline.request import Request

DEPTH = 5000
T = "!torch.vtensor<[4,8],f32>"
R = "!torch.vtensor<[4],f32>"


def plan(level: str) -> list[list[core.Rule]]:
    book = shipped()
    rules = [book.only(names).rules for names in phases(level, set(book.groups()))]
    proved = verdicts([rule for phase in rules for rule in phase])
    return [[rule for rule in phase if proved[rule.name].proved] for phase in rules]


def unary_chain() -> str:
    """A naive softmax whose sum drops its axis, then unary operations on the reshaped sum, which canonical form lifts one by one."""
    lines = [
        f"func.func @main(%x: {T}) -> {R} {{",
        "%one = torch.constant.int 1", "%false = torch.constant.bool false", "%none = torch.constant.none",
        "%axes = torch.prim.ListConstruct %one : (!torch.int) -> !torch.list<int>",
        f"%e = torch.aten.exp %x : {T} -> {T}",
        f"%v0 = torch.aten.sum.dim_IntList %e, %axes, %false, %none : {T}, !torch.list<int>, !torch.bool, !torch.none -> {R}",
    ]  # fmt: skip
    names = ("log", "sin", "tanh", "cos")
    lines += [f"%v{i + 1} = torch.aten.{names[i % 4]} %v{i} : {R} -> {R}" for i in range(DEPTH)]
    return "\n".join([*lines, f"return %v{DEPTH} : {R} }}"])


def residual_chain() -> str:
    """x + log(1 + x), again and again."""
    lines = [f"func.func @main(%v0: {T}) -> {T} {{", "%one = torch.constant.int 1"]
    for i in range(DEPTH // 3):
        lines += [
            f"%p{i} = torch.aten.add.Scalar %v{i}, %one, %one : {T}, !torch.int, !torch.int -> {T}",
            f"%l{i} = torch.aten.log %p{i} : {T} -> {T}",
            f"%v{i + 1} = torch.aten.add.Tensor %v{i}, %l{i}, %one : {T}, {T}, !torch.int -> {T}",
        ]
    return "\n".join([*lines, f"return %v{DEPTH // 3} : {T} }}"])


@pytest.mark.slow
@pytest.mark.parametrize(("chain", "there"), [(unary_chain, "aten.amax"), (residual_chain, "aten.log1p")])
@pytest.mark.parametrize("level", ["stability", pytest.param("all", marks=pytest.mark.slow)])
def test_five_thousand_operations_in_a_row(chain: Callable[[], str], there: str, level: str) -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(600)
    try:
        compiled = compile_module(read(chain().encode()), Request(phases=plan(level)))
        exported = str(compiled.export())
    finally:
        sys.setrecursionlimit(limit)
    assert compiled.applied
    assert there in exported
