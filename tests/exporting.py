"""PyTorch → torch dialect, for tests: weights become resources that share torch's memory, and non-persistent buffers work."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.extras import fx_importer
from torch_mlir.extras.fx_decomp_util import get_decomposition_table

_KEPT: list[torch.Tensor] = []
"""Tensors whose memory some module's resources share."""


class _SharedLiterals(fx_importer.FxImporterHooks):
    """Hands tensors over as resources by their address; torch-mlir would turn them into Python lists."""

    def resolve_literal(self, gni: Any, literal: Any, info: Any) -> ir.Value | None:
        if not isinstance(literal, torch.Tensor) or literal.numel() < 2 or literal.dtype == torch.bool:
            return None
        tensor = literal.detach() if literal.is_contiguous() else literal.detach().contiguous()
        _KEPT.append(tensor)
        memory = (ctypes.c_uint8 * (tensor.numel() * tensor.element_size())).from_address(tensor.data_ptr())
        kind = fx_importer.create_mlir_tensor_type(literal)
        name = getattr(getattr(info, "input_spec", None), "target", None) or f"tensor_{len(_KEPT)}"
        value = ir.DenseResourceElementsAttr.get_from_buffer(np.frombuffer(memory, np.uint8), name, kind)
        result = gni._cc.tensor_to_vtensor_type(literal)
        return ir.Operation.create("torch.vtensor.literal", results=[result], attributes={"value": value}).result


class FunctionModule(torch.nn.Module):
    """A module that calls a function of its inputs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def export_torch(
    model: Callable[..., Any], *inputs: Any, dynamic_shapes: Any = None, decompose: bool = True, name: str = "main"
) -> ir.Module:
    """The module of the torch dialect (raw form) that `model` is when called with tensors like `inputs`."""
    module = model if isinstance(model, torch.nn.Module) else FunctionModule(model)
    if dynamic_shapes is not None and not isinstance(model, torch.nn.Module):
        dynamic_shapes = (tuple(dynamic_shapes),)
    with torch.no_grad():
        program = torch.export.export(module.eval(), inputs, dynamic_shapes=dynamic_shapes, strict=False)
    if decompose:
        program = program.run_decompositions(get_decomposition_table())
    program.state_dict.update({k: v for k, v in program.constants.items() if isinstance(v, torch.Tensor)})
    context = ir.Context()
    torch_dialect.register_dialect(context)
    importer = fx_importer.FxImporter(context=context, hooks=_SharedLiterals())
    importer.import_frozen_program(program, func_name=name)
    return importer.module


def text(module: ir.Module) -> str:
    """The module as MLIR text, weights included."""
    return str(module.operation.get_asm(assume_verified=True))
