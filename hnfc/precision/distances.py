"""Errors that casts make in a graph, measured on a sample."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import fx

from hnfc.analysis.outputs import TOGETHER, Outputs, root_mean_squares
from hnfc.precision.cast_insertion import Casts, without_narrow_casts


def distance(graph: fx.GraphModule, casts: Casts, sample: Sequence[torch.Tensor], elementwise: bool) -> float:
    """The root mean square error that the casts make on a sample, of each element relative to itself if `elementwise`; inf for NaN."""
    return distances(graph, casts, sample, elementwise)[None]


def distances(
    graph: fx.GraphModule, casts: Casts, sample: Sequence[torch.Tensor], elementwise: bool, outputs: Outputs = TOGETHER
) -> dict[int | None, float]:
    """The same of all outputs together, and of each that is looked at apart."""
    reference = fx.GraphModule(graph, copy.deepcopy(graph.graph))
    if casts.wide is not None:
        without_narrow_casts(reference, casts.wide)
    with torch.no_grad():
        true, found = reference(*sample), casts(fx.GraphModule(graph, copy.deepcopy(graph.graph)))(*sample)
    squares = {}
    for place, (a, b) in enumerate(zip(true, found, strict=True)):
        if isinstance(a, torch.Tensor) and a.is_floating_point():
            a, b = a.double(), b.double()
            away = torch.where(a == b, torch.zeros_like(a), (a - b) / torch.where(a == 0, 1.0, a.abs()) if elementwise else a - b)
            squares[place] = float(away[torch.isfinite(a)].square().sum()), a.numel()
    return root_mean_squares(squares, outputs)
