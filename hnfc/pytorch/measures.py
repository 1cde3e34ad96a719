"""Measures of PyTorch modules, rewritten or not."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from hnfc.analysis.curvature import Curvature, curvature_of
from hnfc.core.tensors import to_numpy
from hnfc.frontend.pytorch import capture
from hnfc.frontend.torch_mlir import import_module
from hnfc.pytorch.optimized import arguments_of


def curvature(model: torch.nn.Module, sample: Any) -> Curvature:
    """See `GraphRewriter.curvature`."""
    args, kwargs = arguments_of(sample)
    captured = capture(model, args, kwargs)
    imported = import_module(captured.module)
    function = next(op for op in imported.module.ops if isinstance(op, FuncOp))
    given = captured.signature.gather(model, pytree.tree_leaves((args, kwargs)))
    values: dict[SSAValue, Any] = {argument: to_numpy(tensor) for argument, tensor in zip(function.body.block.args, given, strict=True)}
    return curvature_of(function.body.block, values, imported.weight, imported.location)
