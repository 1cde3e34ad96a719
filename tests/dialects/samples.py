"""For every operation: operands to try it on, its attributes, and what torch calls it."""

# ruff: noqa: E501  (tables)

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
import torch.nn.functional as F


@dataclass(frozen=True)
class Sample:
    """shapes: one for each operand. domain: where operands lie (low, high), or for each operand one. kinds: "f" float, "b" bool, "i" index.

    torch: the same function in torch, on tensors of the operands. exact: no rounding at all. slack: units of roundoff allowed.
    """

    torch: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...] = ((3, 5),)
    attributes: dict[str, Any] = field(default_factory=dict)
    domain: Any = (-4.0, 4.0)
    kinds: str = ""
    slack: float = 8.0
    exact: bool = False
    limit: int = 3
    """Indices are below this."""
    imports: str | None = None
    """The operation that an import of the torch function must contain, if not this one; "" for none."""
    real: bool = True
    """True if `real` is checked (it is None, or stands for attributes under which there is no formula)."""

    def operands(self, seed: int, dtype: Any = np.float64) -> list[np.ndarray[Any, Any]]:
        """Values in the domain that `dtype` (f64, f32, f16, bf16) represents."""
        rng = np.random.default_rng(seed)
        made = []
        for i, shape in enumerate(self.shapes):
            kind = self.kinds[i] if self.kinds else "f"
            low, high = self.domain[i] if isinstance(self.domain, list) else self.domain
            if kind == "b":
                made.append(rng.random(shape) < 0.5)
            elif kind == "i":
                made.append(rng.integers(0, self.limit, shape))
            else:
                made.append(rng.uniform(low, high, shape).astype(dtype))
        return made


def _unary(function: Any, low: float = -4.0, high: float = 4.0, **more: Any) -> list[Sample]:
    return [Sample(function, domain=(low, high), **more), Sample(function, ((),), domain=(low, high), **more)]


def _binary(function: Any, domain: Any = (-4.0, 4.0), **more: Any) -> list[Sample]:
    shapes = (((3, 5), (3, 5)), ((3, 5), (5,)), ((3, 1), (1, 5)), ((), (2, 3)), ((0, 3), (1, 3)))
    return [Sample(function, pair, domain=domain, **more) for pair in shapes]


def _reduction(function: Any, **more: Any) -> list[Sample]:
    found = []
    for shape, axes in (((3, 5), (1,)), ((3, 5), (0,)), ((2, 3, 4), (0, 2)), ((1, 1), (0, 1))):
        call = lambda x, axes=axes: function(x, axes)  # noqa: E731
        found.append(
            Sample(call, (shape,), {"axes": axes, **more.get("attributes", {})}, **{k: v for k, v in more.items() if k != "attributes"})
        )
    return found


def _each_axis(function: Any) -> Any:
    """A torch reduction of one axis, over several."""

    def call(x: Any, axes: tuple[int, ...]) -> Any:
        for axis in axes:
            x = function(x, axis)
        return x

    return call


def _flat_index(function: Any) -> Any:
    def call(x: Any, axes: tuple[int, ...]) -> Any:
        if len(axes) == 1:
            return function(x, axes[0], keepdim=True)
        kept = [i for i in range(x.dim()) if i not in axes]
        flat = x.permute(*kept, *axes).reshape([x.shape[i] for i in kept] + [-1])
        return function(flat, -1).reshape([1 if i in axes else n for i, n in enumerate(x.shape)])

    return call


def _attention(q: Any, k: Any, v: Any, mask: Any = None, causal: bool = False) -> Any:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, scale=0.5)


def _normalize(x: Any, axes: tuple[int, ...]) -> Any:
    return F.normalize(x, dim=axes[0], eps=1e-12) if len(axes) == 1 else x / x.norm(dim=axes, keepdim=True).clamp_min(1e-12)


def _layer_norm(x: Any, *parameters: Any) -> Any:
    return F.layer_norm(x, x.shape[-1:], *parameters, eps=1e-5)


def _rms_norm(x: Any, *parameters: Any) -> Any:
    return F.rms_norm(x, x.shape[-1:], *parameters, eps=1e-5)


def _batch_norm(x: Any, mean: Any, var: Any, *parameters: Any) -> Any:
    return F.batch_norm(x, mean.flatten(), var.flatten(), *(p.flatten() for p in parameters), eps=1e-5)


def _two_sum(x: Any, y: Any) -> tuple[Any, Any]:
    s = x + y
    back = s - x
    return s, (x - (s - back)) + (y - back)


_IMAGE = (2, 4, 6, 6)
_STATISTIC = (1, 4, 1, 1)

