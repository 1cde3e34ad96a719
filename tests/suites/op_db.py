"""PyTorch's own samples of its operations (op_db): each as a module, optimized, beside the operation itself; gradients too.

`python -m tests.suites.op_db [--types float32 …] [--samples 2] [--jobs 2] [NAME …]` prints what is not right, and the counts.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

import hnfc
from hnfc.core.errors import ModelError
from tests.suites import forked
from tests.suites.comparing import copied, difference, is_nearer
from tests.suites.preparing import prepared

TYPES = ("float32", "float64", "float16", "bfloat16", "int64", "bool", "complex64")
_SEED = 11
_UNDEFINED = ("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "empty_permuted")
"""Operations whose elements have no value."""


class Call(torch.nn.Module):
    """A call of an operation: the tensors among its arguments are inputs, all else is constant."""

    def __init__(self, operation: Callable[..., Any], arguments: Any) -> None:
        super().__init__()
        leaves, self.tree = pytree.tree_flatten(arguments)
        self.operation = operation
        self.tensors = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.constants = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.sample = tuple(leaves[place] for place in self.tensors)

    def forward(self, *tensors: torch.Tensor) -> Any:
        leaves = list(self.constants)
        for place, tensor in zip(self.tensors, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.tree)
        return self.operation(*args, **kwargs)


def cases(names: Sequence[str] = (), types: Sequence[str] = TYPES, samples: int = 2) -> Iterator[tuple[str, Any]]:
    """A case for each operation and type that it takes, with its name."""
    for info in op_db:
        full = info.name + (f".{info.variant_test_name}" if info.variant_test_name else "")
        if info.name in _UNDEFINED or (names and full not in names and info.name not in names):
            continue
        for name in types:
            if info.supports_dtype(getattr(torch, name), "cpu"):
                yield f"{full} {name}", partial(judged, info, name, samples)


def judged(info: Any, name: str, samples: int) -> tuple[str, str]:
    """Outcome of the first, and the last of the first thirty, samples of an operation in a type."""
    dtype = getattr(torch, name)
    torch.manual_seed(_SEED)
    drawn = list(itertools.islice(info.sample_inputs("cpu", dtype, requires_grad=False), 30))
    chosen = drawn[:1] + drawn[1:][-(samples - 1) :] if samples > 1 else drawn[:1]
    differentiable = info.supports_autograd and (dtype.is_floating_point or dtype.is_complex) and info.supports_dtype(dtype, "cpu")
    for sample in chosen:
        call = Call(info.op, ((sample.input, *sample.args), sample.kwargs))
        kind, detail = _judged(call, differentiable)
        if kind != forked.RIGHT:
            return kind, detail
    return forked.RIGHT, ""


def _judged(call: Call, differentiable: bool) -> tuple[str, str]:
    if not call.sample:
        return forked.RIGHT, "no tensor is given"
    ours, theirs, sample = (copied(call.sample) for _ in range(3))
    try:
        with _seedings() as seedings:
            wanted = _results(call, theirs)
    except Exception as error:
        return forked.RIGHT, f"the operation itself raises: {error}"
    try:
        found = _results(hnfc.optimize(call, sample), ours)
    except ModelError as error:
        return forked.REFUSED, " ".join(str(error).split())
    if seedings:  # numbers are drawn, and torch.export drops where the sample seeds them
        found, wanted, ours, theirs = pytree.tree_map_only(torch.Tensor, torch.zeros_like, (found, wanted, ours, theirs))
        differentiable = False
    fault = difference(found, wanted) or difference(ours, theirs)
    if fault and not is_nearer(found, wanted, partial(_results, call), call.sample):
        return forked.WRONG, fault
    fault = difference(sample, call.sample)
    if fault:
        return forked.WRONG, f"the sample changed: {fault}"
    return _judged_gradients(call) if differentiable else (forked.RIGHT, "")


@contextlib.contextmanager
def _seedings() -> Iterator[list[Any]]:
    """Seeds that are set inside, which a sample of an operation that draws numbers does."""
    seeds: list[Any] = []
    original = torch.manual_seed
    torch.manual_seed = lambda seed: (seeds.append(seed), original(seed))[1]
    try:
        yield seeds
    finally:
        torch.manual_seed = original
        del seeds[:1]  # our own, before the call


def _judged_gradients(call: Call) -> tuple[str, str]:
    ours, theirs, sample = (copied(call.sample) for _ in range(3))
    for tensor in (*ours, *theirs, *sample):
        if tensor.is_floating_point() or tensor.is_complex():
            tensor.requires_grad_()
    try:
        expected = _gradients(call, theirs)
    except Exception as error:
        return forked.RIGHT, f"torch has no gradient: {error}"
    try:
        found = _gradients(hnfc.optimize(call, sample), ours)
    except ModelError as error:
        return forked.REFUSED, "with gradients: " + " ".join(str(error).split())
    fault = difference(found, expected)
    if fault and not is_nearer(found, expected, partial(_gradients, call), theirs):
        return forked.WRONG, f"gradient: {fault}"
    return forked.RIGHT, ""


def _results(call: Any, tensors: Sequence[torch.Tensor]) -> Any:
    torch.manual_seed(_SEED)
    return call(*tensors)


def _gradients(call: Any, inputs: Sequence[torch.Tensor]) -> list[Any]:
    outputs = [one for one in pytree.tree_leaves(_results(call, inputs)) if isinstance(one, torch.Tensor) and one.requires_grad]
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    torch.manual_seed(_SEED + 1)
    weights = [torch.randn(one.shape, dtype=torch.complex128 if one.is_complex() else torch.float64).to(one.dtype) for one in outputs]
    return list(torch.autograd.grad(outputs, wanted, weights, allow_unused=True)) if outputs else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--types", nargs="+", default=TYPES)
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    with prepared():
        forked.show(forked.run(cases(options.names, options.types, options.samples), jobs=options.jobs))


if __name__ == "__main__":
    main()
