"""ONNX's own node tests, by `make suites`: none wrong, none that raises or ends the process.

They take half a minute to collect; tests/frontend/test_onnx_operators.py has those of their kinds that failed once.
"""

from __future__ import annotations

import os
import time
from functools import partial

import pytest
import torch

from tests.suites import forked
from tests.suites.onnx_nodes import EMITTED, READ, REWRITTEN, judged, node_cases


def outcomes(form):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        cases = [(name, partial(judged, case, form)) for name, case in node_cases()]
        return list(forked.run(cases))
    finally:
        torch.set_num_threads(threads)


@pytest.mark.suites
@pytest.mark.parametrize("form", [READ, REWRITTEN, EMITTED])
def test_all(form):
    found = outcomes(form)
    print(form, forked.counts(found))
    assert [str(outcome) for outcome in found if outcome.kind in forked.FAULTS] == []


def test_a_process_that_dies_or_hangs_is_an_outcome():

    cases = [("dies", os.abort), ("hangs", partial(time.sleep, 60)), ("raises", partial(int, "x")), ("right", lambda: (forked.RIGHT, ""))]
    found = {outcome.name: outcome.kind for outcome in forked.run(cases, seconds=2)}
    assert found == {"dies": forked.DIED, "hangs": forked.HUNG, "raises": forked.RAISED, "right": forked.RIGHT}
