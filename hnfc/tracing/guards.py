"""Guards: a clamp, an eps or a bound of an operand, in front of the operation that has no finite value there, each with its code."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from hnfc.frontend.places import frames_below, innermost
from hnfc.frontend.torch_mlir import shortened
from hnfc.tracing.events import Event

_EPS = {torch.float16: (1e-4, 1e-3), torch.bfloat16: (1e-12, 1e-6, 1e-3)}
_ANY_EPS = (1e-12, 1e-8, 1e-6, 1e-4)
"""Bounds that are tried, the smallest first."""
MOST_STRENGTHS = len(_ANY_EPS)
_KINDS = {
    "exp": "exp", "expm1": "exp", "exp2": "exp", "sinh": "exp", "cosh": "exp",
    "log": "positive", "log2": "positive", "log10": "positive", "sqrt": "positive", "rsqrt": "positive",
    "div": "divisor", "reciprocal": "divisor", "pow": "base", "log1p": "above -1", "acosh": "above 1",
    "acos": "below 1", "asin": "below 1", "atanh": "below 1", "erfinv": "below 1",
    "softmax": "masked", "log_softmax": "masked", "logsumexp": "masked",
    "ctc_loss": "alignment", "_ctc_loss": "alignment",
    "mean": "empty", "sum": "left out", "var": "few", "std": "few", "var_mean": "few", "std_mean": "few", "sub": "difference",
    "slogdet": "diagonal", "logdet": "diagonal", "inv": "diagonal", "det": "diagonal", "inv_ex": "diagonal",
    "cross_entropy": "targets", "nll_loss": "targets", "cross_entropy_loss": "targets", "nll_loss_forward": "targets",
}  # fmt: skip
"""By operation the kind of its guard."""
_SPELLINGS = {
    "__truediv__": "div", "__rtruediv__": "reciprocal", "__rdiv__": "reciprocal",
    "true_divide": "div", "divide": "div", "__pow__": "pow", "arccos": "acos",
    "arcsin": "asin", "arctanh": "atanh", "arccosh": "acosh", "special_log1p": "log1p", "_softmax": "softmax",
    "_log_softmax": "log_softmax", "nll_loss_nd": "nll_loss",
    "linalg_slogdet": "slogdet", "_linalg_slogdet": "slogdet", "linalg_inv": "inv", "linalg_inv_ex": "inv_ex", "inverse": "inv",
    "linalg_det": "det", "_linalg_det": "det", "__sub__": "sub", "subtract": "sub",
    "special_expm1": "expm1", "special_erfinv": "erfinv", "__itruediv__": "div", "div_": "div",
}  # fmt: skip


@dataclass(frozen=True)
class OperandGuard:
    """A bound for an operand of the calls of an operation at a line. kind: see `_KINDS`."""

    kind: str
    source: str
    bound: float

    @property
    def code(self) -> str:
        """The guarded operand, as one would write it."""
        bound = f"{self.bound:g}"
        return {
            "exp": f"x.clamp(max={bound}) in place of x", "positive": f"x.clamp_min({bound}) in place of x",
            "divisor": f"torch.where(y.abs() < {bound}, {bound}, y) in place of the divisor y",
            "base": f"x.clamp_min({bound}) in place of the base x", "above -1": f"x.clamp_min(-1 + {bound}) in place of x",
            "above 1": f"x.clamp_min(1 + {bound}) in place of x", "below 1": f"x.clamp(-1 + {bound}, 1 - {bound}) in place of x",
            "masked": "x.clamp_min(torch.finfo(x.dtype).min) in place of x, so that a row that is masked as a whole has a value",
            "alignment": "zero_infinity=True, which leaves out targets that are longer than their inputs",
            "empty": "x.sum() / max(x.numel(), 1) in place of x.mean(), which has a value where no element is left",
            "left out": "x.masked_fill(torch.isneginf(x), 0) in place of x, so that what is left out adds nothing",
            "few": "correction=0 where a single element is left",
            "difference": "torch.where(x == y, 0, x - y) in place of x - y, so that equal infinities have a difference",
            "diagonal": f"x + {bound} * torch.eye(len(x)) in place of x",
            "targets": "reduction='sum', divided by the number of targets that count, at least 1",
        }[self.kind]  # fmt: skip

    def __str__(self) -> str:
        return f"at {self.source} {self.code}"


def guards_of(event: Event) -> list[OperandGuard]:
    """Guards for the operation of an event, the mildest first; none where the operation or its line is not known."""
    name = event.operation.partition(".")[0].removesuffix("_")
    kind = _KINDS.get(_SPELLINGS.get(name, name))
    if kind is None or not event.source or event.kind in ("input", "constant"):
        return []
    dtype = event.result.dtype
    if kind == "exp":
        most = math.floor(10 * math.log(torch.finfo(dtype).max)) / 10
        return [OperandGuard(kind, event.source, bound) for bound in (most - 0.1, most / 2, most / 4)]
    if kind in ("masked", "targets", "alignment", "empty", "left out", "few", "difference"):
        return [OperandGuard(kind, event.source, 0.0)]
    if kind == "diagonal":
        return [OperandGuard(kind, event.source, bound) for bound in (1e-6, 1e-3)]
    if kind in ("above -1", "above 1", "below 1"):
        eps = torch.finfo(dtype).eps
        return [OperandGuard(kind, event.source, float(f"{bound:.0e}")) for bound in (eps, 64 * eps)]
    return [OperandGuard(kind, event.source, bound) for bound in _EPS.get(dtype, _ANY_EPS)]


class Guarded(TorchFunctionMode):
    """Mode in which calls at the lines of guards take bounded operands."""

    def __init__(self, guards: Sequence[OperandGuard]) -> None:
        super().__init__()
        self._guards = guards
        self.count = 0
        """Calls that were guarded."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        name = _SPELLINGS.get(name, name)
        kind = _KINDS.get(name)
        if kind is None or not args:
            return function(*args, **kwargs)
        place = innermost(frames_below(sys._getframe(1), ()))
        line = f"{shortened(place[0])}:{place[1]}" if place is not None else ""
        guard = next((each for each in self._guards if each.kind == kind and each.source == line), None)
        if guard is None:
            return function(*args, **kwargs)
        self.count += 1
        return _GUARDED[kind](function, name, args, kwargs, guard.bound)


