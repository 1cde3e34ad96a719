"""Constants, weights, and what `num` does not know, in the torch dialect."""

from __future__ import annotations

from typing import Any

from torch_mlir import ir

from hnfc.backend.writer_registry import kind, shape, writes
from hnfc.core.torch_emitter import DTYPE_CODES, Emitter
from hnfc.dialects.types import ELEMENT_NAMES, FORMATS


@writes("constant")
def constant(e: Emitter, op: Any) -> ir.Value:
    return e.literal(op.value.value.data, kind(op.result))


@writes("iota")
def iota(e: Emitter, op: Any) -> ir.Value:
    element = ELEMENT_NAMES[kind(op.result).element_type]
    number: Any = float if element in FORMATS else int
    start, step, (count,) = number(op.start.value.data), number(op.step.value.data), shape(op.result)
    code, cpu = (
        DTYPE_CODES[element],
        e.create("torch.constant.device", [], "!torch.Device", attributes={"value": ir.StringAttr.get("cpu", e.context)})[0],
    )
    stop = start + count * step
    return e.aten("arange.start_step", [start, stop, step, code, None, cpu, False], op.result.type)


# weights, and what num does not know


@writes("weight")
def weight(e: Emitter, op: Any) -> ir.Value:
    return e.create("torch.vtensor.literal", [], op.result.type, attributes={"value": e.weight(op.weight_name, kind(op.result))})[0]


@writes("opaque")
def opaque(e: Emitter, op: Any) -> list[ir.Value]:
    attributes = {name: e.attribute(text.data) for name, text in op.carried.data.items()}
    return e.create(op.operation.data, [e.resolve(x) for x in op.inputs], *(r.type for r in op.outputs), attributes=attributes)
