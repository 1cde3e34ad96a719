"""Gradients of sums and means of squared deviations that keep the digits of small deviations.

Deviations from a mean sum to zero, so that no gradient passes through the mean. The chain rule computes that zero as a difference, which
leaves the rounding of the largest deviation in each element. Values do not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import fx

from hnfc.backend.autograd import Tensor, apply, leaf

aten = torch.ops.aten
Axes: TypeAlias = "Sequence[int] | None"
_SUMS = {aten.sum.default: "sum", aten.sum.dim_IntList: "sum", aten.mean.default: "mean", aten.mean.dim: "mean"}
_CASTS = (aten.to.dtype, aten._to_copy.default)


class _Spread(torch.autograd.Function):
    """A sum of squared deviations of x from its mean along axes, times a factor: computed before, and differentiated by x."""

    generate_vmap_rule = True

    @staticmethod
    def forward(total: Tensor, x: Tensor, axes: tuple[int, ...], factor: float) -> Tensor:
        return total.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, x, ctx.axes, ctx.factor = inputs
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        wide = x.to(torch.promote_types(x.dtype, cotangent.dtype))
        kept = [1 if axis in ctx.axes else size for axis, size in enumerate(x.shape)]
        slope = 2 * (wide - wide.mean(ctx.axes, keepdim=True))
        return None, (cotangent.reshape(kept) * ctx.factor * slope).to(x.dtype), None, None


class _SpreadForward(_Spread):
    """The same with a derivative in forward mode, which Dynamo does not trace."""

    generate_vmap_rule = True

    @staticmethod
    def jvp(ctx: Any, total: Any, tangent: Any, *_: Any) -> Tensor:
        return total  # type: ignore[no-any-return]


@leaf
def spread(total: Tensor, x: Tensor, axes: Axes, of_mean: Axes, is_mean: bool) -> Tensor:
    """total, the sum (or mean) of squared deviations of x along axes from its mean along others; None for all axes."""
    along, others = (_all(x, each) for each in (axes, of_mean))
    if along != others or not x.is_floating_point() or not x.numel():
        return total
    count = 1
    for axis in along:
        count *= x.shape[axis]
    return apply(_Spread, _SpreadForward, total, x, along, 1 / count if is_mean else 1.0)


def _all(x: Tensor, axes: Axes) -> tuple[int, ...]:
    return tuple(range(x.dim())) if axes is None else tuple(sorted(axis % x.dim() for axis in axes))


def keep_small_deviations(graph: fx.Graph) -> None:
    """Gives sums of squared deviations from a mean the derivative without the mean's own."""
    for node in list(graph.nodes):
        deviations = _deviations(node)
        if deviations is None:
            continue
        x, of_mean = deviations
        with graph.inserting_after(node):
            made = graph.call_function(spread, (node, x, _axes(node), of_mean, _SUMS[node.target] == "mean"))
        node.replace_all_uses_with(made, delete_user_cb=lambda user, made=made: user is not made)


def _deviations(node: fx.Node) -> tuple[fx.Node, Axes] | None:
    """x and the axes of its mean, where a node adds up squares of x - mean(x)."""
    if node.target not in _SUMS:
        return None
    deviation = _without_casts(_squared(node.args[0]))
    if deviation is None or deviation.target is not aten.sub.Tensor or len(deviation.args) != 2 or deviation.kwargs:
        return None
    x, mean = deviation.args
    average = _without_casts(mean)
    if not isinstance(x, fx.Node) or average is None or average.args[:1] != (x,):
        return None
    keeps = average.target is aten.mean.default or (average.target is aten.mean.dim and average.args[2:3] == (True,))
    return (x, _axes(average)) if keeps else None


def _squared(value: Any) -> Any:
    if not isinstance(value, fx.Node):
        return None
    if value.target is aten.square.default or (value.target is aten.pow.Tensor_Scalar and value.args[1] == 2):
        return value.args[0]
    if value.target is aten.mul.Tensor and value.args[0] is value.args[1]:
        return value.args[0]
    return None


def _without_casts(value: Any) -> fx.Node | None:
    while isinstance(value, fx.Node) and value.target in _CASTS:
        value = value.args[0]
    return value if isinstance(value, fx.Node) and value.op == "call_function" else None


def _axes(node: fx.Node) -> Any:
    return list(node.args[1]) if len(node.args) > 1 and node.args[1] is not None else None  # type: ignore[arg-type]
