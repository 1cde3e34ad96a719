"""Matrix products, and with a bias."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.irdl import irdl_op_definition, operand_def, result_def

from hnfc.dialects.assembly import TYPES
from hnfc.dialects.facts import UNKNOWN_CONTEXT, Access, Accumulation, Context, Exactness, Facts, Storage
from hnfc.dialects.interval import Interval
from hnfc.dialects.num.base import NumOp, Tensor, as_tensor, element_name, elements
from hnfc.dialects.num.reduction import summed
from hnfc.dialects.types import DYNAMIC, NUMBER, TypeMismatch, broadcast_shapes, format_of, tensor, working


def matmul_shape(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """NumPy's rules: vectors are promoted to matrices, batch axes broadcast."""
    if not a or not b:
        raise TypeMismatch("expected operands of rank 1 or more, but got a scalar")
    inner_a, inner_b = a[-1], b[-2] if len(b) > 1 else b[0]
    if inner_a != inner_b and DYNAMIC not in (inner_a, inner_b):
        raise TypeMismatch(f"expected inner sizes that agree, but got {inner_a} and {inner_b}")
    batch = broadcast_shapes(a[:-2], b[:-2])
    return (*batch, *(a[-2:-1] if len(a) > 1 else ()), *(b[-1:] if len(b) > 1 else ()))


def matmul_range(a: Interval, b: Interval, context: Context = UNKNOWN_CONTEXT) -> Interval:
    return summed(a * b, context)


@irdl_op_definition
class MatmulOp(NumOp):
    """a @ b: Σ over the last axis of a and the second last of b, with NumPy's rules for vectors and batches."""

    name = "num.matmul"
    a = operand_def(TensorType)
    b = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = f"$a `,` $b {TYPES}"
    FACTS: ClassVar = Facts(
        access=Access.CONTRACTION,
        exactness=Exactness.ALGORITHM,
        accumulation=Accumulation.CONTRACTION,
        accepts=NUMBER,
        modular=True,
        real=lambda m, a, b: m.matmul(a, b),
        evaluate=np.matmul,
        range=matmul_range,
        torch=("aten.matmul", "aten.mm", "aten.bmm", "aten.linear", "aten.addmm", "aten.mv", "aten.dot"),
        contextual=True,
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        a, b = operands
        if a.element_type != b.element_type:
            raise TypeMismatch(f"expected operands of one element type, but got {element_name(a)} and {element_name(b)}")
        return tensor(a.element_type, matmul_shape(a.get_shape(), b.get_shape()))

    def context(self) -> Context:
        a = as_tensor(self.a.type)
        return Context(elements(a, [len(a.get_shape()) - 1]), format_of(a))


def affine_range(x: Interval, weight: Interval, bias: Interval, context: Context = UNKNOWN_CONTEXT) -> Interval:
    product = summed(x * weight, context)
    if context.format is None:
        return product + bias
    form = context.format
    product = product.widened(form.unit_roundoff, form.tiny, form.largest)
    # accumulated onto the bias
    slack = 2 * (context.count + 2) * working(form).unit_roundoff * bias.magnitude + 4 * form.unit_roundoff * product.magnitude
    return (product + bias).spread(slack if slack == slack else math.inf)


@irdl_op_definition
class AffineOp(NumOp):
    """x @ weight + bias, with a bias along the last axis."""

    name = "num.affine"
    x = operand_def(TensorType)
    weight = operand_def(TensorType)
    bias = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = f"$x `,` $weight `,` $bias {TYPES}"
    FACTS: ClassVar = Facts(
        access=Access.CONTRACTION,
        exactness=Exactness.ALGORITHM,
        accepts=NUMBER,
        storage=Storage.STEPS,
        real=lambda m, x, weight, bias: m.matmul(x, weight) + bias,
        steps=lambda s, x, weight, bias: s("add", s("matmul", x, weight), bias),
        evaluate=lambda x, weight, bias: np.matmul(x, weight) + bias,
        range=affine_range,
        torch=("aten.addmm",),
        contextual=True,
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        x, weight, bias = operands
        product = MatmulOp.infer([x, weight], {})
        if bias.element_type != product.element_type or tuple(bias.get_shape()) != tuple(product.get_shape()[-1:]):
            raise TypeMismatch(f"expected a bias of one axis that fits {product}, but got {bias}")
        return product

    def context(self) -> Context:
        x = as_tensor(self.x.type)
        return Context(elements(x, [len(x.get_shape()) - 1]), format_of(x))
