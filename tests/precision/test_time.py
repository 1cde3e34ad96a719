"""Formats for a machine: what it does not run is not chosen, and least time is least beside all other assignments."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace

import pytest
import torch
from torch import fx

from hnfc.core.errors import UsageError
from hnfc.dsl.rulebook import shipped_targets
from hnfc.precision.assignment import Assignment, Infeasible, Requirements, assign, bytes_of, time_of
from hnfc.precision.optimizer import PrecisionAnalysis, PrecisionOptimizer
from hnfc.precision.problem import AssignmentProblem
from hnfc.precision.requirements import checked_width
from hnfc.precision.timing import Timing
from hnfc.precision.values import PrecisionSites
from hnfc.pytorch.program import CapturedProgram
from hnfc.pytorch.settings import Settings
from hnfc.rewriter import load_rules
from tests.precision.made_sites import made_site, made_sites

H100 = shipped_targets().target("h100")
assert H100 is not None
CASTS = (torch.ops.aten.to.dtype, torch.ops.aten.mul.Scalar, torch.ops.aten.clamp.default)
X = torch.randn(32, 8, generator=torch.Generator().manual_seed(1))


def analyzed(**requirements) -> PrecisionAnalysis:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4)).eval()
    return PrecisionOptimizer(**{"target_accuracy": 2e-3, "least": "bytes", **requirements}).analyze(model, X)


def test_formats_that_the_machine_does_not_run_are_not_chosen():
    loose = {"target_accuracy": 5e-2, "formats": ("fp16", "bf16", "fp32")}
    assert "fp16" in set(analyzed(**loose).get_precision_assignment().values())
    chosen = set(analyzed(**loose, target="tpu_v5e").get_precision_assignment().values())
    assert "fp16" not in chosen and "bf16" in chosen
    assert isinstance(analyzed(formats=("fp16",), target="tpu_v5e").outcome, Infeasible)


@pytest.mark.parametrize("target", [1e-1, 1e-2, 2e-3])
def test_no_assignment_within_the_error_takes_less_time(target):
    found = analyzed(target_accuracy=target, target="h100", least="time", formats=("bf16", "fp32"))
    sites, requirements, machine = found.sites, found.requirements, shipped_targets().target("h100")
    outcome = assign(sites, requirements)
    assert isinstance(outcome, Assignment)
    best = math.inf
    for forms in itertools.product(("bf16", "fp32"), repeat=len(sites.sites)):
        pairs = list(zip(sites.sites, forms, strict=True))
        if sum(site.moved[form] ** 2 for site, form in pairs) <= requirements.limit(sites) ** 2:
            best = min(best, Timing(sites, machine).seconds({site.name: form for site, form in pairs}))
    assert outcome.seconds == pytest.approx(best, rel=1e-6)
    assert outcome.bound == pytest.approx(best, rel=1e-6)


def test_time_and_memory_together():
    free = analyzed(target="h100", least="time", target_accuracy=1e-2)
    tight = analyzed(target="h100", least="time", target_accuracy=1e-2, memory_budget=free.outcome.size)
    assert tight.outcome.seconds == pytest.approx(free.outcome.seconds)
    assert tight.outcome.size <= free.outcome.size
    assert isinstance(analyzed(target="h100", least="time", target_accuracy=1e-2, memory_budget=100).outcome, Infeasible)


def test_the_model_of_time_by_hand():
    found = analyzed(target="h100", least="time")
    machine = shipped_targets().target("h100")
    site = next(s for s in found.sites.sites if s.matrix)
    # 32 rows of 8 against 16 columns, and the bias
    assert site.work >= 2 * 32 * 8 * 16 and site.reads >= 1
    expected = site.work / 989e12 + bytes_of(site, "bf16") * (1 + site.reads) / 3.35e12
    assert time_of(site, "bf16", machine) == pytest.approx(expected)


@pytest.mark.parametrize(("requirements", "words"), [
    ({"target": "abacus"}, "there is no target `abacus`"), ({"least": "time"}, "time is modelled on a target"),
    ({"target": "cpu", "least": "joules"}, "parameters, peak or time"),
])  # fmt: skip
def test_requirements_that_do_not_fit(requirements, words):
    with pytest.raises(UsageError, match=words):
        analyzed(**requirements)


def timed_sites(draw: random.Random, count: int, outputs: int = 1) -> PrecisionSites:
    """A chain with some skips, of operations on matrices and of elements."""
    made = made_sites(draw, count, outputs)
    skips = [(f"s{i}", f"s{j}") for i, j in (sorted(draw.sample(range(count), 2)) for _ in range(count // 2))]
    edges = tuple(dict.fromkeys((*made.edges, *skips)))
    sites = tuple(
        replace(
            site, work=10.0 ** draw.uniform(0, 7), matrix=draw.random() < 0.3, elements=draw.randint(1, 10**6),
            reads=sum(u == site.name for u, _ in edges) + draw.choice((0, 0, 1)),
        )
        for site in made.sites
    )  # fmt: skip
    return PrecisionSites(sites, edges, 1.0, made.outputs)


@pytest.mark.parametrize("seed", range(30))
def test_least_time_with_casts_among_all_assignments(seed: int) -> None:
    draw = random.Random(seed)
    sites = timed_sites(draw, 6)
    uncast = [("s1", "s2")] if seed % 3 == 0 else []
    requirements = Requirements(2.0 ** draw.uniform(-10, 2), False, uncast=uncast, scaling=False, target_machine=H100, least="time")
    problem, timing = AssignmentProblem(sites, requirements), Timing(sites, H100)
    (allowance,), names, best = problem.allowances, [site.name for site in sites.sites], math.inf
    for forms in itertools.product(*(problem.candidates(site) for site in sites.sites)):
        chosen = dict(zip(names, forms, strict=True))
        error = sum(problem.square(site, form, allowance) for site, form in zip(sites.sites, forms, strict=True))
        if error <= problem.limit(allowance) ** 2 and all(chosen[u] == chosen[v] for u, v in problem.pairs):
            best = min(best, timing.seconds(chosen))
    found = assign(sites, requirements)
    assert isinstance(found, Infeasible) == (best == math.inf)
    if isinstance(found, Assignment):
        assert found.seconds == pytest.approx(best, rel=1e-6) and found.bound == pytest.approx(best, rel=1e-6)


def chain(sensitivities: list[float]) -> PrecisionSites:
    """Elementwise operations on as many elements each, one after the other."""
    sites = tuple(
        replace(made_site(f"s{i}", [s], elements=10**6), work=1e6, reads=1 if i + 1 < len(sensitivities) else 0)
        for i, s in enumerate(sensitivities)
    )
    return PrecisionSites(sites, tuple((f"s{i}", f"s{i + 1}") for i in range(len(sites) - 1)), 1.0)


def test_formats_do_not_change_to_and_fro_where_casts_take_more_than_they_save() -> None:
    # every other value needs float32; with float16 between them each operation computes in float32 and its result is cast
    sites = chain([1.0, 2.0**-14] * 4)
    requirements = Requirements(2.0**-13, False, ("fp16", "fp32"), scaling=False, target_machine=H100)
    cheap, fast = assign(sites, requirements), assign(sites, replace(requirements, least="time"))
    assert isinstance(cheap, Assignment) and isinstance(fast, Assignment)
    assert [form for _, form in sorted(cheap.formats.items())] == ["fp32", "fp16"] * 4
    assert set(fast.formats.values()) == {"fp32"}
    assert cheap.seconds is not None and fast.seconds is not None and fast.seconds < 0.7 * cheap.seconds


def test_one_cast_is_worth_a_long_tail_in_half_the_bytes() -> None:
    sites = chain([1.0, 1.0, *[2.0**-14] * 12])
    fast = assign(sites, Requirements(2.0**-13, False, ("fp16", "fp32"), scaling=False, target_machine=H100, least="time"))
    assert isinstance(fast, Assignment)
    changes = [u for u, v in sites.edges if fast.formats[u] != fast.formats[v]]
    assert len(changes) == 1 and fast.formats["s0"] == "fp32" and fast.formats["s13"] == "fp16"


def test_casts_by_hand() -> None:
    """u in fp32 is read by two that compute in fp32, of which one stores its result in bf16."""
    one = {"elements": 1000}
    u, v, w = (made_site(name, [1.0], **one) for name in "uvw")
    sites = PrecisionSites((replace(u, reads=2), v, w), (("u", "v"), ("u", "w")), 1.0)
    timing = Timing(sites, H100)
    # u is written once and read twice; v and w are written in fp32; then v is read and written in half the bytes
    assert timing.seconds({"u": "fp32", "v": "bf16", "w": "fp32"}) * H100.bandwidth == pytest.approx(12_000 + 8_000 + 6_000)
    # the cast of u to fp32 is made once for both, and read by both
    assert timing.seconds({"u": "bf16", "v": "fp32", "w": "fp16"}) * H100.bandwidth == pytest.approx(2_000 + 6_000 + 16_000 + 6_000)
    assert timing.seconds(dict.fromkeys("uvw", "bf16")) == pytest.approx(sum(time_of(site, "bf16", H100) for site in sites.sites))


class Mixing(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = torch.tanh(self.a(x))
        y = self.b(h) * x
        return y + torch.exp(y), h * h


def cast_in_graph(graph: fx.GraphModule, tensors: list[torch.Tensor]) -> int:
    """Bytes that the casts of a graph read and write, but for those of what is given and of results."""
    around: set[fx.Node] = set()
    for node in graph.graph.nodes:
        if node.target in CASTS and (node.args[0].op == "placeholder" or (node.args[0] in around and node.args[0].target in CASTS[1:])):
            around.add(node)
    for node in graph.graph.find_nodes(op="output")[0].all_input_nodes:
        while node.target in CASTS and len(node.users) == 1:
            around.add(node)
            if node.target == CASTS[0]:
                break
            node = node.args[0]
    counted = 0

    class Counting(fx.Interpreter):
        def run_node(self, n: fx.Node) -> object:
            nonlocal counted
            result = super().run_node(n)
            if n.target in CASTS and n not in around:
                counted += sum(t.numel() * t.element_size() for t in (self.env[n.args[0]], result))
            return result

    Counting(graph, garbage_collect_values=False).run(*tensors)
    return counted


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(12))
def test_the_casts_that_are_counted_are_those_of_the_graph(seed: int) -> None:
    draw, model = random.Random(seed), Mixing().eval()
    found = PrecisionOptimizer(0.1, target="h100", least="time").analyze(model, X)
    formats = {site.name: draw.choice(("bf16", "fp16", "fp32", "fp16*2^3", "fp16|2^15")) for site in found.sites.sites}
    found.outcome = replace(found.outcome, formats=formats)
    program = CapturedProgram.of(model, (X,), {}, Settings(load_rules("none"), edit=found.casts()))
    timing = Timing(found.sites, H100)
    assert timing.cast_bytes(formats) == pytest.approx(
        cast_in_graph(program.graph, [t.detach() for t in program.signature.gather(model, [X])]), abs=4 * len(formats)
    )


def test_beyond_the_solver_casts_are_counted_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    sites = timed_sites(random.Random(3), 40)
    error = math.sqrt(sum(site.moved["bf16"] ** 2 for site in sites.sites if math.isfinite(site.moved["bf16"])))
    requirements = Requirements(0.1 * error, False, scaling=False, target_machine=H100, least="time")
    exact = assign(sites, requirements)
    monkeypatch.setattr("hnfc.precision.problem._EXACT_TIMED", 10)
    found = assign(sites, requirements)
    assert isinstance(exact, Assignment) and isinstance(found, Assignment) and exact.seconds is not None and found.seconds is not None
    timing = Timing(sites, H100)
    assert found.bound <= exact.seconds <= found.seconds == pytest.approx(timing.seconds(found.formats))
    # not worse than no casts at all
    assert found.seconds <= timing.seconds(dict.fromkeys(found.formats, "fp32")) and found.error <= found.limit


def test_what_is_not_proved_in_time_has_a_bound_with_its_casts(monkeypatch: pytest.MonkeyPatch) -> None:
    sites = timed_sites(random.Random(5), 60)
    error = math.sqrt(sum(site.moved["bf16"] ** 2 for site in sites.sites if math.isfinite(site.moved["bf16"])))
    requirements = Requirements(0.1 * error, False, scaling=False, target_machine=H100, least="time")
    exact = assign(sites, requirements)
    monkeypatch.setattr("hnfc.precision.problem._SECONDS", 1e-3)
    found = assign(sites, requirements)
    assert isinstance(exact, Assignment) and isinstance(found, Assignment) and exact.seconds is not None and found.seconds is not None
    assert found.bound <= exact.seconds * (1 + 1e-9) and exact.seconds <= found.seconds * (1 + 1e-9) and found.error <= found.limit


def test_what_is_stored_in_a_format_without_a_rate_is_computed_as_fast_as_its_arithmetic() -> None:
    """Of a value by itself, both ways of looking at time agree; beyond what is solved exactly, a bound rests on that."""
    site = replace(made_site("s0", [1.0], elements=10**4), work=1e9, matrix=True)
    timing = Timing(PrecisionSites((site,), (), 1.0), H100)
    for form in ("bf16", "fp32", "Q8_0", "fp8_e4m3fn", "fp8_e5m2", "fixed(3, 4)"):
        assert time_of(site, form, H100) == pytest.approx(timing.seconds({"s0": form}))


def test_pins_to_what_the_machine_has_no_rate_for_leave_the_bound_one(monkeypatch: pytest.MonkeyPatch) -> None:
    sites = timed_sites(random.Random(3), 40)
    held = tuple(
        replace(site, moved={**site.moved, "Q8_0": site.moved["fp32"]}, work=1e12) if number < 5 else site
        for number, site in enumerate(sites.sites)
    )
    pins = {site.name: "Q8_0" for site in held[:5]}
    requirements = Requirements(1e3, False, pins=pins, scaling=False, saturation=False, target_machine=H100, least="time")
    monkeypatch.setattr("hnfc.precision.problem._EXACT_TIMED", 10)
    found = assign(replace(sites, sites=held, outputs={}), requirements)
    assert isinstance(found, Assignment) and found.seconds is not None and found.bound <= found.seconds * (1 + 1e-9)


def test_formats_of_eight_bits_are_run_by_a_machine_that_has_them() -> None:
    found = analyzed(target_accuracy=0.3, formats=("fp8_e4m3fn", "bf16"), target="h100")
    assert "fp8_e4m3fn" in set(found.get_precision_assignment().values())


@pytest.mark.parametrize(("formats", "machine", "words"), [
    (("Q8_0",), "h100", "h100 does not run Q8_0, and there is no other to choose from"),
    (("fp8_e4m3fn", "fp16"), "tpu_v5e", "tpu_v5e does not run fp8_e4m3fn, fp16, and there is no other"),
])  # fmt: skip
def test_a_machine_that_runs_none_of_the_formats_is_the_reason(formats: tuple[str, ...], machine: str, words: str) -> None:
    refused = analyzed(target_accuracy=0.3, formats=formats, target=machine).outcome
    assert isinstance(refused, Infeasible) and any(words in reason for reason in refused.reasons)
    assert not any("widest format" in reason for reason in refused.reasons)
    assert any(relaxation.change == "allow fp32" for relaxation in refused.relaxations)


@pytest.mark.parametrize(("requirements", "words"), [
    ({"target_accuracy": 0.0}, "above 0"), ({"target_accuracy": -1e-3}, "above 0"), ({"target_accuracy": math.nan}, "above 0"),
    ({"formats": ()}, "name one at least"), ({"memory_budget": math.nan}, "from 0"), ({"memory_budget": -5.0}, "from 0"),
    ({"headroom": 0.5}, "number from 1"), ({"headroom": math.nan}, "number from 1"),
    ({"uncast": [("nowhere", "*")]}, "`nowhere`, where no cast"), ({"uncast": [("*", "")]}, "empty pattern"),
])  # fmt: skip
def test_what_is_no_requirement_is_refused(requirements: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        analyzed(**requirements)


@pytest.mark.parametrize(("width", "certified", "words"), [
    (-1.0, True, "from 0"), (math.nan, True, "from 0"), (1e-3, False, "ask for a proof"),
])  # fmt: skip
def test_a_width_that_says_nothing(width: float, certified: bool, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        checked_width(width, certified)
    assert checked_width(0.0, False) is None and checked_width(1e-3, True) == 1e-3
