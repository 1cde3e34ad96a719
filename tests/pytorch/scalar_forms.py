"""Activations, losses and other functions of one number, as people write them: once, for torch and for mpmath."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import torch


class Torch:
    """torch's functions by the names that the forms use."""

    exp, log, log1p, expm1, sqrt, erf, erfc, cos, sin = (
        torch.exp, torch.log, torch.log1p, torch.expm1, torch.sqrt, torch.erf, torch.erfc, torch.cos, torch.sin,
    )  # fmt: skip
    tanh, sinh, cosh, sigmoid, abs = torch.tanh, torch.sinh, torch.cosh, torch.sigmoid, torch.abs

    @staticmethod
    def where(x: Any, bound: float, above: Any, below: Any) -> Any:
        """above where x > bound, else below; both are functions, of which mpmath computes one."""
        return torch.where(x > bound, above(x), below(x))

    @staticmethod
    def maximum(x: Any, y: Any) -> Any:
        return torch.maximum(x, y if isinstance(y, torch.Tensor) else torch.full_like(x, y))


class Reals:
    """The same functions over the reals."""

    exp, log, sqrt, erf, erfc, cos, sin = mpmath.exp, mpmath.log, mpmath.sqrt, mpmath.erf, mpmath.erfc, mpmath.cos, mpmath.sin
    tanh, sinh, cosh, abs, expm1, log1p = mpmath.tanh, mpmath.sinh, mpmath.cosh, abs, mpmath.expm1, mpmath.log1p

    @staticmethod
    def sigmoid(x: Any) -> Any:
        return 1 / (1 + mpmath.exp(-x))

    @staticmethod
    def where(x: Any, bound: float, above: Any, below: Any) -> Any:
        return above(x) if x > bound else below(x)

    @staticmethod
    def maximum(x: Any, y: Any) -> Any:
        return x if x > y else y


