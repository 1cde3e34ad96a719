"""Cases in children: each has an outcome, whatever ends a child."""

from __future__ import annotations

import os
import time

import pytest

from tests.suites import forked


def right():
    return forked.RIGHT, str(os.getpid())


CASES = [("a", right), ("b", os.abort), ("c", right), ("d", lambda: time.sleep(60)), ("e", right), ("f", lambda: 1 / 0), ("g", right)]


@pytest.mark.parametrize("batch", [1, 3, 20])
@pytest.mark.parametrize("jobs", [1, 2])
def test_each_case_has_an_outcome(batch, jobs):
    found = {outcome.name: outcome.kind for outcome in forked.run(CASES, jobs=jobs, seconds=1.0, batch=batch)}
    assert found == {
        "a": forked.RIGHT, "b": forked.DIED, "c": forked.RIGHT, "d": forked.HUNG, "e": forked.RIGHT, "f": forked.RAISED, "g": forked.RIGHT,
    }  # fmt: skip


def test_a_batch_is_one_process():
    found = {outcome.detail for outcome in forked.run([(str(number), right) for number in range(20)], jobs=1, batch=20)}
    assert len(found) == 1
