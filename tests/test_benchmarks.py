"""Benchmarks are programs that nothing else runs: they load, and the one of precision prints what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(FOLDER.parent), str(FOLDER)]), "OMP_NUM_THREADS": "1"}


def test_they_load() -> None:
    """Packages that only benchmarks use are imported where they are needed."""
    names = [file.stem for file in sorted(FOLDER.glob("*.py"))]
    code = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    run = subprocess.run([sys.executable, "-c", code, *names], env=ENVIRONMENT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def rows(*arguments: str) -> dict[str, tuple[float, float, float]]:
    """By what a line is about the error, megabytes, and these relative to autocast's."""
    command = [sys.executable, str(FOLDER / "precision.py"), "--quick", *arguments]
    run = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    found = {}
    for line in run.stdout.splitlines():
        if line.startswith("phases "):
            numbers = line[43:].split()[:3]
            if len(numbers) == 3 and numbers[2][0].isdigit():
                found[line[11:43].strip()] = tuple(map(float, numbers))
    return found  # type: ignore[return-value]


@pytest.fixture(scope="module")
def phases() -> dict[str, tuple[float, float, float]]:
    return rows("autocast", "phases")


@pytest.mark.slow
def test_precision_beside_autocast(phases: dict[str, tuple[float, float, float]]) -> None:
    whole = phases["autocast"]
    (finer,) = (row for how, row in phases.items() if how.startswith("hnfc, target 0.03"))
    (eighths,) = (row for how, row in phases.items() if how.startswith("hnfc with 8 bits"))
    assert whole[2] == 1.0 and phases["float32"][2] > 1.9
    # a tenth of its error with its bytes, or its error with fewer
    assert finer[0] < whole[0] / 5 and finer[2] < 1.02
    assert eighths[0] < 2 * whole[0] and eighths[2] < 0.8
