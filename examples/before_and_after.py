"""Results and gradients of a model before and after hnfc.optimize, beside its textbook form in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import hnfc


@dataclass(frozen=True)
class Example:
    """A failure. model: as it was written. sample: an input on which it fails. exact: a stable form of the same."""

    title: str
    model: torch.nn.Module
    sample: tuple[torch.Tensor, ...]
    exact: Callable[..., torch.Tensor]


@dataclass(frozen=True)
class Errors:
    """Elements that are not finite where they should be, and the largest error of the others beside the largest element."""

    lost: int
    count: int
    error: float

    def __str__(self) -> str:
        return f"{self.lost} of {self.count} not finite" if self.lost else f"error {self.error:.0e}"


def errors(found: torch.Tensor, exact: torch.Tensor) -> Errors:
    lost = exact.isfinite() & ~found.isfinite()
    off = torch.where(lost | ~exact.isfinite(), 0.0, found.double() - exact)
    size = torch.where(exact.isfinite(), exact, 0.0).abs().max()
    return Errors(int(lost.sum()), exact.numel(), float(off.abs().max() / size) if size else float(off.abs().max()))


def values_and_gradients(
    run: Callable[..., torch.Tensor], sample: tuple[torch.Tensor, ...], dtype: torch.dtype | None = None
) -> list[torch.Tensor]:
    """The result, and the gradient of its sum by each floating-point input."""
    inputs = [x.to(dtype or x.dtype).clone().requires_grad_() if x.is_floating_point() else x for x in sample]
    out = run(*inputs)
    out.sum().backward()
    return [out.detach(), *(x.grad for x in inputs if x.grad is not None)]


def compare(example: Example) -> tuple[list[Errors], list[Errors], Any]:
    """Errors of the result and of each gradient before, those after, and what hnfc says that it did."""
    better = hnfc.optimize(example.model, example.sample)
    exact = values_and_gradients(example.exact, example.sample, torch.float64)
    before, after = (
        [errors(found, true) for found, true in zip(values_and_gradients(model, example.sample), exact, strict=True)]
        for model in (example.model, better)
    )
    return before, after, hnfc.diff(example.model, better)


def show(example: Example) -> None:
    """Prints both, and what was rewritten."""
    before, after, difference = compare(example)
    print(example.title)
    for name, old, new in zip(("result", "first gradient", "second gradient", "third gradient"), before, after, strict=False):
        print(f"  {name:16} {old!s:26} → {new}")
    print(difference)
