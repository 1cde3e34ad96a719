"""The benchmark of many groups and several targets runs, and its problems are those that it says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import precision_targets

    yield precision_targets
    sys.modules.pop("precision_targets")


def test_it_prints_a_line_for_each_problem(benchmark, capsys: pytest.CaptureFixture[str]) -> None:
    benchmark.main((30,))
    _, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["30", "1"], ["30", "2"], ["30", "5"]]
    assert all(0 <= float(line.split()[3]) < 0.1 and all(float(used) <= 1 for used in line.split()[4:]) for line in lines)


def test_the_targets_bind(benchmark) -> None:
    problem = benchmark.problem_of(200, 3)
    alone = [problem.solve()]
    assert alone[0] is not None
    errors = problem.assignment(alone[0]).errors
    assert all(errors[a.output] > 0.9 * a.limit for a in problem.allowances)