FORMS: dict[str, Callable[[Any, Any], Any]] = {
    "sigmoid": lambda m, x: 1 / (1 + m.exp(-x)),
    "sigmoid_quotient": lambda m, x: m.exp(x) / (1 + m.exp(x)),
    "sigmoid_complement": lambda m, x: 1 - m.sigmoid(x),
    "sigmoid_scaled": lambda m, x: 1 / (1 + m.exp(-x / 2)),
    "sigmoid_difference": lambda m, x: m.sigmoid(x) - 0.5,
    "tanh_quotient": lambda m, x: (m.exp(2 * x) - 1) / (m.exp(2 * x) + 1),
    "tanh_differences": lambda m, x: (m.exp(x) - m.exp(-x)) / (m.exp(x) + m.exp(-x)),
    "tanh_of_hyperbolics": lambda m, x: m.sinh(x) / m.cosh(x),
    "tanh_complement": lambda m, x: 1 - m.tanh(x),
    "tanh_plus_one": lambda m, x: 1 + m.tanh(x),
    "tanh_halved": lambda m, x: (1 + m.tanh(x / 2)) / 2,
    "log_sigmoid": lambda m, x: m.log(m.sigmoid(x)),
    "log_sigmoid_written_out": lambda m, x: m.log(1 / (1 + m.exp(-x))),
    "log_sigmoid_complement": lambda m, x: m.log(1 - m.sigmoid(x)),
    "bernoulli": lambda m, x: -(0.25 * m.log(m.sigmoid(x)) + 0.75 * m.log(1 - m.sigmoid(x))),
    "positive_label": lambda m, x: -m.log(m.sigmoid(x)) * 2,
    "focal": lambda m, x: -((1 - m.sigmoid(x)) ** 2) * m.log(m.sigmoid(x)),
    "softplus": lambda m, x: m.log(1 + m.exp(x)),
    "softplus_log1p": lambda m, x: m.log1p(m.exp(x)),
    "softplus_scaled": lambda m, x: m.log(1 + m.exp(2 * x)) / 2,
    "softplus_loss": lambda m, x: m.log(1 + m.exp(-x)),
    "softplus_shifted": lambda m, x: m.log(1 + m.exp(x)) - 0.6931471805599453,
    "silu": lambda m, x: x / (1 + m.exp(-x)),
    "silu_sigmoid": lambda m, x: x * m.sigmoid(x),
    "silu_scaled": lambda m, x: x / (1 + m.exp(-1.5 * x)),
    "elu": lambda m, x: m.where(x, 0, lambda t: t, lambda t: m.exp(t) - 1),
    "selu": lambda m, x: 1.0507 * m.where(x, 0, lambda t: t, lambda t: 1.67326 * (m.exp(t) - 1)),
    "celu": lambda m, x: m.where(x, 0, lambda t: t, lambda t: 2 * (m.exp(t / 2) - 1)),
    "mish": lambda m, x: x * m.tanh(m.log(1 + m.exp(x))),
    "gelu_tail": lambda m, x: 0.5 * x * (1 + m.erf(x / 2**0.5)),
    "gelu_tanh": lambda m, x: 0.5 * x * (1 + m.tanh(0.79788456 * (x + 0.044715 * x * x * x))),
    "erf_complement": lambda m, x: 1 - m.erf(x),
    "erf_plus_one": lambda m, x: 1 + m.erf(x),
    "normal_distribution": lambda m, x: 0.5 * (1 + m.erf(x / 2**0.5)),
    "log_normal_distribution": lambda m, x: m.log(0.5 * m.erfc(-x / 2**0.5)),
    "log_cosh": lambda m, x: m.log((m.exp(x) + m.exp(-x)) / 2),
    "log_of_cosh": lambda m, x: m.log(m.cosh(x)),
    "sinh": lambda m, x: (m.exp(x) - m.exp(-x)) / 2,
    "asinh": lambda m, x: m.log(x + m.sqrt(x * x + 1)),
    "acosh": lambda m, x: m.log(x + m.sqrt(x * x - 1)),
    "atanh": lambda m, x: 0.5 * m.log((1 + x) / (1 - x)),
    "expm1": lambda m, x: m.exp(x) - 1,
    "one_minus_exp": lambda m, x: 1 - m.exp(-x),
    "log1p": lambda m, x: m.log(1 + x),
    "log1mexp": lambda m, x: m.log(1 - m.exp(-m.abs(x))),
    "log1p_of_square": lambda m, x: m.log(1 + x * x),
    "cauchy": lambda m, x: m.log(1 + x * x / 4),
    "geman_mcclure": lambda m, x: x * x / (1 + x * x),
    "sech": lambda m, x: m.exp(x) / (1 + m.exp(x) * m.exp(x)),
    "log_tanh_jacobian": lambda m, x: m.log(1 - m.tanh(x) * m.tanh(x)),
    "one_minus_cos": lambda m, x: 1 - m.cos(x),
    "pendulum": lambda m, x: 3 * m.cos(x) - 3,
    "absolute": lambda m, x: m.sqrt(x * x),
    "relu": lambda m, x: m.maximum(x, 0.0),
    "leaky": lambda m, x: m.maximum(x, 0.01 * x),
    "pinball": lambda m, x: m.maximum(0.3 * x, -0.7 * x),
    "hinge": lambda m, x: m.maximum(1 - x, 0.0),
    "huber": lambda m, x: m.where(m.abs(x), 1, lambda t: m.abs(x) - 0.5, lambda t: 0.5 * x * x),
    "charbonnier": lambda m, x: m.sqrt(x * x + 1) - 1,
    "softsign": lambda m, x: x / (1 + m.abs(x)),
    "isru": lambda m, x: x / m.sqrt(1 + x * x),
    "logit": lambda m, x: m.log(x / (1 - x)),
    "entropy_term": lambda m, x: x * m.log(x),
    "safe_root": lambda m, x: m.where(x, 0, m.sqrt, lambda t: 0 * t),
    "safe_log": lambda m, x: m.where(x, 0, lambda t: t * m.log(t), lambda t: 0 * t),
    "safe_reciprocal": lambda m, x: m.where(m.abs(x), 0, lambda t: 1 / x, lambda t: 0 * x),
    "gated": lambda m, x: m.tanh(x) * (1 / (1 + m.exp(-x))),
    "cancelled": lambda m, x: x * (1 + x * x) / (1 + x * x),
    "gaussian_ratio": lambda m, x: m.exp(-x * x) * m.exp(x * x / 2),
}  # fmt: skip
POINTS = (
    0.0, -0.0, 1e-9, -1e-9, 1e-4, -1e-4, 0.1, -0.1, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 6.0, -6.0, 10.0, -10.0, 15.0, -15.0,
    20.0, -20.0, 45.0, -45.0, 90.0, -90.0, 1e4, -1e4,
)  # fmt: skip
