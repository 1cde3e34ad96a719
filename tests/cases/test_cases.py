"""The public bug reports: how many come out within their tolerance, and that none comes out worse."""

from __future__ import annotations

import pytest

from tests.cases.suite import Result, cases, measure, table

EXPECTED = {"stability rewrite": 31, "both": 4, "precision assignment": 1, "not fixable by a rewrite": 0}
"""At least so many of each kind, with `-O stability`; the table that the last test prints has the numbers of this run."""

_results: dict[str, Result] = {}


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_a_case_does_not_come_out_worse(case):
    result = measure(case)
    _results[case.name] = result
    assert not result.worse, f"{result.before} → {result.after} by {result.rules}"


def test_so_many_cases_come_out_within_tolerance(record_property):
    if len(_results) < len(cases()):
        pytest.skip("needs the results of all cases in this process")
    rows = [_results[case.name] for case in cases()]
    record_property("shown", table(rows))
    for kind, least in EXPECTED.items():
        assert sum(r.fixed for r in rows if r.case.kind == kind) >= least, kind
