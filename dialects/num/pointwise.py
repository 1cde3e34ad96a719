"""Operations that act element by element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from hnfc.dialects.facts import Facts
from hnfc.dialects.interval import Interval, increasing
from hnfc.dialects.num.base import BinaryOp, NumOp, Tensor, UnaryOp, to_bool
from hnfc.dialects.types import broadcast_shapes, tensor


@irdl_op_definition
class ExpOp(UnaryOp):
    """e^x."""

    name = "num.exp"
    FACTS: ClassVar = Facts(
        real=lambda m, x: m.exp(x),
        evaluate=np.exp,
        range=increasing(math.exp),
        torch=("aten.exp",),
    )


@irdl_op_definition
class Log1pOp(UnaryOp):
    """log(1 + x), without the loss of digits near 0."""

    name = "num.log1p"
    FACTS: ClassVar = Facts(
        real=lambda m, x: m.log(m.const(1) + x),
        evaluate=np.log1p,
        range=increasing(math.log1p, -1.0),
        torch=("aten.log1p",),
    )


@irdl_op_definition
class AddOp(BinaryOp):
    """x + y."""

    name = "num.add"
    FACTS: ClassVar = Facts(
        real=lambda m, x, y: x + y,
        evaluate=np.add,
        range=lambda x, y: x + y,
        torch=("aten.add.Tensor",),
    )


@irdl_op_definition
class CompareOp(BinaryOp):
    """x predicate y, one of eq ne lt le gt ge; a tensor of i1."""

    name = "num.compare"
    predicate = prop_def(StringAttr)
    assembly_format = "$predicate $x `,` $y attr-dict `:` type($x) `,` type($y) `->` type($result)"
    FACTS: ClassVar = Facts(
        real=lambda m, x, y, predicate: m.compare(predicate, x, y),
        evaluate=lambda x, y, predicate: {
            "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
        }[predicate](x, y),
        range=lambda x, y, predicate: Interval(0.0, 1.0),
        torch=(),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        return to_bool(BinaryOp.infer.__func__(cls, operands, attributes))


@irdl_op_definition
class WhereOp(NumOp):
    """x where p holds, else y."""

    name = "num.where"
    p = operand_def(TensorType)
    x = operand_def(TensorType)
    y = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$p `,` $x `,` $y attr-dict `:` type($p) `,` type($x) `,` type($y) `->` type($result)"
    FACTS: ClassVar = Facts(
        real=lambda m, p, x, y: m.where(p, x, y),
        evaluate=np.where,
        range=lambda p, x, y: x.hull(y),
        torch=("aten.where.self",),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        p, x, y = operands
        return tensor(x.element_type, broadcast_shapes(p.get_shape(), x.get_shape(), y.get_shape()))
