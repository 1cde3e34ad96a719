"""torch-mlir's end-to-end suite, by `make suites`: none wrong, none that raises or dies; each hundredth module by `make slow`."""

from __future__ import annotations

import pytest
import torch

from tests.suites import forked, torch_mlir_modules
from tests.suites.checkouts import TORCH_MLIR, checkout
from tests.suites.preparing import prepared

REASONS = (
    "data-dependent", "quantized",
    "alias annotations", "__obj_flatten__", "higher order operator", "int_repr", "failed to match any schema",
    "Unsupported builtin function", "new_empty",
)  # fmt: skip
"""Parts of the messages of modules that torch.export cannot capture, or torch-mlir cannot import."""


def outcomes(every):
    with prepared():
        cases = list(torch_mlir_modules.cases(checkout(TORCH_MLIR)))
        assert len(cases) > 1400
        return list(forked.run(cases[::every], seconds=180))


@pytest.mark.slow
def test_a_hundredth():
    assert forked.faults(outcomes(100)) == []


@pytest.mark.suites
def test_all():
    found = outcomes(1)
    print(forked.counts(found))
    assert forked.faults(found) == []
    refused = [outcome for outcome in found if outcome.kind == forked.REFUSED]
    assert [str(outcome) for outcome in refused if not any(reason in outcome.detail for reason in REASONS)] == []


class Scaled(torch.nn.Module):
    def forward(self, x):
        return (x.exp(), x + 1)

    def half(self, x):
        return x / 2


def test_calls_of_a_test_are_recorded_with_what_they_got():
    recorder = torch_mlir_modules.Recorder(Scaled())
    x = torch.ones(2)
    first, _ = recorder.forward(x)
    recorder.half(first)
    x.zero_()
    assert [name for name, _ in recorder.calls] == ["forward", "half"]
    assert recorder.calls[0][1][0].tolist() == [1, 1] and recorder.calls[1][1][0].tolist() == first.tolist()
