"""Sums, products and means of all elements along `axes`, which stay with size 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, StringAttr
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def

from hnfc.dialects.assembly import TYPES
from hnfc.dialects.facts import UNKNOWN_CONTEXT, Access, Accumulation, Context, Exactness, Facts, StepBuilder, Storage
from hnfc.dialects.interval import Interval
from hnfc.dialects.num.base import ReductionOp, Tensor, UnaryOp, as_tensor, elements
from hnfc.dialects.num.rounding import NUMPY_TYPES
from hnfc.dialects.types import (
    ANY,
    ELEMENT_TYPES,
    FLOATING,
    FORMATS,
    ElementFormat,
    TypeMismatch,
    format_of,
    reduced_shape,
)


def scaled(count: float, bound: float) -> float:
    """count·bound, with 0 for a bound of 0."""
    return count * bound if bound else 0.0


def summed(x: Interval, context: Context) -> Interval:
    """Σ of `count` values in x, in any order, every partial sum rounded; NaN where ∞ - ∞ may meet on the way."""
    n = context.count
    lo, hi = scaled(n, x.lo), scaled(n, x.hi)
    form = context.format or EXACT
    slack = scaled(n, min(n * form.unit_roundoff * 2, 1e300)) * x.magnitude if x.magnitude else 0.0
    lo, hi = (lo if x.lo >= 0 else lo - slack), (hi if x.hi <= 0 else hi + slack)
    if x.lo > 0:
        lo = 0.0 if math.isinf(n) or n * form.unit_roundoff >= 0.25 else lo * (1 - 2 * n * form.unit_roundoff)
    elif x.hi < 0:
        hi = 0.0 if math.isinf(n) or n * form.unit_roundoff >= 0.25 else hi * (1 - 2 * n * form.unit_roundoff)
    if n == 0 or math.isinf(n):
        lo, hi = min(lo, 0.0), max(hi, 0.0)
    clash = x.lo < 0 < x.hi and (hi > form.largest or lo < -form.largest)
    if math.isnan(lo) or math.isnan(hi):
        return Interval(-math.inf, math.inf, True)
    return Interval(lo, hi, x.nan or clash or (x.lo == -math.inf and x.hi == math.inf), x.minus_zero)


EXACT = ElementFormat(2.0**-53, 2.0**-1074, math.inf)


def sum_range(x: Interval, axes: Sequence[int], accumulate: str | None = None, context: Context = UNKNOWN_CONTEXT) -> Interval:
    return summed(x, context)


def cumsum_range(x: Interval, axis: int, context: Context = UNKNOWN_CONTEXT) -> Interval:
    """Every sum of 1 to n values."""
    return summed(x, context).hull(x)


def prod_range(x: Interval, axes: Sequence[int], context: Context = UNKNOWN_CONTEXT) -> Interval:
    """Powers of the bounds; part of the product may overflow and part underflow, and then ∞·0 is NaN."""
    n, size = context.count, x.magnitude
    form = context.format or EXACT
    if math.isinf(n):
        top = math.inf if size > 1 else 1.0
    else:
        top = math.inf if size > 1 and n * math.log(size) > 709 else math.nextafter(max(1.0, size**n), math.inf)
    top *= 1 + min(2 * n * form.unit_roundoff, 1.0)
    # in some order the small factors come first, the large ones beside them
    bottom = 0.0 if x.lo <= 0 else min(1.0, x.lo) ** n
    nan = x.nan or (bottom <= form.tiny and top > form.largest)
    return Interval(0.0 if x.lo >= 0 else -top, top, nan, x.minus_zero)


def mean_range(x: Interval, axes: Sequence[int], context: Context = UNKNOWN_CONTEXT) -> Interval:
    """Between the least and the greatest element, but for the rounding of the sum; the sum may overflow."""
    total = summed(x, context)
    n, form = context.count, context.format or EXACT
    if n == 0:
        return Interval(-math.inf, math.inf, True)
    slack = 4 * n * form.unit_roundoff
    if math.isinf(n) or total.hi > form.largest or total.lo < -form.largest or slack > 0.5:
        return Interval(0.0 if x.lo >= 0 else -math.inf, 0.0 if x.hi <= 0 else math.inf, total.nan, x.minus_zero)
    return Interval(x.lo - slack * abs(x.lo), x.hi + slack * abs(x.hi), total.nan, x.minus_zero)


def var_range(x: Interval, axes: Sequence[int], correction: float = 1.0, context: Context = UNKNOWN_CONTEXT) -> Interval:
    """Non-negative, and at most (width/2)²·n/(n - correction) but for rounding."""
    n, form = context.count, context.format or EXACT
    nan = x.nan or math.isinf(x.magnitude) or n <= correction or 4 * x.magnitude * x.magnitude * n > form.largest
    if math.isinf(n) or n <= correction or math.isinf(x.magnitude):
        return Interval(0.0, math.inf, nan or math.isinf(n))
    width = (x.hi - x.lo) / 2 + 8 * n * form.unit_roundoff * x.magnitude
    return Interval(0.0, width * width * n / (n - correction) * (1 + 8 * n * form.unit_roundoff), nan)


def logsumexp(x: Any, axes: Sequence[int]) -> Any:
    """max + log Σ e^(x - max), with 0 for a max that is not finite."""
    top = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, np.zeros((), top.dtype))
    return (np.log(np.sum(np.exp(x - shift), axis=axes, keepdims=True)) + shift).astype(np.asarray(x).dtype)


def logsumexp_range(x: Interval, axes: Sequence[int], context: Context = UNKNOWN_CONTEXT) -> Interval:
    """Between x and x + log n, but for rounding."""
    n, form = context.count, context.format or EXACT
    if n == 0:
        return Interval(-math.inf, -math.inf)
    growth = math.log(n) if math.isfinite(n) else math.inf
    slack = 4 * form.unit_roundoff * (x.magnitude + growth + 1) + 2 * scaled(n, form.unit_roundoff)
    return Interval(x.lo - slack, x.hi + growth + slack, x.nan)


def total(x: Any, axes: Sequence[int], accumulate: str | None = None) -> Any:
    """Σ x, accumulated in `accumulate` (or in the type of x) and rounded to the type of x at the end."""
    kind = NUMPY_TYPES[accumulate] if accumulate else None
    return np.sum(x, axis=tuple(axes), keepdims=True, dtype=kind).astype(np.asarray(x).dtype)


def along(function: Any) -> Any:
    return lambda x, axes: function(x, axis=tuple(axes), keepdims=True)


def centered_square_sum(m: Any, x: Any, axes: Any) -> Any:
    d = x - m.sum(x, axes) / m.size(x, axes)
    return m.sum(d * d, axes)


def average(x: Any, axes: Sequence[int]) -> Any:
    """Σ x / n; NaN of no elements, without the warning of np.mean."""
    n = math.prod(np.shape(x)[axis] for axis in axes)
    return np.sum(x, axis=tuple(axes), keepdims=True) / np.asarray(n, np.asarray(x).dtype)


def variance(x: Any, axes: Sequence[int], correction: float = 1.0) -> Any:
    """By two passes: the mean first, then the squares of what is left."""
    d = x - average(x, axes)
    n = math.prod(np.shape(x)[axis] for axis in axes)
    return (np.sum(d * d, axis=tuple(axes), keepdims=True) / np.asarray(max(n - correction, 0), d.dtype)).astype(d.dtype)


def mean_steps(s: StepBuilder, x: Any, axes: Any) -> Any:
    return s("div", s("sum", x, axes=axes), s.size(x, axes))


def variance_steps(s: StepBuilder, x: Any, axes: Any, correction: Any = 1.0) -> Any:
    d = s("sub", x, mean_steps(s, x, axes))
    count = s.size(x, axes)
    return s("div", s("sum", s("square", d), axes=axes), count if correction == 0 else s("sub", count, correction))


def shifted_steps(s: StepBuilder, x: Any, axes: Any) -> Any:
    return s("sub", x, s("max", x, axes=axes))


def logsumexp_steps(s: StepBuilder, x: Any, axes: Any) -> Any:
    return s("add", s("log", s("sum", s("exp", shifted_steps(s, x, axes)), axes=axes)), s("max", x, axes=axes))


@irdl_op_definition
class SumOp(ReductionOp):
    """Σ x over `axes`; with `accumulate`, the partial sums are kept in that element type."""

    name = "num.sum"
    accumulate = opt_prop_def(StringAttr)
    assembly_format = f"$x $axes (`in` $accumulate^)? {TYPES}"
    FACTS: ClassVar = Facts(
        access=Access.REDUCTION,
        exactness=Exactness.ALGORITHM,
        accumulation=Accumulation.SUM,
        accepts=ANY,
        modular=True,
        real=lambda m, x, axes, accumulate=None: m.sum(x, axes),
        evaluate=total,
        range=sum_range,
        torch=("aten.sum.dim_IntList", "aten.sum"),
        contextual=True,
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        if attributes.get("accumulate") not in (None, *ELEMENT_TYPES):
            raise TypeMismatch(f"expected an element type to accumulate in, but got {attributes['accumulate']}")
        return super().infer(operands, attributes)

    def context(self) -> Context:
        return super().context() if self.accumulate is None else Context(super().context().count, FORMATS.get(self.accumulate.data))


@irdl_op_definition
class ProdOp(ReductionOp):
    """Π x over `axes`."""

    name = "num.prod"
    FACTS: ClassVar = Facts(
        access=Access.REDUCTION,
        exactness=Exactness.ALGORITHM,
        accumulation=Accumulation.PRODUCT,
        accepts=ANY,
        modular=True,
        storage=Storage.WHOLE,
        real=lambda m, x, axes: m.prod(x, axes),
        evaluate=along(np.prod),
        range=prod_range,
        torch=("aten.prod.dim_int", "aten.prod"),
        contextual=True,
    )


@irdl_op_definition
class MeanOp(ReductionOp):
    """Σ x / n over `axes`."""

    name = "num.mean"
    FACTS: ClassVar = Facts(
        access=Access.REDUCTION,
        exactness=Exactness.ALGORITHM,
        accepts=FLOATING,
        real=lambda m, x, axes: m.sum(x, axes) / m.size(x, axes),
        steps=mean_steps,
        evaluate=average,
        range=mean_range,
        torch=("aten.mean.dim", "aten.mean"),
        contextual=True,
    )


@irdl_op_definition
class VarOp(ReductionOp):
    """Σ (x - mean x)² / (n - correction) over `axes`."""

    name = "num.var"
    correction = prop_def(FloatAttr)
    assembly_format = f"$x $axes `correction` $correction {TYPES}"
    FACTS: ClassVar = Facts(
        access=Access.REDUCTION,
        exactness=Exactness.ALGORITHM,
        accepts=FLOATING,
        real=lambda m, x, axes, correction=1.0: centered_square_sum(m, x, axes) / (m.size(x, axes) - m.const(correction)),
        steps=variance_steps,
        evaluate=variance,
        range=var_range,
        torch=("aten.var.correction", "aten.var.dim", "aten.var"),
        contextual=True,
    )


@irdl_op_definition
class LogsumexpOp(ReductionOp):
    """log Σ e^x over `axes`."""

    name = "num.logsumexp"
    FACTS: ClassVar = Facts(
        access=Access.REDUCTION,
        exactness=Exactness.ALGORITHM,
        accepts=FLOATING,
        storage=Storage.STEPS,
        curvature=lambda x: 0.5,
        real=lambda m, x, axes: m.log(m.sum(m.exp(x), axes)),
        steps=logsumexp_steps,
        evaluate=lambda x, axes: logsumexp(x, tuple(axes)),
        range=logsumexp_range,
        torch=("aten.logsumexp",),
        contextual=True,
    )


@irdl_op_definition
class CumsumOp(UnaryOp):
    """The sums of x up to and with each place along `axis`."""

    name = "num.cumsum"
    axis = prop_def(IntegerAttr)
    assembly_format = f"$x $axis {TYPES}"
    FACTS: ClassVar = Facts(
        access=Access.SCAN,
        exactness=Exactness.ALGORITHM,
        accepts=ANY,
        accumulation=Accumulation.SUM,
        real=lambda m, x, axis: m.cumsum(x, axis),
        evaluate=lambda x, axis: np.cumsum(x, axis=axis, dtype=np.asarray(x).dtype),
        range=cumsum_range,
        torch=("aten.cumsum",),
        contextual=True,
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        reduced_shape(operands[0].get_shape(), [attributes["axis"]])
        return operands[0]

    def context(self) -> Context:
        return Context(elements(as_tensor(self.x.type), [self.axis.value.data]), format_of(self.x.type))
