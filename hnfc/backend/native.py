"""Operations of a rule's right side as functions of torch that are differentiated accurately, for graphs that torch itself runs.

Files are written in torch's plain operations instead (`expansions`): other tools read them, and nothing is differentiated there.
"""

from __future__ import annotations

from typing import Any

from torch_mlir import ir

from hnfc.core.torch_emitter import Emitter
from hnfc.dialects.num.base import NumOp

NAMESPACE = "hnfc"
"""Of the names of such operations in the torch dialect: `torch.hnfc.expm1`."""
_PLAIN = (
    "expm1", "log1p", "tanh", "asinh", "acosh", "atanh", "sigmoid", "log_sigmoid", "softplus", "cbrt", "erfc", "erfcx",
    "log_ndtr", "hypot", "logaddexp", "silu", "mish",
)  # fmt: skip
"""Functions of `hnfc.backend.functions` that take the operation's operands and nothing else."""
_OF_TORCH = {"i0": "special_i0", "i0e": "special_i0e"}
"""Functions of torch that have accurate derivatives, where the expansions of files have none."""


def write_natively(e: Emitter, operation: NumOp) -> list[ir.Value] | None:
    """The operation as a function of `hnfc.backend.functions` or `rows`; None where it has none."""
    name = operation.name.removeprefix("num.")
    if name in _PLAIN:
        return _call(e, operation, name)
    if name in ("maximum", "minimum"):
        # torch's clamp has another derivative where both are equal
        return [e.aten(name, [e.resolve(operand) for operand in operation.operands], operation.results[0].type)]
    if name in _OF_TORCH:
        return [e.operator(_OF_TORCH[name], [e.resolve(operand) for operand in operation.operands], operation.results[0].type)]
    axes: Any = getattr(operation, "axes", None)
    if name in ("softmax", "log_softmax", "logsumexp") and axes is not None and axes.data:
        return _call(e, operation, name, axes.data[0] if len(axes.data) == 1 else list(axes.data))
    return None


def _call(e: Emitter, operation: NumOp, name: str, *attributes: int | list[int]) -> list[ir.Value]:
    named = {"name": ir.StringAttr.get(f"{NAMESPACE}.{name}", e.context)}
    operands = [*(e.resolve(operand) for operand in operation.operands), *attributes]
    return e.create("torch.operator", operands, operation.results[0].type, attributes=named)
