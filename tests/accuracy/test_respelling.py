"""Public cases in other spellings, chosen at random from an e-graph of equal forms: they come out as accurate as the reported one."""

from __future__ import annotations

import random
from functools import cache

import pytest
import torch

import hnfc
from hnfc.backend.fx import raise_function
from hnfc.backend.torch_mlir import export
from hnfc.core.dead_code import erase_dead
from hnfc.dsl.rulebook import shipped
from hnfc.egraph import Limits, Program, Saturation, extract
from hnfc.egraph.explorer import both_ways
from hnfc.egraph.graph import ENode
from hnfc.frontend.torch_mlir import import_module
from hnfc.rewriter import RuleSet
from tests.cases.suite import Case, cases, function_of, score
from tests.exporting import export_torch

OTHERS = ("50_bf16_softmax_sum", "58_angle_acos")
"""Of 1,500 operations, and not mended."""
CASES = [case for case in cases() if case.module.KIND in "RB" and not case.gradient and case.name not in OTHERS]
EQUAL = both_ways(list(shipped().only(("algebra", "reassociation")).rules))
LIMITS = Limits(nodes=300, rounds=3, matches=40, seconds=3)
Spelling = tuple[torch.nn.Module, str]


@cache
def rules() -> RuleSet:
    return hnfc.load_rules("stability")


def respelled(case: Case, seed: int) -> Spelling:
    """The case with other operations for its formula, and their names in order."""
    imported = import_module(export_torch(function_of(case), *case.module.inputs()))
    function = next(iter(imported.module.ops))
    block = function.body.block
    program, draw = Program.of(block, {}), random.Random(seed)
    Saturation(program.graph, EQUAL, LIMITS).run()
    prices: dict[ENode, float] = {}
    choice = extract(program.graph, program.needed(), lambda node: prices.setdefault(node, draw.random() ** 4), 2.0, [program.standing()])
    written = program.write(choice.chosen)
    erase_dead([op for op in block.ops if op.results and not any(result.uses for result in op.results)])
    text = " ".join(op.name for op in block.ops)
    return Single(with_numbers(raise_function(export(imported, written.replaced)))), text


def with_numbers(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The graph with numbers as people write them: torch.export lifts a tensor that is made of one by such an operation out as an input."""
    for node in graph.graph.nodes:
        if node.target is torch.ops.prim.NumToTensor.Scalar:
            node.target, node.args = torch.ops.aten.full.default, ([], node.args[0])
    graph.recompile()
    return graph


class Single(torch.nn.Module):
    """A graph's only result."""

    def __init__(self, graph: torch.nn.Module) -> None:
        super().__init__()
        self.formula = graph

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        (result,) = self.formula(*inputs)
        return result


def within(case: Case, model: torch.nn.Module) -> bool:
    inputs = case.module.inputs()
    better = hnfc.optimize(model, inputs, rules=rules(), ranges="sample")
    return score(case, better(*inputs), case.module.reference(*inputs)).within(case.tolerance)


def spellings(case: Case, count: int) -> list[torch.nn.Module]:
    """Different spellings, as many as are found in twice as many tries."""
    found = {text: model for model, text in (respelled(case, seed) for seed in range(2 * count))}
    return list(found.values())[:count]


def outcomes(chosen: list[Case], count: int) -> tuple[int, int, list[str]]:
    """Respellings that come out within the tolerance, all of them, and the cases of the others."""
    good, every, lost = 0, 0, []
    for case in chosen:
        for model in spellings(case, count):
            fine = within(case, model)
            good, every = good + fine, every + 1
            lost += [] if fine else [case.name]
    return good, every, lost


def test_some_respellings(record_property: pytest.RecordProperty) -> None:
    good, every, lost = outcomes([case for case in CASES if case.name[:2] in ("02", "09", "53")], 1)
    record_property("shown", f"{good} of {every} respellings within tolerance; not {lost}")
    assert good == every >= 3


@pytest.mark.slow
def test_respellings_of_every_case(record_property: pytest.RecordProperty) -> None:
    good, every, lost = outcomes(CASES, 20)
    record_property("shown", f"{good} of {every} respellings within tolerance; not {lost}")
    # 135 of 149 with five spellings a case; the goal is 95 %
    assert good >= 0.85 * every
