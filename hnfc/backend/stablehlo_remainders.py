"""Remainders for StableHLO: torch-mlir gives `remainder` the sign of the dividend, and makes of `fmod` a difference that loses digits."""

from __future__ import annotations

import re

from torch_mlir import ir

from hnfc.core.torch_emitter import Emitter

REMAINDERS = ("torch.aten.remainder.Tensor", "torch.aten.fmod.Tensor")
_TENSOR = re.compile(r"!torch\.vtensor<\[([\d,?]*)\],(si\d+|b?f\d+)>")


def write_remainder(emitter: Emitter, operation: ir.Operation) -> None:
    """Writes one of REMAINDERS, on tensors of one signed type, in others that are right whichever sign `remainder` has."""
    x, y = list(operation.operands)
    kind = str(operation.results[0].type)
    kinds = [_TENSOR.fullmatch(text) for text in (str(x.type), str(y.type), kind)]
    if len({found[2] if found else None for found in kinds}) != 1 or kinds[0] is None:
        return
    if operation.name == REMAINDERS[0]:
        rest = emitter.aten("remainder.Tensor", [x, y], kind)
        other = emitter.aten("logical_xor", [_is_negative(emitter, rest), _is_negative(emitter, y)], _boolean(kind))
        uneven = emitter.aten("ne.Scalar", [rest, 0], _boolean(kind))
        chosen = emitter.aten("logical_and", [other, uneven], _boolean(kind))
        made = emitter.aten("where.self", [chosen, emitter.aten("add.Tensor", [rest, y, 1], kind), rest], kind)
    elif kinds[0][2].startswith("s"):
        return
    else:
        rest = emitter.aten("remainder.Tensor", [emitter.aten("abs", [x], str(x.type)), emitter.aten("abs", [y], str(y.type))], kind)
        made = emitter.aten("where.self", [_is_negative(emitter, x), emitter.aten("neg", [rest], kind), rest], kind)
    operation.results[0].replace_all_uses_with(made)
    operation.erase()


def _is_negative(emitter: Emitter, x: ir.Value) -> ir.Value:
    # of a constant and a number of another kind torch-mlir takes the wrong one for less
    found = _TENSOR.fullmatch(str(x.type))
    zero: int | float = 0 if found and found[2].startswith("s") else 0.0
    return emitter.aten("lt.Scalar", [x, zero], _boolean(str(x.type)))


def _boolean(kind: str) -> str:
    return kind[: kind.index("],")] + "],i1>"
