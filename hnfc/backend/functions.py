"""Functions of torch for `num` operations that a rule made: torch's own values, with derivatives that are accurate where torch's are not.

torch differentiates expm1, sigmoid and tanh by their results, which loses what is left of a derivative near an asymptote, and has no
derivative at all for forms that are composed of others. Here a derivative is `FACTS.gradient` of the operation's class. Each
function is called by name from the graphs that `raise_function` makes, so that they pickle, compile and transform as torch's do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from hnfc.backend.autograd import Tensor, apply, leaf
from hnfc.dialects.num import OPERATIONS

_HALVES = (torch.float16, torch.bfloat16)


def _size(x: Tensor) -> Tensor:
    """|x| with slope -1 at 0, as 0 belongs to the branch of negative numbers: with slope 0, second derivatives are wrong there."""
    return torch.where(x > 0, x, -x) + 0.0


def _sigmoid(x: Tensor) -> Tensor:
    """1/(1 + e^-x) by e^-|x|; torch's own is 0 where e^-x overflows, though subnormal numbers are left."""
    small = torch.exp(-_size(x))
    return torch.where(x > 0, torch.ones_like(small), small) / (1 + small)


class TorchMath:
    """The functions of `facts.Elementary` on tensors."""

    exp = staticmethod(torch.exp)
    sqrt = staticmethod(torch.sqrt)
    sigmoid = staticmethod(_sigmoid)
    erfcx = staticmethod(torch.special.erfcx)
    hypot = staticmethod(torch.hypot)
    abs = staticmethod(_size)
    where = staticmethod(torch.where)


def _times(cotangent: Tensor, slope: Tensor, ending: bool) -> Tensor:
    """cotangent·slope. ending: it is 0 where the cotangent is 0, of infinite slopes too, as where nothing hangs on the value; elsewhere a
    cotangent of 0 may have underflowed, and the product is NaN."""
    if not ending:
        return cotangent * slope
    unused = (cotangent == 0) & ~torch.isfinite(slope)
    return cotangent * torch.where(unused, torch.zeros_like(slope), slope)


class _Elementwise(torch.autograd.Function):
    """A function of one or two tensors of one type, differentiated by `FACTS.gradient` of the operation of that name."""

    generate_vmap_rule = True

    @staticmethod
    def forward(name: str, ending: bool, *operands: Tensor) -> Tensor:
        return _VALUES[name](*operands)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.name, ctx.ending = inputs[:2]
        ctx.save_for_backward(*inputs[2:])
        ctx.save_for_forward(*inputs[2:])

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Any:
        operands, slopes = ctx.saved_tensors, _slopes(ctx.name, ctx.saved_tensors)
        wide = cotangent.to(slopes[0].dtype)
        return None, None, *(_times(wide, s, ctx.ending).sum_to_size(x.shape).to(x.dtype) for x, s in zip(operands, slopes, strict=True))


class _ElementwiseForward(_Elementwise):
    """The same with a derivative in forward mode, which Dynamo does not trace."""

    generate_vmap_rule = True

    @staticmethod
    def jvp(ctx: Any, _: Any, __: Any, *tangents: Any) -> Tensor:
        operands, slopes = ctx.saved_tensors, _slopes(ctx.name, ctx.saved_tensors)
        terms = [_times(t.to(s.dtype), s, ctx.ending) for t, s in zip(tangents, slopes, strict=True) if t is not None]
        return sum(terms[1:], terms[0]).to(operands[0].dtype)