SAMPLES: dict[str, list[Sample]] = {
    "detach": _unary(torch.detach, exact=True),
    "neg": _unary(torch.neg, exact=True), "abs": _unary(torch.abs, exact=True), "sign": _unary(torch.sign, exact=True),
    "exp": _unary(torch.exp), "exp2": _unary(torch.exp2), "expm1": _unary(torch.expm1), "log": _unary(torch.log, 0.01, 9.0),
    "log2": _unary(torch.log2, 0.01, 9.0), "log10": _unary(torch.log10, 0.01, 9.0), "log1p": _unary(torch.log1p, -0.9, 4.0),
    "sqrt": _unary(torch.sqrt, 0.0, 9.0), "rsqrt": _unary(torch.rsqrt, 0.01, 9.0), "square": _unary(torch.square),
    "cbrt": _unary(lambda x: torch.sign(x) * torch.abs(x.double()).pow(1 / 3).to(x.dtype), imports=""),
    "reciprocal": _unary(torch.reciprocal, 0.1, 4.0), "sin": _unary(torch.sin), "cos": _unary(torch.cos), "tan": _unary(torch.tan, -1.4, 1.4),
    "asin": _unary(torch.asin, -1.0, 1.0), "acos": _unary(torch.acos, -1.0, 1.0), "atan": _unary(torch.atan), "sinh": _unary(torch.sinh),
    "cosh": _unary(torch.cosh), "tanh": _unary(torch.tanh), "asinh": _unary(torch.asinh), "acosh": _unary(torch.acosh, 1.01, 9.0),
    "atanh": _unary(torch.atanh, -0.9, 0.9), "erf": _unary(torch.erf), "erfc": _unary(torch.erfc, slack=64.0),
    "erfcx": _unary(torch.special.erfcx, slack=64.0),
    "lgamma": _unary(torch.lgamma, 3.0, 9.0), "i0": _unary(torch.i0, slack=16.0), "i0e": _unary(torch.special.i0e, slack=16.0),
    "log_ndtr": _unary(torch.special.log_ndtr, slack=64.0), "sigmoid": _unary(torch.sigmoid), "log_sigmoid": _unary(F.logsigmoid),
    "silu": _unary(F.silu), "softplus": _unary(F.softplus), "relu": _unary(torch.relu, exact=True), "mish": _unary(F.mish),
    "gelu": [
        *_unary(F.gelu, attributes={"approximate": "none"}, slack=64.0),
        Sample(lambda x: F.gelu(x, approximate="tanh"), attributes={"approximate": "tanh"}, slack=64.0),
    ],
    "add": _binary(torch.add), "sub": _binary(torch.sub), "mul": _binary(torch.mul), "div": _binary(torch.div, [(-4.0, 4.0), (0.5, 4.0)]),
    "pow": _binary(torch.pow, [(0.1, 4.0), (-3.0, 3.0)], slack=32.0), "maximum": _binary(torch.maximum, exact=True),
    "minimum": _binary(torch.minimum, exact=True), "atan2": _binary(torch.atan2), "remainder": _binary(torch.remainder, [(-9.0, 9.0), (1.0, 3.0)]),
    "fmod": _binary(torch.fmod, [(-9.0, 9.0), (1.0, 3.0)]), "hypot": _binary(torch.hypot), "logaddexp": _binary(torch.logaddexp),
    "xlogy": _binary(torch.xlogy, [(-4.0, 4.0), (0.1, 4.0)]),
    "fma": [Sample(lambda x, y, z: x * y + z, ((3, 5), (5,), ()), imports="")],
    "floor": _unary(torch.floor, exact=True), "ceil": _unary(torch.ceil, exact=True), "trunc": _unary(torch.trunc, exact=True),
    "round": _unary(torch.round, exact=True),
    "round_to": [Sample(lambda x: x.half().to(x.dtype), attributes={"format": "f16"}, exact=True, imports="", real=False)],
    "cast": [
        Sample(lambda x: x.to(torch.float16), attributes={"to": "f16"}, exact=True, real=False),
        Sample(lambda x: x.to(torch.int64), attributes={"to": "si64"}, exact=True, real=False),
        Sample(lambda x: x.to(torch.bool), attributes={"to": "i1"}, exact=True, real=False),
    ],
    "compare": [
        sample
        for predicate in ("eq", "ne", "lt", "le", "gt", "ge")
        for sample in _binary(getattr(torch, predicate), attributes={"predicate": predicate}, exact=True)
    ],
    "where": [Sample(torch.where, ((3, 5), (3, 5), (5,)), kinds="bff", exact=True), Sample(torch.where, ((3, 1), (), (1, 5)), kinds="bff", exact=True)],
    "isnan": _unary(torch.isnan, exact=True), "isinf": _unary(torch.isinf, exact=True, imports=""),
    "isfinite": _unary(torch.isfinite, exact=True, imports=""),
    "logical_not": [Sample(torch.logical_not, kinds="b", exact=True)],
    "logical_and": [Sample(torch.logical_and, ((3, 5), (5,)), kinds="bb", exact=True)],
    "logical_or": [Sample(torch.logical_or, ((3, 5), (5,)), kinds="bb", exact=True)],
    "logical_xor": [Sample(torch.logical_xor, ((3, 5), (5,)), kinds="bb", exact=True)],
    "sum": [
        *_reduction(lambda x, axes: x.sum(axes, keepdim=True), slack=32.0),
        Sample(lambda x: x.double().sum(1, keepdim=True).to(x.dtype), attributes={"axes": (1,), "accumulate": "f64"}, imports=""),
    ],
    "prod": _reduction(_each_axis(lambda x, axis: x.prod(axis, keepdim=True)), slack=64.0),
    "max": _reduction(lambda x, axes: x.amax(axes, keepdim=True), exact=True),
    "min": _reduction(lambda x, axes: x.amin(axes, keepdim=True), exact=True),
    "mean": _reduction(lambda x, axes: x.mean(axes, keepdim=True), slack=32.0),
    "var": _reduction(lambda x, axes: x.var(axes, correction=0, keepdim=True), attributes={"correction": 0.0}, slack=64.0),
    "logsumexp": _reduction(lambda x, axes: x.logsumexp(axes, keepdim=True), slack=32.0),
    "argmax": _reduction(_flat_index(torch.argmax), exact=True),
    "argmin": _reduction(_flat_index(torch.argmin), exact=True),
    "any": _reduction(lambda x, axes: torch.any(x, axes, keepdim=True), kinds="b", exact=True),
    "all": _reduction(lambda x, axes: torch.all(x, axes, keepdim=True), kinds="b", exact=True),
    "cumsum": [Sample(lambda x: x.cumsum(1), attributes={"axis": 1}, slack=32.0)],
    "softmax": [Sample(lambda x: x.softmax(-1), attributes={"axes": (1,)}, slack=32.0), Sample(lambda x: x.softmax(0), attributes={"axes": (0,)}, slack=32.0)],
    "log_softmax": [Sample(lambda x: x.log_softmax(-1), attributes={"axes": (1,)}, slack=64.0)],
    "normalize": [Sample(lambda x: _normalize(x, (1,)), attributes={"axes": (1,), "eps": 1e-12}, slack=32.0, imports="")],
    "layer_norm": [
        Sample(_layer_norm, ((3, 8),), {"axes": (1,), "eps": 1e-5}, slack=64.0),
        Sample(_layer_norm, ((2, 3, 8), (8,), (8,)), {"axes": (2,), "eps": 1e-5}, slack=64.0),
    ],
    "rms_norm": [Sample(_rms_norm, ((3, 8), (8,)), {"axes": (1,), "eps": 1e-5}, slack=64.0)],
    "batch_norm": [
        Sample(_batch_norm, (_IMAGE, *(_STATISTIC,) * 4), {"eps": 1e-5}, domain=[(-4.0, 4.0), (-1.0, 1.0), (0.1, 2.0), (-2.0, 2.0), (-1.0, 1.0)], slack=64.0)
    ],
    "group_norm": [Sample(lambda x, w, b: F.group_norm(x, 2, w, b, 1e-5), (_IMAGE, (4,), (4,)), {"groups": 2, "eps": 1e-5}, slack=128.0, real=False)],
    "attention": [
        Sample(_attention, ((2, 3, 4, 8), (2, 3, 5, 8), (2, 3, 5, 8)), {"scale": 0.5, "causal": False}, slack=256.0),
        Sample(_attention, ((2, 3, 4, 8), (2, 3, 5, 8), (2, 3, 5, 8), (4, 5)), {"scale": 0.5, "causal": False}, slack=256.0),
        Sample(lambda q, k, v: _attention(q, k, v, causal=True), ((2, 3, 4, 8),) * 3, {"scale": 0.5, "causal": True}, slack=256.0),
    ],
    "kahan_sum": _reduction(lambda x, axes: x.double().sum(axes, keepdim=True).to(x.dtype), slack=4.0, imports=""),
    "pairwise_sum": _reduction(lambda x, axes: x.sum(axes, keepdim=True), slack=32.0, imports=""),
    "two_sum": [Sample(_two_sum, ((3, 5), (5,)), exact=True, imports="", real=False)],
    "affine": [Sample(lambda x, w, b: x @ w + b, ((3, 4), (4, 5), (5,)), slack=64.0, imports="")],
    "matmul": [
        Sample(torch.matmul, pair, slack=64.0)
        for pair in (
            ((3, 5), (5, 4)), ((2, 3, 5), (2, 5, 4)), ((5,), (5,)), ((3, 5), (5,)), ((5,), (5, 4)), ((5,), (2, 5, 4)),
            ((2, 3, 5), (5, 4)), ((2, 1, 3, 5), (4, 5, 2)),
        )
    ],
    "conv": [
        Sample(lambda x, w: F.conv2d(x, w, padding=1, groups=2), (_IMAGE, (6, 2, 3, 3)),
               {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 2}, slack=256.0, real=False),
        Sample(lambda x, w: F.conv1d(x, w, stride=2, dilation=2), ((2, 4, 12), (6, 4, 3)),
               {"stride": (2,), "padding": (0,), "dilation": (2,), "groups": 1}, slack=256.0, real=False),
        Sample(lambda x, w: F.conv3d(x, w), ((1, 2, 4, 4, 4), (3, 2, 3, 2, 2)),
               {"stride": (1, 1, 1), "padding": (0, 0, 0), "dilation": (1, 1, 1), "groups": 1}, slack=256.0, real=False),
    ],
    "max_pool": [Sample(lambda x: F.max_pool2d(x, 3, 2, 1), (_IMAGE,),
                        {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1), "dilation": (1, 1), "ceil": False}, exact=True, real=False)],
    "avg_pool": [
        Sample(lambda x: F.avg_pool2d(x, 3, 2, 1), (_IMAGE,),
               {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1), "ceil": False, "count_padding": True}, slack=32.0, real=False),
        Sample(lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), (_IMAGE,),
               {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1), "ceil": False, "count_padding": False}, slack=32.0, real=False),
    ],
    "embedding": [Sample(lambda table, i: F.embedding(i, table), ((4, 3), (2, 5)), kinds="fi", exact=True, real=False)],
    "gather": [Sample(lambda x, i: torch.gather(x, 1, i), ((4, 3), (4, 2)), {"axis": 1}, kinds="fi", exact=True, real=False)],
    "index_select": [Sample(lambda x, i: torch.index_select(x, 1, i), ((4, 3), (5,)), {"axis": 1}, kinds="fi", exact=True, real=False)],
    "transpose": [
        Sample(lambda x: x.permute(2, 0, 1), ((2, 3, 4),), {"perm": (2, 0, 1)}, exact=True),
        Sample(lambda x: x.transpose(-1, -2), ((2, 3),), {"perm": (1, 0)}, exact=True),
    ],
    "reshape": [Sample(lambda x: x.reshape(5, 3), attributes={"shape": (5, 3)}, exact=True, real=False),
                Sample(lambda x: x.unsqueeze(-1), attributes={"shape": (3, 5, 1)}, exact=True, real=False)],
    "broadcast": [Sample(lambda x: x.expand(2, 3, 5), ((3, 1),), {"shape": (2, 3, 5)}, exact=True, real=False)],
    "slice": [Sample(lambda x: x[:, 1:-1:2], attributes={"axis": 1, "start": 1, "stop": -1, "step": 2}, exact=True, real=False)],
    "concat": [Sample(lambda x, y: torch.cat([x, y], -1), ((3, 5), (3, 2)), {"axis": 1}, exact=True, real=False)],
    "pad": [Sample(lambda x: F.pad(x, (1, 2, 0, 1), value=1.5), attributes={"low": (0, 1), "high": (1, 2), "value": 1.5}, exact=True, real=False)],
    "reverse": [Sample(lambda x: x.flip(0, -1), attributes={"axes": (0, 1)}, exact=True, real=False)],
    "constant": [Sample(lambda: torch.full((2, 3), 0.25, dtype=torch.float64), (), {"value": 0.25, "element": "f64", "shape": (2, 3)}, exact=True, real=False)],
    "iota": [Sample(lambda: torch.arange(1, 9, 2), (), {"start": 1.0, "step": 2.0, "element": "si64", "shape": (4,)}, exact=True, real=False)],
}  # fmt: skip
"""`num.weight` and `num.opaque` have no meaning of their own; the importer's tests cover them."""

SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-40, -1e-40, 88.0, -104.0, 1e30, -1e30, 0.5, -0.5, 2.5])

ALL = [pytest.param(name, sample, id=f"{name}-{i}") for name, samples in SAMPLES.items() for i, sample in enumerate(samples)]
SOURCES = ("constant", "iota")
NUMPY = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
NOT_IN_TORCH = {(name, element) for name in ("log_ndtr", "erfcx") for element in ("f16", "bf16")}
"""Narrow formats that torch has no kernel for."""
