"""Attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import BoolAttr, FloatAttr, TensorType
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, var_operand_def

from hnfc.dialects.assembly import TYPES
from hnfc.dialects.facts import UNKNOWN_CONTEXT, Access, Context, Exactness, Facts, StepBuilder, Storage
from hnfc.dialects.interval import Interval
from hnfc.dialects.num.base import NumOp, Tensor, as_tensor, element_name, elements
from hnfc.dialects.num.normalization import broadcasts_to
from hnfc.dialects.num.reduction import EXACT, scaled
from hnfc.dialects.num.softmax import softmax, softmax_steps
from hnfc.dialects.types import DYNAMIC, ELEMENT_TYPES, FLOATING, TypeMismatch, broadcast_shapes, format_of, tensor


def attention(q: Any, k: Any, v: Any, *mask: Any, scale: float, causal: bool = False) -> Any:
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) * np.asarray(scale, np.asarray(q).dtype)
    for part in mask:
        scores = np.where(part, scores, -np.inf) if np.asarray(part).dtype == np.bool_ else scores + part
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=np.bool_), scores, -np.inf)
    weights = softmax(scores, (-1,))
    if mask or causal:
        # a query that sees no key gets 0, as in torch; over the reals its result is undefined
        weights = np.where(np.all(scores == -np.inf, axis=-1, keepdims=True), np.zeros((), weights.dtype), weights)
    return np.matmul(weights, v).astype(np.asarray(q).dtype)


def attention_formula(m: Any, q: Any, k: Any, v: Any, *mask: Any, scale: float, causal: bool = False) -> Any:
    e = m.exp(m.matmul(q, m.transpose(k, "last_two")) * m.const(scale))
    if causal:
        e = m.lower(e)
    for part in mask:
        e = e * m.weight(part)
    return m.matmul(e / m.sum(e, (-1,)), v)


def attention_range(q: Interval, k: Interval, v: Interval, *mask: Interval, scale: float, causal: bool = False,
                    context: Context = UNKNOWN_CONTEXT) -> Interval:  # fmt: skip
    """A mean of v with weights ≥ 0, but for the rounding of the weights' sum; NaN where scores overflow or a row is masked."""
    form = context.format or EXACT
    size = scaled(context.count, q.magnitude * k.magnitude * max(abs(scale), 1.0))
    masked = any(m.nan or math.isinf(m.magnitude) or m.lo == 0.0 for m in mask)
    nan = q.nan or k.nan or v.nan or masked or not size <= form.largest or math.isinf(v.magnitude)
    stray = 2 * v.magnitude
    return Interval(0.0 if v.lo >= 0 else -stray, 0.0 if v.hi <= 0 else stray, nan, v.minus_zero)


def attention_steps(s: StepBuilder, q: Any, k: Any, v: Any, *mask: Any, scale: Any, causal: Any = False) -> Any:
    if causal:
        return None
    scores = s("matmul", q, s("transpose", k, perm="last_two"))
    if scale != 1:
        scores = s("mul", scores, scale)
    for part in mask:
        scores = s("add", scores, part)
    return s("matmul", softmax_steps(s, scores, (-1,)), v)


@irdl_op_definition
class AttentionOp(NumOp):
    """softmax(q·kᵀ·scale + mask)·v over the last two axes; a mask of i1 hides keys where it is false, `causal` hides later keys."""

    name = "num.attention"
    q = operand_def(TensorType)
    k = operand_def(TensorType)
    v = operand_def(TensorType)
    mask = var_operand_def(TensorType)
    scale = prop_def(FloatAttr)
    causal = prop_def(BoolAttr)
    result = result_def(TensorType)
    assembly_format = f"$q `,` $k `,` $v (`,` $mask^)? `scale` $scale `causal` $causal {TYPES}"
    FACTS: ClassVar = Facts(
        access=Access.CONTRACTION,
        exactness=Exactness.ALGORITHM,
        accepts=FLOATING,
        alike=range(3),
        storage=Storage.STEPS,
        real=attention_formula,
        steps=attention_steps,
        evaluate=attention,
        range=attention_range,
        torch=("aten.scaled_dot_product_attention",),
        contextual=True,
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        q, k, v, *masks = operands
        if len({t.element_type for t in (q, k, v)}) > 1 or any(len(t.get_shape()) < 2 for t in (q, k, v)):
            raise TypeMismatch(f"expected queries, keys and values of one element type and two axes or more, but got {q}, {k}, {v}")
        batch = broadcast_shapes(*(t.get_shape()[:-2] for t in (q, k, v)))
        rows, width = k.get_shape()[-2:]
        for size, found in ((width, q.get_shape()[-1]), (rows, v.get_shape()[-2])):
            if size != found and DYNAMIC not in (size, found):
                raise TypeMismatch(f"expected keys as wide as queries and as many as values, but got {q}, {k}, {v}")
        for mask in masks:
            if mask.element_type not in (ELEMENT_TYPES["i1"], ELEMENT_TYPES["f32"], q.element_type):
                raise TypeMismatch(f"expected a mask of i1, f32 or {element_name(q)}, but got {mask}")
            if len(mask.get_shape()) < 2 or not broadcasts_to(mask.get_shape(), (*batch, q.get_shape()[-2], rows)):
                wanted = [*batch, q.get_shape()[-2], rows]
                raise TypeMismatch(f"expected a mask of two axes or more that broadcasts to {wanted}, but got {mask}")
        return tensor(q.element_type, (*batch, q.get_shape()[-2], v.get_shape()[-1]))

    def context(self) -> Context:
        return Context(elements(as_tensor(self.q.type), [len(as_tensor(self.q.type).get_shape()) - 1]), format_of(self.q.type))
