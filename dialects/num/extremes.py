"""Extremes along `axes`, their indices, and truth values of all or any elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.irdl import irdl_op_definition

from hnfc.dialects.facts import UNKNOWN_CONTEXT, Access, Context, Exactness, Facts, Result
from hnfc.dialects.interval import UNIT, Interval
from hnfc.dialects.num.base import ReductionOp
from hnfc.dialects.num.reduction import along
from hnfc.dialects.types import (
    ANY,
    NUMBER,
    Kind,
    reduced_shape,
)


def max_range(x: Interval, axes: Sequence[int]) -> Interval:
    return x


def index_along(pick: Any) -> Any:
    """argmax or argmin over several axes at once: the index in the flattened axes, as torch gives it."""

    def evaluate(x: Any, axes: Sequence[int]) -> Any:
        kept = [i for i in range(np.ndim(x)) if i not in axes]
        moved = np.transpose(x, kept + list(axes)).reshape([np.shape(x)[i] for i in kept] + [-1])
        return pick(moved, axis=-1).reshape(reduced_shape(np.shape(x), axes))

    return evaluate


def index_range(x: Interval, axes: Sequence[int], context: Context = UNKNOWN_CONTEXT) -> Interval:
    return Interval(0.0, max(context.count - 1, 0.0))


@irdl_op_definition
class MaxOp(ReductionOp):
    """The greatest x over `axes`; NaN where one is."""

    name = "num.max"
    FACTS: ClassVar = Facts(
        access=Access.REDUCTION,
        exactness=Exactness.SELECTION,
        accepts=ANY,
        real=lambda m, x, axes: m.amax(x, axes),
        evaluate=along(np.max),
        range=max_range,
        torch=("aten.amax", "aten.max"),
    )


@irdl_op_definition
class MinOp(ReductionOp):
    """The least x over `axes`; NaN where one is."""

    name = "num.min"
    FACTS: ClassVar = Facts(
        access=Access.REDUCTION,
        exactness=Exactness.SELECTION,
        accepts=ANY,
        real=lambda m, x, axes: m.amin(x, axes),
        evaluate=along(np.min),
        range=max_range,
        torch=("aten.amin", "aten.min"),
    )


@irdl_op_definition
class ArgmaxOp(ReductionOp):
    """The index along `axes` of the greatest x (the first of equal ones)."""

    name = "num.argmax"
    FACTS: ClassVar = Facts(
        access=Access.REDUCTION,
        exactness=Exactness.EXACT,
        accepts=NUMBER,
        result=Result.INDEX,
        real=lambda m, x, axes: m.index_of(x, axes, True),
        evaluate=index_along(np.argmax),
        range=index_range,
        torch=("aten.argmax",),
        contextual=True,
    )


@irdl_op_definition
class ArgminOp(ReductionOp):
    """The index along `axes` of the least x (the first of equal ones)."""

    name = "num.argmin"
    FACTS: ClassVar = Facts(
        access=Access.REDUCTION,
        exactness=Exactness.EXACT,
        accepts=NUMBER,
        result=Result.INDEX,
        real=lambda m, x, axes: m.index_of(x, axes, False),
        evaluate=index_along(np.argmin),
        range=index_range,
        torch=("aten.argmin",),
        contextual=True,
    )


@irdl_op_definition
class AnyOp(ReductionOp):
    """True if x holds anywhere along `axes`."""

    name = "num.any"
    FACTS: ClassVar = Facts(
        access=Access.REDUCTION,
        exactness=Exactness.EXACT,
        accepts=Kind.TRUTH,
        result=Result.TRUTH,
        real=lambda m, x, axes: m.compare("gt", m.amax(m.where(x, m.const(1), m.const(0)), axes), m.const(0)),
        evaluate=along(np.any),
        range=lambda x, axes: UNIT,
        torch=("aten.any.dim", "aten.any.dims", "aten.any"),
    )


@irdl_op_definition
class AllOp(ReductionOp):
    """True if x holds everywhere along `axes`."""

    name = "num.all"
    FACTS: ClassVar = Facts(
        access=Access.REDUCTION,
        exactness=Exactness.EXACT,
        accepts=Kind.TRUTH,
        result=Result.TRUTH,
        real=lambda m, x, axes: m.compare("gt", m.amin(m.where(x, m.const(1), m.const(0)), axes), m.const(0)),
        evaluate=along(np.all),
        range=lambda x, axes: UNIT,
        torch=("aten.all.dim", "aten.all.dims", "aten.all"),
    )
