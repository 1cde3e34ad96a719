"""Softmax and its logarithm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.irdl import irdl_op_definition

from hnfc.dialects.facts import UNKNOWN_CONTEXT, Access, Context, Exactness, Facts, StepBuilder, Storage
from hnfc.dialects.interval import Interval
from hnfc.dialects.num.base import AlongAxesOp
from hnfc.dialects.num.reduction import EXACT, shifted_steps
from hnfc.dialects.types import FLOATING


def softmax(x: Any, axes: Sequence[int]) -> Any:
    e = np.exp(x - np.max(x, axis=axes, keepdims=True, initial=-np.inf))
    return e / np.sum(e, axis=axes, keepdims=True)


def log_softmax(x: Any, axes: Sequence[int]) -> Any:
    shifted = x - np.max(x, axis=axes, keepdims=True, initial=-np.inf)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axes, keepdims=True))


def softmax_range(x: Interval, axes: Sequence[int]) -> Interval:
    """Within [0, 1]. A whole row of -inf, or one +inf, gives NaN."""
    return Interval(0.0, 1.0, x.nan or math.isinf(x.magnitude))


def log_softmax_range(x: Interval, axes: Sequence[int], context: Context = UNKNOWN_CONTEXT) -> Interval:
    """At most 0, and at least the width of x + log n below it."""
    n = context.count
    nan = x.nan or math.isinf(x.magnitude)
    if nan or math.isinf(n):
        return Interval(-math.inf, 0.0, nan)
    form = context.format or EXACT
    depth = x.hi - x.lo + math.log(max(n, 1.0))
    return Interval(-depth * (1 + 8 * form.unit_roundoff) - 2 * n * form.unit_roundoff, 0.0, x.hi - x.lo > form.largest)


def softmax_steps(s: StepBuilder, x: Any, axes: Any) -> Any:
    e = s("exp", shifted_steps(s, x, axes))
    return s("div", e, s("sum", e, axes=axes))


def log_softmax_steps(s: StepBuilder, x: Any, axes: Any) -> Any:
    d = shifted_steps(s, x, axes)
    return s("sub", d, s("log", s("sum", s("exp", d), axes=axes)))


@irdl_op_definition
class SoftmaxOp(AlongAxesOp):
    """e^x / Σ e^x along `axes`."""

    name = "num.softmax"
    FACTS: ClassVar = Facts(
        access=Access.SCAN,
        exactness=Exactness.ALGORITHM,
        accepts=FLOATING,
        storage=Storage.STEPS,
        curvature=lambda x: 0.5,
        real=lambda m, x, axes: m.exp(x) / m.sum(m.exp(x), axes),
        steps=softmax_steps,
        evaluate=lambda x, axes: softmax(x, tuple(axes)),
        range=softmax_range,
        torch=("aten.softmax.int", "aten._softmax"),
    )


@irdl_op_definition
class LogSoftmaxOp(AlongAxesOp):
    """x - log Σ e^x along `axes`."""

    name = "num.log_softmax"
    FACTS: ClassVar = Facts(
        access=Access.SCAN,
        exactness=Exactness.ALGORITHM,
        accepts=FLOATING,
        storage=Storage.STEPS,
        curvature=lambda x: 0.5,
        real=lambda m, x, axes: x - m.log(m.sum(m.exp(x), axes)),
        steps=log_softmax_steps,
        evaluate=lambda x, axes: log_softmax(x, tuple(axes)),
        range=log_softmax_range,
        torch=("aten.log_softmax.int", "aten._log_softmax"),
        contextual=True,
    )
