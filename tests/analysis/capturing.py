"""A PyTorch module as a function of `num`, with what it takes."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block

from hnfc.frontend.pytorch import capture
from hnfc.frontend.torch_mlir import Imported, import_module


def captured(model: torch.nn.Module, *inputs: torch.Tensor) -> tuple[Imported, Block, list[torch.Tensor]]:
    found = capture(model, inputs)
    imported = import_module(found.module)
    block = next(op for op in imported.module.ops if isinstance(op, FuncOp)).body.block
    given: list[Any] = [t.detach() for t in found.signature.gather(model, pytree.tree_leaves(inputs))]
    return imported, block, given


def mlp() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))


def encoder(layers: int = 2, width: int = 32) -> torch.nn.Module:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(width, 4, 2 * width, batch_first=True, activation="gelu")
    return torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).eval()
