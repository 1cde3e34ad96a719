"""softmax and its kin along axes as functions of torch, with gradients that keep the digits of small weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch

from hnfc.backend.autograd import Tensor, apply, leaf

Axes: TypeAlias = "int | Sequence[int]"


def _along(x: Tensor, axes: Axes, function: Callable[[Tensor, int], Tensor]) -> Tensor:
    """A function along one axis, along several as one; those that it reduces are kept."""
    if isinstance(axes, int):
        return function(x, axes)
    last = range(-len(axes), 0)
    moved = x.movedim(tuple(axes), tuple(last))
    found = function(moved.flatten(-len(axes)), -1)
    sizes = moved.shape[-len(axes) :] if found.shape[-1] == math.prod(moved.shape[-len(axes) :]) else [1] * len(axes)
    return found.reshape(*found.shape[:-1], *sizes).movedim(tuple(last), tuple(axes))


class _Softmax(torch.autograd.Function):
    """softmax along an axis, as `softmax` below has it; only the result is kept for the gradient, as torch does."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, axis: int) -> Tensor:
        if x.size(axis) == 0:  # there is no largest element
            return torch.softmax(x, axis)
        infinite = x.amax(axis, keepdim=True) == math.inf
        return torch.softmax(x, axis).masked_fill(infinite & (x < math.inf), 0.0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.axis = inputs[1]
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Any:
        (y,) = ctx.saved_tensors
        return y * (cotangent - (y * cotangent).sum(ctx.axis, keepdim=True)), None


class _SoftmaxForward(_Softmax):
    """The same with a derivative in forward mode, which Dynamo does not trace."""

    generate_vmap_rule = True

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: Any) -> Tensor:
        (y,) = ctx.saved_tensors
        found: Tensor = y * (tangent - (y * tangent).sum(ctx.axis, keepdim=True))
        return found


@leaf
def softmax(x: Tensor, axes: Axes) -> Tensor:
    """e^x/Σe^x; in a row that holds +inf, 0 for the finite elements, as the quotient has it, and NaN for the others."""
    return _along(x, axes, lambda row, axis: apply(_Softmax, _SoftmaxForward, row, axis))


class _OfOperand(torch.autograd.Function):
    """A function along an axis that keeps its operand for the gradient."""

    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.axis = inputs[1]
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])


class _LogSoftmax(_OfOperand):
    """log softmax; its gradient by softmax of the operand, which keeps the digits that e^result loses."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, axis: int) -> Tensor:
        return torch.log_softmax(x, axis)

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Any:
        weights = torch.softmax(ctx.saved_tensors[0], ctx.axis)
        return cotangent - weights * cotangent.sum(ctx.axis, keepdim=True), None


class _LogSoftmaxForward(_LogSoftmax):
    """The same with a derivative in forward mode, which Dynamo does not trace."""

    generate_vmap_rule = True

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: Any) -> Tensor:
        weights = torch.softmax(ctx.saved_tensors[0], ctx.axis)
        return tangent - (weights * tangent).sum(ctx.axis, keepdim=True)


@leaf
def log_softmax(x: Tensor, axes: Axes) -> Tensor:
    """x - log Σe^x."""
    return _along(x, axes, lambda row, axis: apply(_LogSoftmax, _LogSoftmaxForward, row, axis))


class _LogSumExp(_OfOperand):
    """log Σe^x with the axis kept; its gradient is softmax of the operand."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, axis: int) -> Tensor:
        return torch.logsumexp(x, axis, keepdim=True)

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Any:
        return cotangent * torch.softmax(ctx.saved_tensors[0], ctx.axis), None


class _LogSumExpForward(_LogSumExp):
    """The same with a derivative in forward mode, which Dynamo does not trace."""

    generate_vmap_rule = True

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: Any) -> Tensor:
        return (torch.softmax(ctx.saved_tensors[0], ctx.axis) * tangent).sum(ctx.axis, keepdim=True)


@leaf
def logsumexp(x: Tensor, axes: Axes) -> Tensor:
    """log Σe^x, with the axes kept."""
    return _along(x, axes, lambda row, axis: apply(_LogSumExp, _LogSumExpForward, row, axis))
