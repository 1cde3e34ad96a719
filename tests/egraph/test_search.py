"""The searches on programs: what they find that greedy does not, and that they never make it dearer."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import hnfc
from hnfc.analysis.cost import flops
from hnfc.core.errors import UsageError
from hnfc.core.verdicts import verdicts
from hnfc.dialects.interval import Interval
from hnfc.dsl.rulebook import load_text, shipped, shipped_targets
from hnfc.egraph.search import Limits, Search, parse_costs, search_of
from hnfc.frontend.models import read_model
from hnfc.pipeline.compile import compile_module
from hnfc.pipeline.levels import FORMS
from hnfc.pipeline.request import Request
from tests.cli.test_main import ATTENTION
from tests.exporting import export_torch
from tests.terminal import hnfc as command

ALGEBRA = tuple(shipped().only(FORMS).rules)


def compiled(module, search, phases=(), lo=-1.0, hi=1.0):
    return compile_module(module, Request(phases=phases, ranges=[("", Interval(lo, hi))], search=replace(search, forms=ALGEBRA)))


def operations(result) -> list[str]:
    return [op.name.removeprefix("num.") for op in result.imported.module.walk() if op.name.startswith("num.")]


def test_naive_softmax_is_found_from_the_shift_alone():
    assert all("softmax" not in rule.name for rule in ALGEBRA)
    result = compiled(read_model(str(ATTENTION)), Search("egraph", limits=Limits(rounds=5, seconds=6)), lo=-40.0, hi=40.0)
    assert "exponentials_shift" in {applied.rule.name for applied in result.applied}
    assert operations(result).count("exp") == 1 and "max" in operations(result)
    (output,) = result.outputs
    assert output.before.not_finite > 0 and output.after.not_finite == 0
    assert result.export() is not None


class Chain(torch.nn.Module):
    """(a·b)·(c·v): the order that is written takes many times what the best one does."""

    def forward(self, a, b, c, v):
        return ((a @ b) @ c) @ v


CHAIN = (torch.randn(12, 10), torch.randn(10, 15), torch.randn(15, 8), torch.randn(8, 1))


@pytest.mark.parametrize("kind", ["egraph", "beam", "restarts"])
def test_the_cheapest_order_of_a_chain(kind):
    module = export_torch(Chain(), *CHAIN)
    result = compiled(module, Search(kind, costs=((1.0, "flops"),)))
    spent = sum(flops(op) for op in result.imported.module.walk())
    best = 2 * (15 * 8 + 10 * 15 + 12 * 10)
    assert spent == best, result.notes
    assert any("times the cost" in note for note in result.notes)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("kind", "cost"), [
    ("egraph", "error"), ("egraph", "bound"), ("egraph", "curvature"), ("egraph", "time"), ("egraph", "error + 0.5*time"),
    ("beam", "error"), ("beam", "time"), ("restarts", "error + 0.5*time"), ("restarts", "flops"),
])  # fmt: skip
@pytest.mark.parametrize("seed", [0, 3])
def test_no_search_ends_with_what_costs_more(kind, cost, seed):
    class Model(torch.nn.Module):
        def forward(self, x, w):
            h = torch.log(1 + torch.exp(x @ w))
            return torch.log(torch.exp(h) / torch.exp(h).sum(-1, keepdim=True))

    generator = torch.Generator().manual_seed(seed)
    inputs = (torch.randn(4, 8, generator=generator) * 20, torch.randn(8, 6, generator=generator))
    better = hnfc.optimize(Model(), inputs, ranges="sample", search=kind, cost=cost, target="h100", seconds=1.5)
    greedy = hnfc.optimize(Model(), inputs, ranges="sample")
    truth = Model()(*(x.double() for x in inputs))
    errors = [(model(*inputs).double() - truth).abs().max().item() for model in (greedy, better)]
    assert math.isfinite(errors[1])
    assert errors[1] <= (2 if "error" in cost else 20) * errors[0] + 1e-6


def test_rules_that_the_target_cannot_run_are_off():
    rules = hnfc.load_rules("compensated,precision")
    for name in ("tpu_v5e", "h100"):
        target = shipped_targets().target(name)
        off = rules.for_search(Search(target=target))[0].off
        wanted = {r.name for phase in rules.phases for r in phase if target.lacks(r)}
        assert set(off) == wanted
        assert all(not target.runs(form) for form in off.values())
    assert rules.for_search(Search())[0].off == {}


def test_later_layers_can_weigh_more():
    class Twice(torch.nn.Module):
        def forward(self, x):
            return torch.tanh(torch.tanh(x))

    module = export_torch(Twice(), torch.randn(3))
    from hnfc.egraph import Program
    from hnfc.egraph.cost_model import Pricing
    from hnfc.egraph.values import ClassValues
    from hnfc.frontend.torch_mlir import import_module

    block = next(iter(import_module(module).module.ops)).body.block
    program = Program.of(block)
    standing = program.standing()
    nodes = [node for node in standing.values() if node.operation is not None]

    def prices(growth):
        pricing = Pricing(Search("egraph", ((1.0, "flops"),), growth=growth), ClassValues(program.graph), nodes)
        (price,) = pricing.surrogates()
        return [price(node) for node in sorted(set(nodes), key=lambda node: node.serial)]

    assert prices(0.0) == [0.5, 0.5]
    first, last = prices(1.0)
    assert last == 2 * 0.5 and first == pytest.approx(0.75)


def test_a_proof_both_ways_is_shipped_for_every_form():
    from hnfc.core.verdicts import _shipped, backwards
    from hnfc.dsl.fingerprint import fingerprint

    known = _shipped("verdicts.json")
    assert all(fingerprint(rule) in known for rule in backwards(shipped().rules))
    assert all(verdict.proved for verdict in verdicts(ALGEBRA).values())


@pytest.mark.parametrize(("text", "wanted"), [
    ("error", ((1.0, "error"),)), ("error+0.1*time", ((1.0, "error"), (0.1, "time"))), ("2 * flops", ((2.0, "flops"),)),
])  # fmt: skip
def test_costs_are_read(text, wanted):
    assert parse_costs(text) == wanted


@pytest.mark.parametrize("text", ["speed", "error+", "x*error", "-1*flops", "nan*time", ""])
def test_costs_that_are_none(text):
    with pytest.raises(UsageError, match="cannot read the cost"):
        parse_costs(text)


@pytest.mark.parametrize(("options", "words"), [
    ({"kind": "best"}, "there is no search `best`"), ({"target": "abacus"}, "there is no target `abacus`; there are cpu"),
    ({"kind": "egraph", "cost": "time"}, "needs a target"), ({"cost": "flops"}, "are for --search egraph"),
    ({"kind": "egraph", "growth": -1.0}, "number from 0"), ({"kind": "egraph", "seconds": 0.0}, "above 0"),
])  # fmt: skip
def test_options_that_do_not_fit(options, words):
    with pytest.raises(UsageError, match=words):
        search_of(**options, targets=shipped_targets())


@pytest.mark.slow
def test_the_command(tmp_path):
    own = tmp_path / "own.hnf"
    own.write_text("target slide_rule { bandwidth = 1 memory = 10 vector_f32 = 1 matrix_f32 = 2 }")
    options = ("--search", "egraph", "--cost", "error+0.01*time", "--target", "slide_rule", "--rules", own, "--seconds", 3)
    done = command(ATTENTION, "--range", "-40:40", *options, "-o", tmp_path / "out.mlir")
    assert done.returncode == 0, done.stderr
    assert "softmax_fusion" in done.stderr and "equality saturation:" in done.stderr
    assert "torch.aten.softmax.int" in (tmp_path / "out.mlir").read_text()
    wrong = command(ATTENTION, "--search", "egraph", "--target", "slide_ruler")
    assert wrong.returncode == 2 and "there is no target `slide_ruler`" in wrong.stderr and "Traceback" not in wrong.stderr


def test_without_samples_what_takes_less_arithmetic_is_taken():
    """Ranges are given: in another order a product of matrices may overflow on its way."""
    search = Search("egraph", forms=ALGEBRA, limits=Limits(seconds=5))
    request = Request(phases=(), search=search, ranges=[("", Interval(-100.0, 100.0))], validate=False)
    result = compile_module(export_torch(Chain(), *CHAIN), request)
    assert any("times the cost" in note for note in result.notes)
    assert np.isclose(sum(flops(op) for op in result.imported.module.walk()), 2 * (15 * 8 + 10 * 15 + 12 * 10))
    result = compile_module(export_torch(Chain(), *CHAIN), replace(request, ranges=[], validate=True))
    assert any("became" in reason for reason in result.withdrawn)


def test_what_makes_an_output_worse_is_taken_back_and_the_search_ends():
    """A shift by the mean instead of the maximum is as true, and overflows: it may be chosen, and must not stay."""
    rules = load_text("rule shift_by_mean exp(x) <=> exp(mean[-1](x)) * exp(x - mean[-1](x))", "own.hnf").rules
    search = Search("egraph", ((1.0, "flops"),), forms=tuple(rules))

    class Written(torch.nn.Module):
        def forward(self, x):
            m = x.mean(-1, keepdim=True)
            return torch.exp(x) + torch.exp(m) * torch.exp(x - m)

    module = export_torch(Written(), torch.randn(2, 4))
    result = compile_module(module, Request(phases=(), ranges=[("", Interval(-80.0, 80.0))], search=search))
    (output,) = result.outputs
    assert not output.worse


def test_an_approximation_that_greedy_took_is_no_equality():
    rules = load_text("rule near exp(x) ~> 1 + x within 1 where x > -1 and x < 1", "own.hnf").rules

    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.log(torch.exp(x))

    module = export_torch(Model(), torch.rand(4))
    search = Search("egraph", ((1.0, "flops"),), forms=ALGEBRA)
    request = Request(phases=[rules], ranges=[("", Interval(0.1, 0.2))], search=search, validate=False)
    result = compile_module(module, request)
    assert "near" in {applied.rule.name for applied in result.applied}
