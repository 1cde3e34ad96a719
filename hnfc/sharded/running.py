"""Segments run on the CPU: as they are, and in a wider type, in which no more than one weight is widened at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from hnfc.sharded.rows import PackedRows, row_pieces
from hnfc.sharded.segments import Chain, Segment

Values = dict[str, torch.Tensor]


LINEAR = torch.ops.aten.linear.default


class SegmentRun(fx.Interpreter):
    """A graph on tensors; what no later operation reads is dropped."""

    def __init__(self, graph: fx.Graph) -> None:
        super().__init__(torch.nn.Module(), garbage_collect_values=True, graph=graph)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Result of one operation; that of a linear layer by rows of its weight, where they lie in a format."""
        if target is LINEAR and isinstance(args[1], PackedRows):
            x, weight, *bias = args
            made = torch.cat([LINEAR(x, piece.dense()) for piece in weight.pieces], -1)
            return made + bias[0] if bias and bias[0] is not None else made
        return super().call_function(target, args, kwargs)


class WideRun(SegmentRun):
    """A graph in a wider type: each operation takes its floating-point operands in it, and makes numbers of it."""

    def __init__(self, graph: fx.Graph, wide: torch.dtype) -> None:
        super().__init__(graph)
        self.wide = wide

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Result of one operation on widened operands; that of a linear layer by rows of its weight."""
        if target is LINEAR:
            x, weight, *bias = args
            x = x.to(self.wide)
            made = torch.cat([LINEAR(x, weight[rows].to(self.wide)) for rows in row_pieces(weight.shape)], -1)
            return made + bias[0].to(self.wide) if bias and bias[0] is not None else made
        return super().call_function(target, *widened((args, kwargs), self.wide))


def widened(tree: Any, wide: torch.dtype) -> Any:
    """Floating-point tensors, and types that are named, in a wider type."""
    return pytree.tree_map(lambda leaf: _wide(leaf, wide), tree)


def _wide(leaf: Any, wide: torch.dtype) -> Any:
    if isinstance(leaf, torch.Tensor):
        return leaf.to(wide) if leaf.is_floating_point() else leaf
    return wide if isinstance(leaf, torch.dtype) and leaf.is_floating_point else leaf


def wider_than(dtypes: Sequence[torch.dtype]) -> torch.dtype:
    """The type of a reference: float32 where all numbers are narrower, else float64."""
    narrow = all(dtype.itemsize < 4 for dtype in dtypes if dtype.is_floating_point)
    return torch.float32 if narrow else torch.float64


def run_segment(run: fx.Interpreter, segment: Segment, values: Mapping[str, torch.Tensor], state: Mapping[str, Any]) -> Values:
    """Values after a segment: its results, and those before that are read later."""
    given = [*(values[name] for name in segment.values), *(state[name] for name in segment.state)]
    with torch.no_grad():
        made = run.run(*given, enable_io_processing=False)
    found = {**values, **dict(zip(segment.results, made, strict=True))}
    return {name: found[name] for name in segment.kept if name in found}


def relative_error(found: Mapping[str, torch.Tensor], true: Mapping[str, torch.Tensor], names: Sequence[str]) -> float:
    """The largest of the root mean square errors of floating-point values, each relative to that of the value itself.

    An element that is not finite on one side only makes it infinite.
    """
    worst = 0.0
    for name in names:
        one, other = found[name], true[name]
        if not other.is_floating_point():
            continue
        one, other = one.double(), other.double()
        same = (one == other) | (one.isnan() & other.isnan())
        if not bool((same | (one.isfinite() & other.isfinite())).all()):
            return float("inf")
        off = torch.where(same, 0.0, one - other)
        size = torch.where(other.isfinite(), other, 0.0).square().mean().sqrt()
        worst = max(worst, float(off.square().mean().sqrt() / size) if bool(off.any()) else 0.0)
    return worst


def first_values(chain: Chain, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Values:
    """Inputs by their names in the graph."""
    leaves = [leaf for leaf in pytree.tree_leaves((tuple(args), dict(kwargs))) if isinstance(leaf, torch.Tensor)]
    return dict(zip(chain.given, leaves, strict=True))


_TRUE, _OURS = "=", "~"
"""First characters of names of values of a reference, and of those beside it."""


def joined(true: Mapping[str, torch.Tensor], ours: Mapping[str, torch.Tensor]) -> Values:
    """Both kinds of values under names of their own."""
    return {f"{mark}{name}": tensor for mark, values in ((_TRUE, true), (_OURS, ours)) for name, tensor in values.items()}


def separated(values: Mapping[str, torch.Tensor]) -> tuple[Values, Values]:
    """The reverse of `joined`."""
    true, ours = ({name[1:]: tensor for name, tensor in values.items() if name[0] == mark} for mark in (_TRUE, _OURS))
    return true, ours
