"""The table from operation of `num` to writer, and what writers share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from torch_mlir import ir
from xdsl.ir import SSAValue

from hnfc.core.torch_emitter import Emitter
from hnfc.dialects.num.base import as_tensor

Writer: TypeAlias = Callable[[Emitter, Any], "ir.Value | list[ir.Value]"]


WRITERS: dict[str, Writer] = {}
HALVES = ("f16", "bf16", "f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f8E5M2FNUZ")
"""Formats that torch computes in float32 and rounds afterwards."""


def writes(*names: str) -> Callable[[Writer], Writer]:
    def register(writer: Writer) -> Writer:
        for name in names:
            WRITERS[f"num.{name}"] = writer
        return writer

    return register


def kind(value: SSAValue) -> Any:
    return as_tensor(value.type)


def shape(value: SSAValue) -> tuple[int, ...]:
    return tuple(as_tensor(value.type).get_shape())


def by_name(e: Emitter, op: Any) -> ir.Value:
    """The first of the operation's torch names, on its operands; `torch.operator` where the torch dialect has none of that name."""
    write = e.aten if in_dialect(e, op) else e.operator
    return write(op.FACTS.torch[0].removeprefix("aten."), [e.resolve(operand) for operand in op.operands], op.result.type)


def in_dialect(e: Emitter, op: Any) -> bool:
    """Return whether the torch dialect has the first of the operation's torch names."""
    return bool(op.FACTS.torch) and e.context.is_registered_operation(f"torch.{op.FACTS.torch[0]}")
