"""A forward that asks torch or its tensors for their state: no graph answers a call in another state."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import hnfc
from hnfc.core.errors import ModelError


class Reading(torch.nn.Module):
    """Twice or three times what a rule rewrites."""

    def __init__(self, reads: Callable[[Any, torch.Tensor], bool]) -> None:
        super().__init__()
        self.reads, self.w = reads, torch.nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log(1 + torch.exp(self.w * x)) * (2 if self.reads(self, x) else 3)


READS: dict[str, Callable[[Any, torch.Tensor], bool]] = {
    "grad mode": lambda module, x: torch.is_grad_enabled(),
    "input": lambda module, x: x.requires_grad,
    "intermediate": lambda module, x: (x + 1).requires_grad,
    "leaf": lambda module, x: x.is_leaf,
    "parameter": lambda module, x: module.w.requires_grad,
    "inference mode": lambda module, x: torch.is_inference_mode_enabled(),
    "inference": lambda module, x: (x + 1).is_inference(),
    "autocast": lambda module, x: torch.is_autocast_enabled("cpu"),
    "default dtype": lambda module, x: torch.get_default_dtype() == torch.float32,
    "deterministic": lambda module, x: torch.are_deterministic_algorithms_enabled(),
    "contiguous": lambda module, x: x.is_contiguous(),
    "strides": lambda module, x: x.stride()[0] > x.stride()[1],
    "offset": lambda module, x: x.storage_offset() == 0,
}


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Any:
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextlib.contextmanager
def deterministic() -> Any:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextlib.contextmanager
def frozen(module: Any) -> Any:
    module.w.requires_grad_(False)
    try:
        yield
    finally:
        module.w.requires_grad_(True)


def calls(module: Any, x: torch.Tensor) -> list[torch.Tensor]:
    """Results in all states, twice."""
    states: list[tuple[Any, torch.Tensor]] = [
        (contextlib.nullcontext(), x), (torch.no_grad(), x), (contextlib.nullcontext(), x.clone().requires_grad_()),
        (torch.no_grad(), x.clone().requires_grad_()), (contextlib.nullcontext(), x.t()), (contextlib.nullcontext(), torch.cat((x, x))[4:]),
        (torch.inference_mode(), x), (torch.autocast("cpu", torch.bfloat16), x), (default_dtype(torch.float64), x), (deterministic(), x),
        (frozen(module), x),
    ]  # fmt: skip
    found = []
    for state, given in states:
        with state:
            found += [module(given).detach().clone() for _ in range(2)]
    return found


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", READS)
def test_what_is_read_is_guarded(name: str) -> None:
    model, x = Reading(READS[name]), torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
    better = hnfc.optimize(model, x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the original runs on inputs that are not contiguous
        torch.testing.assert_close(calls(better, x), calls(model, x))


def test_a_diagonal_that_is_written_by_strides() -> None:
    def formula(x: torch.Tensor) -> torch.Tensor:
        return (x.t() * 2).fill_diagonal_(1.0)

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return formula(x)

    for x in (torch.randn(3, 4), torch.randn(4, 3).t()):
        better = hnfc.optimize(Model(), x)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            for given in (x, torch.randn(3, 4), torch.randn(4, 3).t()):
                torch.testing.assert_close(better(given), formula(given))


def test_reads_of_torch_itself_make_no_graph() -> None:
    model = torch.nn.TransformerEncoderLayer(8, 2, batch_first=True).eval()
    x = torch.randn(2, 3, 8)
    better = hnfc.optimize(model, x)
    with torch.no_grad():
        better(x)
    assert len(better._hnfc.known) == 1  # type: ignore[union-attr]


def test_control_flow_is_named_where_it_stands() -> None:
    class Branching(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    with pytest.raises(ModelError, match=r"control flow that hnfc does not carry: torch[.]cond"):
        hnfc.optimize(Branching(), torch.randn(3))
