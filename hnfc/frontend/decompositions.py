"""Decompositions of ATen operations on the way from torch.export to the torch dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def decompositions_for(graph: torch.fx.Graph) -> dict[Any, Any]:
    """Decompositions of operations that give a list, and of those that write to their arguments without saying so in their schema: running
    statistics."""
    writes = any(node.target is _INSTANCE_NORM and node.args[3] is not None and node.args[5] for node in graph.nodes)
    norms = {_INSTANCE_NORM: torch.export.default_decompositions()[_INSTANCE_NORM]} if writes else {}
    return {torch.ops.aten.broadcast_tensors.default: _broadcast, **norms}


def _broadcast(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    shape = torch.broadcast_shapes(*(tensor.shape for tensor in tensors))  # type: ignore[no-untyped-call]
    return [tensor.expand(shape) for tensor in tensors]


_INSTANCE_NORM = torch.ops.aten.instance_norm.default