def _first(bounded: Callable[[torch.Tensor, float], torch.Tensor]) -> Callable[..., Any]:
    """A guard of the first operand."""

    def call(function: Any, name: str, args: Any, kwargs: Any, bound: float) -> Any:
        x, *rest = args
        return function(bounded(x, bound), *rest, **kwargs) if isinstance(x, torch.Tensor) else function(*args, **kwargs)

    return call


def _away_from_zero(x: Any, bound: float) -> Any:
    if not isinstance(x, torch.Tensor):
        return x
    if not x.is_floating_point():
        return x.clamp_min(1)
    return torch.where(x.abs() < bound, torch.full_like(x, bound), x)


def _divided(function: Any, name: str, args: Any, kwargs: Any, bound: float) -> Any:
    if name == "reciprocal":  # the divisor is the first
        return function(_away_from_zero(args[0], bound), *args[1:], **kwargs)
    if len(args) < 2:
        return function(*args, **kwargs)
    return function(args[0], _away_from_zero(args[1], bound), *args[2:], **kwargs)


def _counted(function: Any, name: str, args: Any, kwargs: Any, bound: float) -> Any:
    if kwargs.get("reduction", "mean") != "mean" or len(args) < 2 or args[1].is_floating_point():
        return function(*args, **kwargs)
    counted = (args[1] != kwargs.get("ignore_index", -100)).sum().clamp_min(1)
    return function(*args, **{**kwargs, "reduction": "sum"}) / counted


def _aligned(function: Any, name: str, args: Any, kwargs: Any, bound: float) -> Any:
    return function(*args[:6], **{**kwargs, "zero_infinity": True})


def _mean(function: Any, name: str, args: Any, kwargs: Any, bound: float) -> Any:
    x = args[0]
    if not isinstance(x, torch.Tensor) or x.numel() or len(args) > 1 or kwargs:
        return function(*args, **kwargs)
    return x.sum()


def _uncorrected(function: Any, name: str, args: Any, kwargs: Any, bound: float) -> Any:
    """The result; where all of it is NaN, the one without correction."""
    result = function(*args, **kwargs)
    first = result[0] if isinstance(result, tuple) else result
    if not bool(first.isnan().all()) or not bool(args[0].isfinite().all()):
        return result
    dims = kwargs.get("dim", args[1] if len(args) > 1 and not isinstance(args[1], bool) else None)
    return function(args[0], dim=dims, correction=0, keepdim=kwargs.get("keepdim", False))


def _difference(function: Any, name: str, args: Any, kwargs: Any, bound: float) -> Any:
    x, y = args[:2]
    result = function(*args, **kwargs)
    same = torch.as_tensor(x == y) & torch.as_tensor(torch.isinf(torch.as_tensor(x)))
    return torch.where(same, torch.zeros_like(result), result)


_GUARDED: dict[str, Callable[..., Any]] = {
    "exp": _first(lambda x, bound: x.clamp(max=bound)),
    "positive": _first(lambda x, bound: x.clamp_min(bound)),
    "base": _first(lambda x, bound: x.clamp_min(bound)),
    "above -1": _first(lambda x, bound: x.clamp_min(bound - 1)),
    "above 1": _first(lambda x, bound: x.clamp_min(1 + bound)),
    "below 1": _first(lambda x, bound: x.clamp(bound - 1, 1 - bound)),
    "masked": _first(lambda x, _: x.clamp_min(torch.finfo(x.dtype).min)),
    "diagonal": _first(lambda x, bound: x + bound * torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)),
    "empty": _mean, "left out": _first(lambda x, _: x.masked_fill(torch.isneginf(x), 0)), "few": _uncorrected, "difference": _difference,
    "divisor": _divided, "targets": _counted, "alignment": _aligned,
}  # fmt: skip


def widened_eps(model: torch.nn.Module, eps: float) -> Iterator[tuple[torch.nn.Module, str]]:
    """Modules with an eps that is smaller, and the name that it has there."""
    for part in model.modules():
        for name in ("eps", "epsilon", "variance_epsilon"):
            value = part.__dict__.get(name)
            if isinstance(value, float) and value < eps:
                yield part, name
