"""What a run says of an assignment is heeded: a target is made as strict as it must be, and not much stricter."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from hnfc.precision.assignment import Assignment, Infeasible, Requirements, assign
from hnfc.precision.targets import Errors
from hnfc.precision.verification import assign_what_holds
from tests.precision.made_sites import made_sites


def off_by(factor: float, runs: list[Assignment]) -> Callable[[Assignment], Errors]:
    """Runs whose errors are so many times the estimated ones."""

    def measure(outcome: Assignment) -> Errors:
        runs.append(outcome)
        return {output: factor * error for output, error in outcome.errors.items()}

    return measure


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(12))
def test_it_is_as_strict_as_it_must_be(seed: int) -> None:
    sites = made_sites(random.Random(seed), 60, 1, spread=3.0)
    requirements, runs = Requirements(1e-3, relative=False), list[Assignment]()
    plain = assign(sites, requirements)
    found = assign_what_holds(sites, requirements, off_by(3.0, runs))
    assert isinstance(plain, Assignment) and isinstance(found, Assignment)
    assert 3.0 * plain.error > 1e-3 and found.size > plain.size
    assert found.measured == pytest.approx(3.0 * found.error)
    assert 0.8e-3 < 3.0 * found.error <= 1e-3
    # what is proved is of the target that was asked for
    assert found.bound == plain.bound < found.size
    # it is the cheapest of those that held, in few runs
    held = [outcome.size for outcome in runs if 3.0 * outcome.error <= 1e-3]
    assert found.size == min(held) and len(runs) <= 4


def test_what_holds_at_once_is_run_once() -> None:
    sites, runs = made_sites(random.Random(0), 60, 1, spread=3.0), list[Assignment]()
    found = assign_what_holds(sites, Requirements(1e-3, relative=False), off_by(0.5, runs))
    assert isinstance(found, Assignment) and len(runs) == 1


def test_what_never_holds_is_refused_with_what_was_measured() -> None:
    sites, runs = made_sites(random.Random(0), 60, 1, spread=3.0), list[Assignment]()
    found = assign_what_holds(sites, Requirements(1e-3, relative=False), lambda outcome: {None: 7.0 + off_by(1.0, runs)(outcome)[None]})
    assert isinstance(found, Infeasible) and "off by 7" in found.reasons[0]
    assert not math.isnan(float(found.relaxations[0].change.split()[-1]))
