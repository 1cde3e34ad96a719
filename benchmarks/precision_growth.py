"""How the choice of formats grows with the number of values, for each kind of answer.

    python benchmarks/precision_growth.py [VALUES …]

The values are made up: layers of eight, each fed by two of the layer before and, every fourth layer, by one four layers back; elements and
sensitivities are drawn at random. What is stitched from blocks is compared with HiGHS on the whole, for few values. 12 layers are a
transformer in torch: what solving takes after its analysis.
"""

from __future__ import annotations

import random
import sys
import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
warnings.filterwarnings("ignore")

import torch  # noqa: E402

from hnfc.precision.assignment import Assignment, Infeasible, assign  # noqa: E402
from hnfc.precision.optimizer import PrecisionOptimizer  # noqa: E402
from hnfc.precision.policy import SemanticDType  # noqa: E402
from hnfc.precision.requirements import Requirements  # noqa: E402
from hnfc.precision.values import PrecisionSite, PrecisionSites  # noqa: E402
from hnfc.sheaf.difference import Conflict, DifferenceConstraint, at_least, at_most, least_solution, within  # noqa: E402
from hnfc.sheaf.ilp import cheapest, total  # noqa: E402
from hnfc.sheaf.stitching import cheapest_by_blocks  # noqa: E402
from hnfc.sheaf.system import Constraint, System  # noqa: E402

SIZES = (1_000, 10_000, 100_000)
WHOLE = 1_000
"""Up to so many values HiGHS is given the whole of what is stitched from blocks."""
WIDTH = 8
UNITS = {"bf16": 2.0**-8, "fp16": 2.0**-11, "fp32": 2.0**-24}


def layered(count: int, seed: int = 0) -> PrecisionSites:
    draw = random.Random(seed)
    sites, edges = [], []
    for i in range(count):
        layer, sensitivity, high = i // WIDTH, 2.0 ** draw.uniform(-6, 6), 2.0 ** draw.uniform(0, 18)
        moved = {form: float("inf") if form == "fp16" and high > 65504 else sensitivity * unit for form, unit in UNITS.items()}
        role = SemanticDType.PARAM if draw.random() < 0.3 else SemanticDType.COMPUTE
        last = (layer + draw.choice((1, 1, 1, 4))) * WIDTH
        live = (-1, count) if role is SemanticDType.PARAM else (i, min(last, count))
        name, elements = f"s{i}", draw.choice((64, 4096, 65536))
        sites.append(PrecisionSite(name, "mul", f"layer{layer}", name, role, elements, -high, high, sensitivity, moved, live=live))
        if layer:
            before = [(layer - 1) * WIDTH + k for k in draw.sample(range(WIDTH), 2)]
            before += [(layer - 4) * WIDTH + draw.randrange(WIDTH)] if layer % 4 == 0 else []
            edges += [(f"s{j}", f"s{i}") for j in before]
    return PrecisionSites(tuple(sites), tuple(edges), 1.0)


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    found = call()
    return found, time.perf_counter() - start


def differences(sites: PrecisionSites, clash: bool) -> list[DifferenceConstraint]:
    """Every value needs some bits, and neighbours differ by at most 13; with `clash` the last one has too few."""
    found = [at_least(site.name, site.bits_for(1e-3), f"{site.name} needs bits") for site in sites.sites]
    for u, v in sites.edges:
        found += within(u, v, 13, f"{u} feeds {v}")
    most = max(site.bits_for(1e-3) for site in sites.sites)
    return [*found, at_most(sites.sites[-1].name, 1 if clash else most + 13, "the last one has few")]


def refused(sites: PrecisionSites, **requirements: Any) -> Infeasible:
    found = assign(sites, Requirements(relative=False, scaling=False, **requirements))
    assert isinstance(found, Infeasible)
    return found


def chain(count: int) -> tuple[System, dict[Any, dict[Any, float]], list[tuple[int, ...]]]:
    """Blocks of four that share one with the next; within each, formats may differ by 16 bits."""
    draw = random.Random(1)
    blocks = [tuple(range(i, i + 4)) for i in range(0, count - 3, 3)]
    nodes = range(blocks[-1][-1] + 1)
    constraints = tuple(
        Constraint(f"{pair} are alike", pair, lambda a, b: abs(a - b) <= 16) for block in blocks for pair in pairwise(block)
    )
    cost = {n: {bits: float(draw.randint(1, 99)) for bits in (8, 11, 24, 53)} for n in nodes}
    return System(dict.fromkeys(nodes, (8, 11, 24, 53)), constraints), cost, blocks


def rows(count: int) -> list[tuple[str, float, str]]:
    sites = layered(count)
    narrow = sum(site.moved["bf16"] ** 2 for site in sites.sites) ** 0.5
    found: list[tuple[str, float, str]] = []
    least, seconds = timed(lambda: least_solution(differences(sites, False)))
    found.append(("least solution of differences", seconds, f"{len(sites.edges)} pairs"))
    conflict, seconds = timed(lambda: least_solution(differences(sites, True)))
    assert isinstance(conflict, Conflict) and not isinstance(least, Conflict)
    found.append(("cycle that refutes differences", seconds, f"{len(conflict.cycle)} constraints, {conflict.gap} bits short"))
    for what in ("bytes", "peak"):
        outcome, seconds = timed(lambda least=what: assign(sites, Requirements(0.05 * narrow, False, scaling=False, least=least)))
        assert isinstance(outcome, Assignment)
        reached = outcome.size if what == "bytes" else outcome.peak
        found.append((f"formats of least {what}", seconds, f"at most {reached / outcome.bound - 1:.1e} above the least"))
    worst = max(sites.sites, key=lambda site: site.sensitivity)
    reason, seconds = timed(lambda: refused(sites, target=worst.moved["bf16"] / 4, pins={worst.name: "bf16"}))
    found.append(("refusal by a cycle", seconds, f"{len(reason.cycle)} constraints, {len(reason.relaxations)} ways out"))
    reason, seconds = timed(lambda: refused(sites, target=1e-9 * narrow))
    found.append(("refusal by all together", seconds, f"{len(reason.relaxations)} ways out"))
    system, cost, blocks = chain(count)
    stitched, seconds = timed(lambda: cheapest_by_blocks(system, cost, blocks))
    found.append(("stitched from blocks", seconds, f"{len(blocks)} blocks"))
    if count <= WHOLE:
        whole, seconds = timed(lambda: cheapest(system, cost))
        same = "the same cost" if total(cost, whole) == total(cost, stitched) else "ANOTHER COST"
        found.append(("  the whole by HiGHS", seconds, same))
    return found


def transformer() -> None:
    layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, norm_first=True)
    model = torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False).eval()
    analysis, seconds = timed(lambda: PrecisionOptimizer(1e-3).analyze(model, torch.randn(1, 64, 256)))
    for least in ("bytes", "peak"):
        requirements = PrecisionOptimizer(1e-3, least=least).requirements()
        _, solved = timed(lambda given=requirements: assign(analysis.sites, given))
        print(f"{len(analysis.sites.sites):8} 12 layers, least {least:13} {solved:9.2f}  of an analysis of {seconds:.1f} s")


def main(sizes: tuple[int, ...]) -> None:
    print(f"{'values':>8} {'':31} {'seconds':>7}")
    for count in sizes:
        for what, seconds, more in rows(count):
            print(f"{count:8} {what:31} {seconds:7.2f}  {more}", flush=True)
    transformer()


if __name__ == "__main__":
    main(tuple(int(text) for text in sys.argv[1:]) or SIZES)
