"""The algorithms behind operations that are more than one rounding: what `FACTS.evaluate` computes, as an expression.

`FACTS.ulps` bounds the error of a function of one number relative to its result. For an operation along axes no such bound holds: the
error of a softmax grows with the number of elements and with x - max x (Blanchard, Higham, Higham: Accurately computing the
log-sum-exp and softmax functions, 2021). Its error is that of its algorithm.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from hnfc.dialects.num.activation import GELU_CUBIC
from hnfc.dsl.core import Apply, Axes, Capture, Expr, Literal, Size
from hnfc.dsl.error.expression import call


def number(value: Any) -> Expr:
    """An attribute as an operand."""
    return value if isinstance(value, Capture | Literal) else Literal(Fraction(value))


def sum_over(x: Expr, axes: Axes) -> Expr:
    return call("sum", x, axes=axes)


def mean(x: Expr, axes: Axes) -> Expr:
    return call("div", sum_over(x, axes), Size(x, axes))


def shifted(x: Expr, axes: Axes) -> Expr:
    return call("sub", x, call("max", x, axes=axes))


def softmax(x: Expr, axes: Axes) -> Expr:
    e = call("exp", shifted(x, axes))
    return call("div", e, sum_over(e, axes))


def log_softmax(x: Expr, axes: Axes) -> Expr:
    d = shifted(x, axes)
    return call("sub", d, call("log", sum_over(call("exp", d), axes)))


def logsumexp(x: Expr, axes: Axes) -> Expr:
    return call("add", call("log", sum_over(call("exp", shifted(x, axes)), axes)), call("max", x, axes=axes))


def variance(x: Expr, axes: Axes, correction: Any = 1.0) -> Expr:
    d = call("sub", x, mean(x, axes))
    count: Expr = Size(x, axes)
    return call("div", sum_over(call("square", d), axes), count if correction == 0 else call("sub", count, number(correction)))


def affine(y: Expr, parameters: tuple[Expr, ...]) -> Expr:
    for name, parameter in zip(("mul", "add"), parameters, strict=False):
        y = call(name, y, parameter)
    return y


def layer_norm(x: Expr, *parameters: Expr, axes: Axes, eps: Any) -> Expr:
    d = call("sub", x, mean(x, axes))
    return affine(call("div", d, call("sqrt", call("add", mean(call("square", d), axes), number(eps)))), parameters)


def rms_norm(x: Expr, *parameters: Expr, axes: Axes, eps: Any) -> Expr:
    return affine(call("div", x, call("sqrt", call("add", mean(call("square", x), axes), number(eps)))), parameters)


def batch_norm(x: Expr, mean_: Expr, var: Expr, *parameters: Expr, eps: Any) -> Expr:
    return affine(call("div", call("sub", x, mean_), call("sqrt", call("add", var, number(eps)))), parameters)


def normalize(x: Expr, axes: Axes, eps: Any) -> Expr:
    return call("div", x, call("maximum", call("sqrt", sum_over(call("square", x), axes)), number(eps)))


def attention(q: Expr, k: Expr, v: Expr, *mask: Expr, scale: Any, causal: Any = False) -> Expr | None:
    if causal:
        return None
    scores: Expr = call("matmul", q, call("transpose", k, perm="last_two"))
    if scale != 1:
        scores = call("mul", scores, number(scale))
    for part in mask:
        scores = call("add", scores, part)
    return call("matmul", softmax(scores, (-1,)), v)


def logaddexp(x: Expr, y: Expr) -> Expr:
    return call("add", call("maximum", x, y), call("log1p", call("exp", call("neg", call("abs", call("sub", x, y))))))


def gelu(x: Expr, approximate: str = "none") -> Expr:
    if approximate == "none":
        argument = call("div", call("neg", x), Literal(Fraction(math.sqrt(2))))
        return call("div", call("mul", x, call("erfc", argument)), Literal(Fraction(2)))
    cubic = call("mul", call("mul", call("mul", Literal(GELU_CUBIC), x), x), x)
    inner = call("mul", Literal(Fraction(math.sqrt(2 / math.pi))), call("add", x, cubic))
    return call("mul", x, call("sigmoid", call("mul", Literal(Fraction(2)), inner)))


ALGORITHMS: dict[str, Callable[..., Expr | None]] = {
    "mean": mean, "var": variance, "logsumexp": logsumexp, "softmax": softmax, "log_softmax": log_softmax, "layer_norm": layer_norm,
    "rms_norm": rms_norm, "batch_norm": batch_norm, "normalize": normalize, "attention": attention, "logaddexp": logaddexp, "gelu": gelu,
    "affine": lambda x, weight, bias: call("add", call("matmul", x, weight), bias),
}  # fmt: skip


def algorithm(node: Apply) -> Expr | None:
    """The operation in terms of smaller ones; None where it is one of those itself."""
    found = ALGORITHMS.get(node.name)
    return None if found is None else found(*node.operands, **dict(node.attributes))
