"""The cycle that refutes a model's formats: it follows from the constraints, it is minimal, and where there is none that is said."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise, product
from xml.etree import ElementTree

import pytest
import torch

from hnfc.precision.assignment import Assignment, Infeasible, Requirements, assign
from hnfc.precision.certificates import BUDGETS, FORMATS, GROUND, SUM, Cycle
from hnfc.precision.obstruction import BELOW, RANGE, SYSTEMS, cycle_of
from hnfc.precision.optimizer import PrecisionAnalysis, PrecisionOptimizer
from hnfc.precision.problem import AssignmentProblem
from hnfc.precision.values import PrecisionSites
from hnfc.sheaf.cores import Core, solve
from tests.precision.made_sites import least_bytes, made_site, made_sites


class Branches(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.trunk, self.head = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.trunk(x)))


X = torch.randn(32, 8, generator=torch.Generator().manual_seed(1))


def analyzed(**requirements: object) -> PrecisionAnalysis:
    return PrecisionOptimizer(**requirements).analyze(Branches().eval(), X)  # type: ignore[arg-type]


PINNED = {"target_accuracy": 1e-6, "pins": {"trunk.add": "bf16"}, "uncast": [("trunk.add", "tanh")]}


def satisfiable(cycle: Cycle, without: int | None) -> bool:
    """By trying all bits: v has at least `bits` more than u."""
    nodes = list(cycle.nodes)
    edges = [edge for place, edge in enumerate(cycle.edges) if place != without]
    for bits in product(range(64), repeat=len(nodes)):
        p = dict(zip(nodes, bits, strict=True)) | {GROUND: 0}
        if all(p[v] - p[u] >= need for u, v, need in edges):
            return True
    return False


def test_a_pin_a_need_and_no_cast_between_them() -> None:
    found = analyzed(**PINNED)
    assert isinstance(found.outcome, Infeasible) and found.outcome.obstruction is not None
    cycle = found.outcome.obstruction
    needs = cycle.edges[0][2]
    assert found.outcome.cycle == ((GROUND, "tanh", needs), ("tanh", "trunk.add", 0), ("trunk.add", GROUND, -8))
    assert 11 < needs <= 24 and cycle.short == cycle.gap == needs - 8 and cycle.tolerance == 0
    first, second, third, *_ = found.outcome.reasons
    assert first.startswith("tanh ") and f"needs {needs} bits of significand, since it reaches" in first
    assert second == "no cast is allowed between trunk.add and tanh"
    assert "the pin `trunk.add` asks for bf16" in third and third.endswith(f"{needs - 8} bits short")
    assert found.h1_cocycle == {(u, v): bits for u, v, bits in cycle.edges} and sum(found.h1_cocycle.values()) == cycle.short
    assert f"Σω = {cycle.short} > 0" in found.outcome.certificate


def test_without_any_one_constraint_of_the_cycle_the_others_can_be_met() -> None:
    cycle = analyzed(**PINNED).outcome.obstruction  # type: ignore[union-attr]
    assert cycle is not None and len(cycle.nodes) == 2
    assert not satisfiable(cycle, None)
    assert all(satisfiable(cycle, place) for place in range(len(cycle.edges)))


@pytest.mark.parametrize("small", [0.0, 0.5], ids=["", "divisors"])
@pytest.mark.parametrize("seed", range(60))
def test_a_cycle_refutes_and_is_minimal(seed: int, small: float) -> None:
    """Against all assignments, and Z3 on the same constraints."""
    draw = random.Random(seed)
    sites = made_sites(draw, 4, 1, small=small)
    pins = {f"s{i}": draw.choice(("bf16", "fp16", "fp32")) for i in range(4) if draw.random() < 0.4}
    uncast = [(f"s{i}", f"s{i + 1}") for i in range(3) if draw.random() < 0.6]
    formats = draw.choice((("bf16",), ("bf16", "fp16"), ("bf16", "fp16", "fp32"), ("fp16", "fp32")))
    requirements = Requirements(2.0 ** draw.uniform(-16, 0), False, formats, pins, uncast, scaling=False)
    problem = AssignmentProblem(sites, requirements)
    cycle, size = cycle_of(problem), least_bytes(problem)
    found = problem.solve()
    assert (found is None) == (size is None) and (found is None or found.size == size)
    cores = [isinstance(solve(system(problem, frozenset())), Core) for system in SYSTEMS.values()]
    assert any(cores) == (cycle is not None)
    if cycle is not None:
        assert size is None and cycle.short > 0
        assert all(v == u for (_, v, _), (u, _, _) in zip(cycle.edges, (*cycle.edges[1:], cycle.edges[0]), strict=True))
        constraints = [d for d in SYSTEMS[cycle.measure](problem, frozenset()) if d.reason in cycle.reasons]
        edges = [next(d for d in constraints if (_n(d.x), _n(d.y), -d.bound) == edge) for edge in cycle.edges]
        assert isinstance(solve(edges), Core)
        assert all(not isinstance(solve([d for d in edges if d is not left_out]), Core) for left_out in edges)


def _n(node: object) -> object:
    return GROUND if node is None else node


@pytest.mark.parametrize("seed", range(40))
def test_each_line_of_help_resolves_it_alone(seed: int) -> None:
    draw = random.Random(seed)
    sites = made_sites(draw, 4, 1)
    pins = {f"s{i}": draw.choice(("bf16", "fp16")) for i in range(4) if draw.random() < 0.5}
    uncast = [(f"s{i}", f"s{i + 1}") for i in range(3) if draw.random() < 0.5]
    requirements = Requirements(2.0 ** draw.uniform(-12, 0), False, ("bf16", "fp16"), pins, uncast, 40.0, scaling=False)
    outcome = assign(sites, requirements)
    for change in outcome.relaxations if isinstance(outcome, Infeasible) else ():
        words = change.change.split()
        if words[0] == "release":
            changed = replace(requirements, pins={k: v for k, v in pins.items() if k != words[-1].strip("`")})
        elif words[0] == "raise":
            changed = replace(requirements, target=float(words[-1]))
        elif words[:3] == ["allow", "more", "memory"]:
            changed = replace(requirements, memory=float(change.cost.split()[0].replace(",", "")))
        elif words[:2] == ["allow", "a"]:
            changed = replace(requirements, uncast=[pair for pair in uncast if set(pair) != {words[-3], words[-1]}])
        elif words == ["allow", "the", "casts"]:
            changed = replace(requirements, uncast=())
        else:
            changed = replace(requirements, formats=(*requirements.formats, words[-1]))
        assert isinstance(assign(sites, changed), Assignment), change


def test_range_is_a_system_of_its_own() -> None:
    sites = PrecisionSites((made_site("a", [1.0], 1e6), made_site("b", [1.0])), (("a", "b"),), 1.0)
    refused = assign(sites, Requirements(0.5, False, ("fp16",), {}, [("a", "b")]))
    assert isinstance(refused, Infeasible) and refused.obstruction is not None and refused.obstruction.measure == RANGE
    assert refused.cycle == ((GROUND, "a", 21), ("a", GROUND, -16))
    assert refused.reasons[0] == "a reaches 1e+06, and needs 21 bits of range"
    assert refused.reasons[1] == "a has 16 bits of range: the widest format allowed, fp16, ends at 65504: 5 bits short"


def test_a_pin_is_a_lower_bound_too() -> None:
    refused = assign(
        PrecisionSites((made_site("a", [1.0]), made_site("b", [1.0])), (("a", "b"),), 1.0),
        Requirements(0.5, False, ("bf16",), {"a": "fp32"}, [("a", "b")]),
    )
    assert isinstance(refused, Infeasible) and refused.cycle == ((GROUND, "a", 24), ("a", "b", 0), ("b", GROUND, -8))
    assert [r.change for r in refused.relaxations] == ["release the pin `a`", "allow a cast between a and b", "allow fp32"]


def test_a_range_that_is_needed_and_a_pin_that_has_less() -> None:
    sites = PrecisionSites((made_site("a", [1.0], 1e6), made_site("b", [1.0])), (("a", "b"),), 1.0)
    refused = assign(sites, Requirements(0.5, False, ("bf16", "fp16", "fp32"), {"b": "fp16"}, [("a", "b")]))
    assert isinstance(refused, Infeasible) and refused.cycle == ((GROUND, "a", 21), ("a", "b", 0), ("b", GROUND, -16))
    assert refused.reasons[2].endswith("fp16, which the pin `b` asks for, ends at 65504: 5 bits short") and len(refused.reasons) == 3


def test_a_coarse_format_for_the_one_and_range_for_the_other() -> None:
    """float16 has the bits and bfloat16 the range."""
    sites = PrecisionSites((made_site("a", [1.0], 1e6), made_site("b", [64.0])), (("a", "b"),), 1.0)
    refused = assign(sites, Requirements(64 * 2.0**-11, False, ("bf16", "fp16"), {}, [("a", "b")]))
    assert isinstance(refused, Infeasible) and refused.cycle == ((GROUND, "b", 11), ("b", "a", 0), ("a", GROUND, -8))
    assert "that hold it, since it reaches 1e+06: bf16: 3 bits short" in refused.reasons[2]


def test_range_below_1_is_a_system_of_its_own() -> None:
    """Half of what float16 begins with, 2^-24, is rounded to 0."""
    for least, needed in ((2.0**-25, 25), (2.0**-27.5, 27), (2.0**-41, 41)):
        sites = PrecisionSites((made_site("a", [1.0], least=least), made_site("b", [1.0])), (("a", "b"),), 1.0)
        refused = assign(sites, Requirements(0.5, False, ("fp16",)))
        assert isinstance(refused, Infeasible) and refused.obstruction is not None and refused.obstruction.measure == BELOW
        assert refused.cycle == ((GROUND, "a", needed), ("a", GROUND, -24)) and refused.obstruction.short == needed - 24
        assert refused.reasons[0].endswith(f"needs {needed} bits of range below 1, since {least:.3g} may not become 0")
        short = "1 bit short" if needed == 25 else f"{needed - 24} bits short"
        assert refused.reasons[1] == (
            f"a has 24 bits of range below 1: the format allowed that is finest near 0, fp16, begins at 5.96e-08: {short}"
        )
        assert isinstance(assign(sites, Requirements(0.5, False, ("fp16", "bf16"))), Assignment)


def test_a_small_number_that_is_needed_and_a_pin_that_begins_later() -> None:
    sites = PrecisionSites((made_site("a", [1.0], least=2.0**-41), made_site("b", [1.0])), (("a", "b"),), 1.0)
    refused = assign(sites, Requirements(0.5, False, ("bf16", "fp16", "fp32"), {"b": "fp16"}, [("a", "b")]))
    assert isinstance(refused, Infeasible) and refused.cycle == ((GROUND, "a", 41), ("a", "b", 0), ("b", GROUND, -24))
    assert refused.reasons[2].endswith("fp16, which the pin `b` asks for, begins at 5.96e-08: 17 bits short") and len(refused.reasons) == 3
    assert [r.change for r in refused.relaxations] == ["release the pin `b`", "allow a cast between a and b"]


def test_a_divisor_that_vanishes_in_a_model_and_a_number_that_would_do() -> None:
    class Guarded(torch.nn.Module):
        def forward(self, x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return x / (v + 1e-12)

    given = torch.tensor([0.0, 0.5]), torch.tensor([0.0, 0.5])
    refused = PrecisionOptimizer(formats=("fp16",), scaling=False).analyze(Guarded(), given).outcome
    # 2^-40 is 9.1e-13
    assert isinstance(refused, Infeasible) and refused.cycle == ((GROUND, "add", 39), ("add", GROUND, -24))
    assert "is a divisor" in refused.reasons[0] and "1e-12" in refused.reasons[0] and len(refused.reasons) == 2
    drawn = PrecisionOptimizer(formats=("fp16",), scaling=False).analyze(Guarded(), given).visualize_obstruction()
    assert "ground: 0 bits of range below 1" in drawn and "has 24" in drawn and "needs 39" in drawn


def test_possible_causes_of_outputs_that_are_not_finite_are_reported_as_such() -> None:
    site = replace(made_site("a", [1.0], least=2.0**-41), moved={"bf16": 0.0, "fp16": 2.0**-30, "fp32": 0.0})
    sites = PrecisionSites((site,), (), 1.0)
    assert isinstance(assign(sites, Requirements(0.5, False, ("fp16",))), Assignment)
    refused = assign(sites, Requirements(0.5, False, ("fp16",)), strict=True)
    assert isinstance(refused, Infeasible) and refused.reasons[0].startswith("a may be why outputs are not finite, and needs 41 bits")


def test_numbers_of_blocks_have_no_cycle() -> None:
    """What becomes 0 in a block depends on its largest element."""
    site = replace(made_site("a", [1.0]), moved={"MXFP8_E4M3": float("inf")}, vanishing=frozenset({"MXFP8_E4M3"}), least=2.0**-41)
    refused = assign(PrecisionSites((site,), (), 1.0), Requirements(0.5, False, ("MXFP8_E4M3",)))
    assert isinstance(refused, Infeasible) and refused.cycle == () and refused.certificate == FORMATS


def test_formats_that_have_bits_but_nothing_in_common_make_no_cycle() -> None:
    """The one may have bfloat16, and float16 with a scale; the other float16 without one."""
    large = made_site("a", [1.0], 1e6)
    scaled = replace(large, moved={**large.moved, "fp16*2^6": 2.0**-11})
    sites = PrecisionSites((scaled, made_site("b", [64.0])), (("a", "b"),), 1.0)
    refused = assign(sites, Requirements(128 * 2.0**-11, False, ("bf16", "fp16"), {}, [("a", "b")]))
    assert isinstance(refused, Infeasible) and refused.cycle == () and refused.certificate == FORMATS
    assert refused.reasons[0] == (
        "no cast is allowed between 2 sites, which have no format in common: b may have fp16; a may have bf16, fp16*2^6"
    )


def test_a_budget_over_all_sites_is_no_cycle() -> None:
    sites = PrecisionSites(tuple(made_site(f"s{i}", [1.0]) for i in range(8)), (), 1.0)
    refused = assign(sites, Requirements(2.0**-7, False, ("bf16",)))
    assert isinstance(refused, Infeasible) and refused.cycle == () and refused.certificate == SUM
    assert refused.reasons[-1].startswith("the outputs may be off by 0.00781, and with the best formats allowed they are off by 0.011")
    tight = assign(sites, Requirements(2.0**-7, False, ("bf16", "fp32"), memory=20.0))
    assert isinstance(tight, Infeasible) and tight.cycle == () and tight.certificate == BUDGETS
    assert tight.relaxations[0].change == "allow more memory"


def test_the_cycle_is_drawn() -> None:
    drawn = ElementTree.fromstring(analyzed(**PINNED).visualize_obstruction())
    svg = "{http://www.w3.org/2000/svg}"
    assert len(drawn.findall(f".//{svg}polyline[@class='cycle']")) == 3
    said = [text.text for text in drawn.findall(f".//{svg}text")]
    assert "no cast" in said and "has 8" in said and "ground: 0 bits of significand" in said
    free = ElementTree.fromstring(analyzed(target_accuracy=3e-3, formats=("bf16",)).visualize_obstruction())
    assert not free.findall(f".//{svg}polyline") and free.findall(f".//{svg}rect")


def test_the_cycle_is_no_longer_than_it_must_be() -> None:
    """Every site is short of bits by itself, though none may be cast to another."""
    names = [f"s{i}" for i in range(6)]
    sites = PrecisionSites(tuple(made_site(name, [8.0 if name == "s3" else 1.0]) for name in names), tuple(pairwise(names)), 1.0)
    refused = assign(sites, Requirements(2.0**-10, False, ("bf16",), {}, [("*", "*")]))
    assert isinstance(refused, Infeasible) and refused.cycle == ((GROUND, "s3", 13), ("s3", GROUND, -8))
    pinned = assign(sites, Requirements(2.0**-10, False, ("bf16", "fp32"), {"s1": "bf16"}, [("*", "*")]))
    assert isinstance(pinned, Infeasible) and [edge[:2] for edge in pinned.cycle] == [
        (GROUND, "s3"),
        ("s3", "s2"),
        ("s2", "s1"),
        ("s1", GROUND),
    ]
