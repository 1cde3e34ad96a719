"""Forecasts on whole runs: of eight kinds that go wrong after a while seven are named before, and of eight healthy ones none."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import torch

import hnfc
from tests.watching.runs import DIVERGING, HEALTHY

UNFORESEEN = "a poisoned batch"
FAST = ("a rate too high", "eps in float16", "a poisoned batch")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Threads for tensors this small wait for each other where other tests run beside them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def spoken(name: str, seed: int) -> tuple[hnfc.watching.Watch, list[str]]:
    """Forecasts of a run, each with the step at which it was made."""
    said: list[str] = []
    model, loop = ({**DIVERGING, **HEALTHY})[name](seed)
    with hnfc.watch(model, folder=None, report=said.append, budget=1.0) as watching:
        for _ in loop:
            pass
    return watching, [words for words in said if words.startswith("hnfc watch, step")]


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in DIVERGING])
def test_runs_that_go_wrong_are_named_before(name: str, seed: int) -> None:
    watching, foretold = spoken(name, seed)
    assert watching.bad
    if name == UNFORESEEN:
        assert foretold == []
        return
    found = re.search(r"step (\d+)", foretold[0])
    assert found is not None
    if name == "eps in float16":
        assert "eps = 1e-08 of Adam is 0 in float16" in foretold[0] and int(found[1]) == watching.bad[0].step == 0
    else:
        assert int(found[1]) <= watching.bad[0].step - 10, foretold[0]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_runs_raise_no_alarm(name: str, seed: int) -> None:
    watching, foretold = spoken(name, seed)
    assert not watching.bad and foretold == [] and watching.forecasts == []
