"""The public bug reports: how many come out within their tolerance, and that none comes out worse."""

from __future__ import annotations

import pytest

from tests.cases.suite import cases, measure, table

EXPECTED = {"stability rewrite": 31, "both": 4, "precision assignment": 1, "not fixable by a rewrite": 0}
"""At least so many of each kind, with `-O stability`; the table that the last test prints has the numbers of this run."""


@pytest.mark.sampled(6)
@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_a_case_does_not_come_out_worse(case):
    result = measure(case)
    assert not result.worse, f"{result.before} → {result.after} by {result.rules}"


@pytest.mark.slow
def test_so_many_cases_come_out_within_tolerance(record_property):
    rows = [measure(case) for case in cases()]
    record_property("shown", table(rows))
    for kind, least in EXPECTED.items():
        assert sum(r.fixed for r in rows if r.case.kind == kind) >= least, kind
