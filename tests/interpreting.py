"""Runs StableHLO by its own reference interpreter, which shares nothing with hnfc."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo

from hnfc.frontend.reading import new_context, read
from hnfc.frontend.stablehlo import register
from hnfc.frontend.weights import read as elements

Array = Any


def parsed(text: str) -> ir.Module:
    """A StableHLO module as it is."""
    context = new_context()
    register(context)
    return read(text.encode(), context)


def interpret(module: ir.Module | str, inputs: Sequence[Array]) -> list[Array]:
    """The results of the module's public function."""
    module = parsed(module) if isinstance(module, str) else module
    context = module.context
    with context, ir.Location.unknown():
        arguments = [_attribute(np.asarray(array)) for array in inputs]
        results = _stablehlo.eval_module(module, arguments)
        # integers are signless in StableHLO
        return [np.array(elements(result)) for result in results]


def _attribute(array: Array) -> ir.Attribute:
    if array.dtype == np.bool_:
        return ir.DenseElementsAttr.get(array, shape=list(array.shape), type=ir.IntegerType.get_signless(1))
    return ir.DenseElementsAttr.get(np.ascontiguousarray(array).reshape(array.shape), signless=array.dtype != np.uint8)
