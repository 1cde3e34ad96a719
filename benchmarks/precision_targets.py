"""How long the choice of formats takes where several targets bind, and how far from the least bytes the result may be.

    python benchmarks/precision_targets.py [GROUPS …]

The problems are made up: a chain of values with elements and sensitivities that are drawn at random, each output with a target of a
twentieth of its error in bfloat16. With two and more targets all of them bind. The gap is what bytes are above the bound that is proved.
"""

from __future__ import annotations

import math
import random
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from hnfc.precision.problem import AssignmentProblem  # noqa: E402
from hnfc.precision.requirements import Requirements  # noqa: E402
from tests.precision.made_sites import made_sites  # noqa: E402

GROUPS = (500, 2000, 5000, 20_000)
TARGETS = (1, 2, 5)
PART = 0.05
SPREAD = 6.0


def problem_of(groups: int, targets: int, seed: int = 0) -> AssignmentProblem:
    """Sensitivities between 2^-6 and 2^6."""
    sites = made_sites(random.Random(seed), groups, targets, SPREAD)
    narrow = {o: math.sqrt(sum(site.apart[o].moved["bf16"] ** 2 for site in sites.sites)) for o in range(targets)}
    return AssignmentProblem(sites, Requirements({o: PART * error for o, error in narrow.items()}, False, scaling=False))


def main(groups: tuple[int, ...]) -> None:
    print(f"{'groups':>7} {'targets':>7} {'seconds':>8} {'gap':>9} {'used of the targets'}")
    for count in groups:
        for targets in TARGETS:
            problem = problem_of(count, targets)
            start = time.perf_counter()
            found = problem.solve()
            seconds = time.perf_counter() - start
            if found is None:
                print(f"{count:7} {targets:7} {seconds:8.2f}      none")
                continue
            errors = problem.assignment(found).errors
            used = " ".join(f"{errors[a.output] / a.limit:.4f}" for a in problem.allowances)
            print(f"{count:7} {targets:7} {seconds:8.2f} {found.size / found.bound - 1:9.1e} {used}", flush=True)


if __name__ == "__main__":
    main(tuple(int(text) for text in sys.argv[1:]) or GROUPS)
