"""Faulty files of every kind: no traceback, no death, no hang. `make fuzz` runs many more."""

from __future__ import annotations

import pytest
import torch

from tests.suites import forked, fuzz

FOUND = {"onnx": [(1708, [80])], "bytecode": [(2, [17, 248]), (5, [2024, 2178])], "programs": [(2, [192]), (1708, [202])]}
"""Inputs that once ended in a traceback or killed the process, by seed and number."""


@pytest.fixture(scope="module")
def kinds():
    threads = torch.get_num_threads()
    yield fuzz.kinds()
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", ["mlir", "bytecode", "onnx", "rules", "judged", "programs", "arrays"])
def test_faulty_files_are_refused_in_words(kinds, name):
    for seed, numbers in [(0, range(12)), *FOUND.get(name, [])]:
        found = list(fuzz.run(kinds[name], name, seed, numbers))
        assert len(found) == len(numbers)
        assert [one for one in found if one[1] in forked.FAULTS] == []


def test_a_death_and_a_hang_are_found(monkeypatch, kinds):
    ends = {1: lambda: fuzz.os.abort(), 2: lambda: fuzz.time.sleep(60), 4: lambda: 1 / 0}
    monkeypatch.setattr(fuzz, "SECONDS", 1.0)
    monkeypatch.setattr(fuzz, "inputs", lambda kind, name, seed, numbers: ((number, number) for number in numbers))
    monkeypatch.setattr(fuzz, "judged", lambda kind, number, folder: (ends.get(number, bool)(), (forked.RIGHT, ""))[1])
    found = {number: outcome for number, outcome, _ in fuzz.run(kinds["mlir"], "mlir", 0, range(6))}
    assert found == {0: forked.RIGHT, 1: forked.DIED, 2: forked.HUNG, 3: forked.RIGHT, 4: forked.RAISED, 5: forked.RIGHT}


def test_a_process_makes_the_examples_once():
    """They took longer than a hundred inputs."""
    assert fuzz.kinds() is fuzz.kinds()
