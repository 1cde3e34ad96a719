"""Bounds of the error of a model in mixed precision: proved on samples or on boxes around them, or with a probability on samples."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np
import torch
from torch import fx
from xdsl.ir import SSAValue

from hnfc.analysis.certified import tape_for
from hnfc.analysis.linear import LinearTape
from hnfc.analysis.outputs import TOGETHER, Outputs, root_mean_squares
from hnfc.analysis.probabilistic import probable_error
from hnfc.analysis.reading import read_function
from hnfc.analysis.taylor import NotAnalyzed, forms, returned
from hnfc.core.tensors import to_numpy
from hnfc.dialects.interval_arrays import Array, IntervalArray
from hnfc.dialects.num.base import as_tensor
from hnfc.dialects.types import format_of
from hnfc.precision.cast_insertion import as_module


def certified_errors(
    graph: fx.GraphModule, sample: Sequence[torch.Tensor], inputs: Collection[int], width: float, elementwise: bool,
    outputs: Outputs = TOGETHER,
) -> dict[int | None, float]:  # fmt: skip
    """Bounds of the root mean square error of all outputs together and of each that is looked at apart, relative to each element if
    `elementwise`, for every input in reach.

    graph: with its casts. inputs: the places of the arguments that may lie anywhere within `width` of the sample; others are what they
    are. The true outputs are those of the formulas over the reals. Infinite where an operation has no bound.
    Raises UsageError for formats that torch does not store.
    """
    imported, function = read_function(as_module(graph, sample))
    block = function.body.block
    boxes: dict[SSAValue, IntervalArray] = {}
    for index, (argument, tensor) in enumerate(zip(block.args, sample, strict=True)):
        array = to_numpy(tensor).astype(np.float64)[None]
        by = width if index in inputs and tensor.is_floating_point() else 0.0
        boxes[argument] = IntervalArray(array - by, array + by) if by else IntervalArray.of(array)
    tape = tape_for(block)
    found = forms(block, boxes, imported.weight, tape=tape)
    squares = {}
    for place, value in enumerate(returned(block)):
        if format_of(as_tensor(value.type)) is None:
            continue
        try:
            node = found.node(value)
            if isinstance(tape, LinearTape):
                tape.tighten(node)
            bound = found.running(value)
        except NotAnalyzed:
            squares[place] = math.inf, 1
            continue
        with np.errstate(all="ignore"):
            each = bound / np.broadcast_to(node.value.smallest, bound.shape) if elementwise else bound
            squares[place] = float(np.square(each).sum()), bound.size
    return {output: error * (1 + 2.0**-40) for output, error in root_mean_squares(squares, outputs).items()}


def probable_errors(
    graph: fx.GraphModule, sample: Sequence[torch.Tensor], probability: float, outputs: Outputs = TOGETHER
) -> dict[int | None, float]:
    """Bounds of the same errors, of the root mean square, on the sample itself: all of them hold with the probability, if roundings are
    independent and unbiased. Raises UsageError for formats that torch does not store."""
    imported, function = read_function(as_module(graph, sample))
    block = function.body.block
    arrays: dict[SSAValue, Array] = {argument: to_numpy(tensor) for argument, tensor in zip(block.args, sample, strict=True)}
    return probable_error(block, arrays, imported.weight, probability, outputs).errors
