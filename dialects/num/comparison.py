"""Conditions: comparisons, the connectives, tests for special values, and the choice between two tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Commutative

from hnfc.dialects.assembly import TYPES
from hnfc.dialects.facts import Access, Exactness, Facts, Result
from hnfc.dialects.interval import UNIT, Interval
from hnfc.dialects.num.base import BinaryOp, LogicalOp, NumOp, PredicateOp, Tensor, element_name
from hnfc.dialects.types import ANY, Kind, TypeMismatch, broadcast_shapes, tensor

PREDICATES: dict[str, Any] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip

TRUE, FALSE = Interval(1.0, 1.0), Interval(0.0, 0.0)


def compare_range(x: Interval, y: Interval, predicate: str) -> Interval:
    """The truth value where the intervals decide it. A NaN makes every comparison false but `ne`."""
    always, never = {
        "lt": (x.hi < y.lo, x.lo >= y.hi),
        "le": (x.hi <= y.lo, x.lo > y.hi),
        "gt": (x.lo > y.hi, x.hi <= y.lo),
        "ge": (x.lo >= y.hi, x.hi < y.lo),
        "eq": (x.lo == x.hi == y.lo == y.hi, x.hi < y.lo or x.lo > y.hi),
        "ne": (x.hi < y.lo or x.lo > y.hi, x.lo == x.hi == y.lo == y.hi),
    }[predicate]
    nan = x.nan or y.nan
    if always and (predicate == "ne" or not nan):
        return TRUE
    return FALSE if never and (predicate != "ne" or not nan) else UNIT


def where_range(p: Interval, x: Interval, y: Interval) -> Interval:
    if p.lo > 0:
        return x
    return y if p.lo == p.hi == 0 and not p.nan else x.hull(y)


@irdl_op_definition
class CompareOp(BinaryOp):
    """x predicate y, one of eq ne lt le gt ge; a tensor of i1."""

    name = "num.compare"
    predicate = prop_def(StringAttr)
    assembly_format = f"$predicate $x `,` $y {TYPES}"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.EXACT,
        accepts=ANY,
        result=Result.TRUTH,
        real=lambda m, x, y, predicate: m.compare(predicate, x, y),
        evaluate=lambda x, y, predicate: PREDICATES[predicate](x, y),
        range=compare_range,
        torch=("aten.eq.Tensor", "aten.ne.Tensor", "aten.lt.Tensor", "aten.le.Tensor", "aten.gt.Tensor", "aten.ge.Tensor"),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        if attributes["predicate"] not in PREDICATES:
            raise TypeMismatch(f"expected a predicate, one of {' '.join(PREDICATES)}, but got {attributes['predicate']}")
        return super().infer(operands, attributes)


@irdl_op_definition
class WhereOp(NumOp):
    """x where p holds, else y."""

    name = "num.where"
    p = operand_def(TensorType)
    x = operand_def(TensorType)
    y = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = f"$p `,` $x `,` $y {TYPES}"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.SELECTION,
        accepts=ANY,
        alike=range(1, 3),
        others=Kind.TRUTH,
        real=lambda m, p, x, y: m.where(p, x, y),
        evaluate=lambda p, x, y: np.where(p, x, y),
        range=where_range,
        torch=("aten.where.self",),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        p, x, y = operands
        if x.element_type != y.element_type:
            raise TypeMismatch(f"expected operands of one element type, but got {element_name(x)} and {element_name(y)}")
        return tensor(x.element_type, broadcast_shapes(p.get_shape(), x.get_shape(), y.get_shape()))


@irdl_op_definition
class IsnanOp(PredicateOp):
    """True if x is NaN: never, over the reals."""

    name = "num.isnan"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.EXACT,
        accepts=ANY,
        result=Result.TRUTH,
        real=lambda m, x: m.compare("ne", x, x),
        evaluate=np.isnan,
        range=lambda x: UNIT if x.nan else FALSE,
        torch=("aten.isnan",),
    )


@irdl_op_definition
class IsinfOp(PredicateOp):
    """True if x is ±inf: never, over the reals."""

    name = "num.isinf"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.EXACT,
        accepts=ANY,
        result=Result.TRUTH,
        real=lambda m, x: m.compare("ne", x, x),
        evaluate=np.isinf,
        range=lambda x: UNIT if np.isinf(x.magnitude) else FALSE,
        torch=("aten.isinf",),
    )


@irdl_op_definition
class IsfiniteOp(PredicateOp):
    """True if x is neither NaN nor ±inf: always, over the reals."""

    name = "num.isfinite"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.EXACT,
        accepts=ANY,
        result=Result.TRUTH,
        real=lambda m, x: m.compare("eq", x, x),
        evaluate=np.isfinite,
        range=lambda x: TRUE if x.finite else UNIT,
        torch=("aten.isfinite",),
    )


@irdl_op_definition
class LogicalNotOp(PredicateOp):
    """Not p."""

    name = "num.logical_not"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.EXACT,
        accepts=Kind.TRUTH,
        result=Result.TRUTH,
        real=lambda m, p: m.logical_not(p),
        evaluate=np.logical_not,
        range=lambda p: FALSE if p.lo > 0 else TRUE if p.lo == p.hi == 0 and not p.nan else UNIT,
        torch=("aten.logical_not",),
    )


@irdl_op_definition
class LogicalAndOp(LogicalOp):
    """p and q."""

    name = "num.logical_and"
    traits = traits_def(Commutative())
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.EXACT,
        accepts=Kind.TRUTH,
        result=Result.TRUTH,
        real=lambda m, p, q: m.logical_and(p, q),
        evaluate=np.logical_and,
        range=lambda p, q: UNIT,
        torch=("aten.logical_and",),
    )


@irdl_op_definition
class LogicalOrOp(LogicalOp):
    """p or q."""

    name = "num.logical_or"
    traits = traits_def(Commutative())
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.EXACT,
        accepts=Kind.TRUTH,
        result=Result.TRUTH,
        real=lambda m, p, q: m.logical_or(p, q),
        evaluate=np.logical_or,
        range=lambda p, q: UNIT,
        torch=("aten.logical_or",),
    )


@irdl_op_definition
class LogicalXorOp(LogicalOp):
    """p or q and not both."""

    name = "num.logical_xor"
    traits = traits_def(Commutative())
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.EXACT,
        accepts=Kind.TRUTH,
        result=Result.TRUTH,
        real=lambda m, p, q: m.logical_and(m.logical_or(p, q), m.logical_not(m.logical_and(p, q))),
        evaluate=np.logical_xor,
        range=lambda p, q: UNIT,
        torch=("aten.logical_xor",),
    )