def _slopes(name: str, operands: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The partial derivatives, in float32 where the operands are narrower."""
    gradient = OPERATIONS[name].FACTS.gradient
    assert gradient is not None
    found: tuple[Tensor, ...] = gradient(TorchMath, *(x.float() if x.dtype in _HALVES else x for x in operands))
    return found


def _widened(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function in float32 where the operands are narrower."""

    def wide(*operands: Tensor) -> Tensor:
        if operands[0].dtype not in _HALVES:
            return function(*operands)
        return function(*(x.float() for x in operands)).to(operands[0].dtype)

    return wide


def _softplus(x: Tensor) -> Tensor:
    """torch's own drops the logarithm above 20, which float64 holds."""
    return torch.logaddexp(x, torch.zeros_like(x)) if x.dtype == torch.float64 else torch.nn.functional.softplus(x)


def _cbrt(x: Tensor) -> Tensor:
    """sign(x)·y with y = |x|^(1/3) and one step of Newton's, since no format holds 1/3; 0 and inf have no quotient."""
    size = x.abs()
    y = size.pow(1 / 3)
    nearer = y - (y - size / (y * y)) / 3
    return torch.where(torch.isfinite(nearer), torch.copysign(nearer, x), x)


_VALUES: dict[str, Callable[..., Tensor]] = {
    "expm1": torch.expm1,
    "sigmoid": _widened(_sigmoid),
    "tanh": torch.tanh,
    "log_sigmoid": torch.nn.functional.logsigmoid,
    "softplus": _widened(_softplus),
    "asinh": torch.asinh,
    "acosh": torch.acosh,
    "atanh": torch.atanh,
    "cbrt": _widened(_cbrt),
    "erfc": _widened(torch.special.erfc),
    "erfcx": _widened(torch.special.erfcx),
    "log_ndtr": _widened(torch.special.log_ndtr),
    "hypot": _widened(torch.hypot),
    "logaddexp": _widened(torch.logaddexp),
    "silu": torch.nn.functional.silu,
    "mish": torch.nn.functional.mish,
    "exp": torch.exp,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "log": torch.log,
    "log1p": torch.log1p,
    "reciprocal": torch.reciprocal,
    "div": torch.div,
}


def _function(name: str, positive_zero: bool = False, ending: str = "") -> Callable[..., Tensor]:
    """The differentiable function of the operation `name`, of tensors and numbers.

    positive_zero: 0 is +0, as of the sum or difference that a rule replaced by it. ending: name of the function if a cotangent of 0 ends
    there (see `_times`).
    """

    def function(*operands: Any) -> Tensor:
        kind = next(operand for operand in operands if isinstance(operand, Tensor))
        if not kind.is_floating_point():
            return _VALUES[name](*operands)
        given = [x if isinstance(x, Tensor) else torch.full((), x, dtype=kind.dtype, device=kind.device) for x in operands]
        found = apply(_Elementwise, _ElementwiseForward, name, bool(ending), *given)
        return found + 0.0 if positive_zero else found

    function.__name__ = function.__qualname__ = ending or name
    return leaf(function)


expm1 = _function("expm1", positive_zero=True)
log1p = _function("log1p", positive_zero=True)
tanh = _function("tanh", positive_zero=True)
asinh = _function("asinh", positive_zero=True)
atanh = _function("atanh", positive_zero=True)
acosh = _function("acosh")
sigmoid = _function("sigmoid")
log_sigmoid = _function("log_sigmoid")
softplus = _function("softplus")
cbrt = _function("cbrt")
erfc = _function("erfc")
erfcx = _function("erfcx")
log_ndtr = _function("log_ndtr")
hypot = _function("hypot")
logaddexp = _function("logaddexp")
silu = _function("silu")
mish = _function("mish")
ending_exp = _function("exp", ending="ending_exp")
ending_log = _function("log", ending="ending_log")
ending_sqrt = _function("sqrt", ending="ending_sqrt")
ending_rsqrt = _function("rsqrt", ending="ending_rsqrt")
ending_reciprocal = _function("reciprocal", ending="ending_reciprocal")
ending_div = _function("div", ending="ending_div")
ending_expm1 = _function("expm1", positive_zero=True, ending="ending_expm1")
ending_log1p = _function("log1p", positive_zero=True, ending="ending_log1p")
ending_atanh = _function("atanh", positive_zero=True, ending="ending_atanh")
ending_acosh = _function("acosh", ending="ending_acosh")
ending_asinh = _function("asinh", positive_zero=True, ending="ending_asinh")
ending_cbrt = _function("cbrt", ending="ending_cbrt")


def _same(x: Tensor) -> Tensor:
    """x as another tensor: a view, except in forward mode, where the tangent of a view has to be one too."""
    return x.clone() if forward_ad._current_level >= 0 else x.view_as(x)


class _Selected(torch.autograd.Function):
    """x, whose gradient counts only where it is selected: elsewhere it is 0, whatever came of infinite derivatives."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, selected: Tensor) -> Tensor:
        return _same(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1])
        ctx.save_for_forward(inputs[1])

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Any:
        return torch.where(ctx.saved_tensors[0], cotangent, torch.zeros_like(cotangent)), None


class _SelectedForward(_Selected):
    """The same with a derivative in forward mode, which Dynamo does not trace."""

    generate_vmap_rule = True

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: Any) -> Tensor:
        return torch.where(ctx.saved_tensors[0], tangent, torch.zeros_like(tangent))


@leaf
def selected(x: Tensor, condition: Tensor) -> Tensor:
    """x in the shape that it has together with the condition; gradients pass where the condition holds."""
    if not x.is_floating_point():
        return x
    whole, chosen = torch.broadcast_tensors(x, condition.bool())  # type: ignore[no-untyped-call]
    return apply(_Selected, _SelectedForward, whole, chosen)


@leaf
def not_selected(x: Tensor, condition: Tensor) -> Tensor:
    """The same for where the condition does not hold."""
    return selected(x, ~condition.bool())


class _Root(torch.autograd.Function):
    """√s of a sum of squares, whose gradient at 0 is 0: a subgradient of the norm, as torch.linalg.vector_norm has it."""

    generate_vmap_rule = True

    @staticmethod
    def forward(s: Tensor) -> Tensor:
        return torch.sqrt(s)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Any:
        (root,) = ctx.saved_tensors
        return _through_root(cotangent, root)


def _through_root(change: Tensor, root: Tensor) -> Tensor:
    """change/(2·root); 0 where the root is 0, and where nothing hangs on a root that is no number."""
    nothing = (root == 0) | ((change == 0) & torch.isnan(root))
    return torch.where(nothing, torch.zeros_like(root), change / (2 * torch.where(nothing, torch.ones_like(root), root)))


class _RootForward(_Root):
    """The same with a derivative in forward mode, which Dynamo does not trace."""

    generate_vmap_rule = True

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:
        (root,) = ctx.saved_tensors
        return _through_root(tangent, root)


@leaf
def root_of_squares(s: Tensor) -> Tensor:
    """√s, for s a sum, mean or variance of squares, or a quotient of one."""
    return apply(_Root, _RootForward, s)


class _Kept(torch.autograd.Function):
    """A result, and inputs that cancelled in it: their gradient is 0."""

    generate_vmap_rule = True

    @staticmethod
    def forward(result: Tensor, *cancelled: Tensor) -> Tensor:
        return _same(result)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[1:])
        ctx.save_for_forward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Any:
        return cotangent, *(torch.zeros_like(x) for x in ctx.saved_tensors)


class _KeptForward(_Kept):
    """The same with a derivative in forward mode, which Dynamo does not trace."""

    generate_vmap_rule = True

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: Any) -> Tensor:
        return tangent if tangent is not None else torch.zeros_like(ctx.saved_tensors[0])


@leaf
def with_cancelled(result: Tensor, *cancelled: Tensor) -> Tensor:
    """The result, in which `cancelled` occurred before a rule took them out."""
    if not result.is_floating_point():
        return result
    return apply(_Kept, _KeptForward, result, *cancelled)


@leaf
def copied(x: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """The source in the shape, type and layout of x, as after `x.copy_(source)`; torch's functional copy has no derivative."""
    return x.clone().copy_(source, non_blocking)


@leaf
def scattered(x: Tensor, source: Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None = None) -> Tensor:
    """x with other numbers at strided locations of its memory; torch's own gives gradients to the wrong elements."""
    result = x.clone()
    result.as_strided(size, stride, offset).copy_(source)
    return result
