"""Forms in other operations of `num`, for operations that torch lacks, or that torch-mlir cannot lower or lowers with a loss of digits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from torch_mlir import ir
from xdsl.ir import Operation

from hnfc.backend.term import EmittedSteps, EmittedTerm
from hnfc.backend.writers import HALVES, WRITERS, by_name, in_dialect
from hnfc.core.errors import ModelError
from hnfc.core.torch_emitter import Emitter
from hnfc.dialects.num.base import NumOp, as_tensor, is_plain_function
from hnfc.dialects.types import DYNAMIC, FORMATS

Expansion: TypeAlias = Callable[[Any], "EmittedTerm | tuple[EmittedTerm, ...] | None"]

EXPANSIONS: dict[str, Expansion] = {}


def expands(*names: str) -> Callable[[Expansion], Expansion]:
    """Registers a form of the operations of these names; where it gives None, torch's own operation is written."""

    def register(expansion: Expansion) -> Expansion:
        for name in names:
            EXPANSIONS[f"num.{name}"] = expansion
        return expansion

    return register


def write(e: Emitter, operation: Operation) -> Sequence[ir.Value]:
    """The torch values of the operation's results. Raises ModelError where there is no way to write it."""
    expansion = EXPANSIONS.get(operation.name)
    made: EmittedTerm | tuple[EmittedTerm, ...] | None = widened(operation)
    if made is None and expansion is not None:
        made = expansion(operation)
    writer = WRITERS.get(operation.name)
    if made is None and writer is None and isinstance(operation, NumOp):
        if operation.FACTS.steps is not None and not in_dialect(e, operation):
            made = in_steps(operation)
        elif operation.FACTS.torch and is_plain_function(type(operation)):
            writer = by_name
    if made is not None:
        return [e.resolve(term.value) for term in (made if isinstance(made, tuple) else (made,))]
    if writer is None:
        raise ModelError(f"no torch operation is known for {operation.name}: its class gives no steps, and {__name__} no form")
    written = writer(e, operation)
    return written if isinstance(written, list) else [written]


_NARROW_IN_LOWERED_CODE = {
    f"num.{name}" for name in (
        "sigmoid", "silu", "softmax", "log_softmax", "logsumexp", "cumsum", "prod", "pairwise_sum", "kahan_sum", "layer_norm", "group_norm",
    )
}  # fmt: skip
"""Operations that torch computes in float32 for narrower elements, and torch-mlir's lowering in the elements' own format."""


def widened(operation: Any) -> EmittedTerm | None:
    """The same operation in float32, rounded afterwards, for narrower elements; None where lowered code computes as torch does."""
    if operation.name not in _NARROW_IN_LOWERED_CODE or (x := EmittedTerm(operation.operands[0])).element not in HALVES:
        return None
    others = [EmittedTerm(operand).cast("f32") for operand in operation.operands[1:]]
    return x.cast("f32").of(operation.name.removeprefix("num."), *others, **operation.attributes_as_python()).cast(x.element)


def in_f32(form: Callable[..., EmittedTerm]) -> Callable[[Any], EmittedTerm]:
    """`form` of the operands in float32 where they are narrower, as torch computes; the result in their type."""

    def expansion(operation: Any) -> EmittedTerm:
        operands = [EmittedTerm(operand) for operand in operation.operands]
        element = operands[0].element
        if element not in HALVES:
            return form(*operands)
        return form(*(operand.cast("f32") for operand in operands)).cast(element)

    return expansion


def in_steps(operation: Any) -> EmittedTerm:
    """The algorithm of an operation whose class gives its steps."""
    return in_f32(partial(operation.FACTS.steps, EmittedSteps(), **operation.attributes_as_python()))(operation)


def _log_sigmoid(x: EmittedTerm) -> EmittedTerm:
    """min(x, 0) - log1p(e^-|x|); torch-mlir lowers torch's own to log(sigmoid(x)), which loses all digits for large x."""
    return x.of("minimum", 0.0) - (-x.of("abs")).of("exp").of("log1p")


def _infinite(x: EmittedTerm) -> EmittedTerm:
    """Return whether x ≥ 0 is infinite. An infinity is no real number, and analyses have nothing to say of what is compared with one."""
    return x.compare("gt", FORMATS[x.element].largest)


def _hypot(x: EmittedTerm, y: EmittedTerm) -> EmittedTerm:
    """a·sqrt(1 + (b/a)²) with a the larger of |x| and |y|; 0 and inf have no quotient, and torch-mlir's maximum loses NaN."""
    a, b = x.of("abs").of("maximum", y.of("abs")), x.of("abs").of("minimum", y.of("abs"))
    ratio = b / a.compare("eq", 0.0).where(1.0, a)
    finite = a * (ratio * ratio + 1.0).of("sqrt")
    unknown = x.of("isnan").of("logical_or", y.of("isnan"))
    return _infinite(a).where(a, unknown.where(x + y, finite))


def _logaddexp(x: EmittedTerm, y: EmittedTerm) -> EmittedTerm:
    """max(x, y) + log1p(e^-|x - y|), with 0 for the difference of equal infinities."""
    gap = x.compare("eq", y).where(0.0, (x - y).of("abs"))
    return x.of("maximum", y) + (-gap).of("exp").of("log1p")


def _xlogy(x: EmittedTerm, y: EmittedTerm) -> EmittedTerm:
    """x·log(y) with 1 for y where x is 0, unless y is NaN."""
    known = x.compare("eq", 0.0).of("logical_and", y.of("isnan").of("logical_not"))
    return x * known.where(1.0, y).of("log")


def _cbrt(x: EmittedTerm) -> EmittedTerm:
    """sign(x)·y with y = |x|^(1/3) and one step of Newton's, since no format holds 1/3; 0 and inf have no quotient."""
    size = x.of("abs")
    y = size.of("pow", 1 / 3)
    nearer = y - (y - size / (y * y)) / 3.0
    root = _infinite(size).where(size, nearer)
    return size.compare("eq", 0.0).where(x, x.compare("lt", 0.0).where(-root, root))


_NARROW: dict[str, Callable[..., EmittedTerm]] = {
    "log_sigmoid": _log_sigmoid, "hypot": _hypot, "logaddexp": _logaddexp, "xlogy": _xlogy, "cbrt": _cbrt,
}  # fmt: skip
for _name, _form in _NARROW.items():
    EXPANSIONS[f"num.{_name}"] = in_f32(_form)


@expands("gelu")
def gelu(operation: Any) -> EmittedTerm | None:
    """x·sigmoid(2·√(2/π)·(x + 0.044715·x³)) for the tanh form, which torch-mlir lowers with an error of 5e-5; torch's own else."""
    if operation.approximate.data != "tanh":
        return None
    return in_f32(lambda x: x * ((x + 0.044715 * x * x * x) * (2 * math.sqrt(2 / math.pi))).of("sigmoid"))(operation)


@expands("softplus")
def softplus(operation: Any) -> EmittedTerm | None:
    """max(x, 0) + log1p(e^-|x|) in float64, where torch's own drops the logarithm above 20."""
    x = EmittedTerm(operation.x)
    return x.of("maximum", 0.0) + (-x.of("abs")).of("exp").of("log1p") if x.element == "f64" else None


@expands("isfinite")
def isfinite(operation: Any) -> EmittedTerm:
    """|x| < inf: false for NaN; every integer is finite."""
    x = EmittedTerm(operation.x)
    return x.of("abs").compare("lt", math.inf) if x.element in FORMATS else x.compare("eq", x)


@expands("fma")
def fma(operation: Any) -> EmittedTerm:
    """x·y + z in a type where the product is exact, then rounded; in float64 there is none, and it is rounded twice."""
    x, y, z = (EmittedTerm(operand) for operand in operation.operands)
    wide = {"f32": "f64", "f16": "f32", "bf16": "f32"}.get(x.element, x.element)
    return (x.cast(wide) * y.cast(wide) + z.cast(wide)).cast(x.element)


@expands("round_to")
def round_to(operation: Any) -> EmittedTerm:
    """A cast there and back. e4m3 saturates in torch and overflows to NaN elsewhere, so what is too large is cut off first."""
    x, target = EmittedTerm(operation.x), operation.format.data
    if target != "f8E4M3FN":
        return x.cast(target).cast(x.element)
    largest = FORMATS[target].largest
    cut = x.of("minimum", largest).of("maximum", -largest)
    return x.of("isnan").where(x, cut.cast(target).cast(x.element))


def _two_sum(x: EmittedTerm, y: EmittedTerm) -> tuple[EmittedTerm, EmittedTerm]:
    total = x + y
    back = total - x
    return total, (x - (total - back)) + (y - back)


@expands("two_sum")
def two_sum(operation: Any) -> tuple[EmittedTerm, ...]:
    """Knuth's six additions."""
    return _two_sum(EmittedTerm(operation.x), EmittedTerm(operation.y))


def _halves(x: EmittedTerm, axis: int) -> tuple[EmittedTerm, EmittedTerm, EmittedTerm | None]:
    """The first and the second half along `axis`, and the last element where the size is odd."""
    size = x.type.get_shape()[axis]
    half = size // 2
    parts = [x.of("slice", axis=axis, start=i * half, stop=(i + 1) * half, step=1) for i in (0, 1)]
    rest = x.of("slice", axis=axis, start=size - 1, stop=size, step=1) if size % 2 else None
    return parts[0], parts[1], rest


def _joined(x: EmittedTerm, rest: EmittedTerm | None, axis: int) -> EmittedTerm:
    return x if rest is None else x.of("concat", rest, axis=axis)


def _static(operation: Any) -> bool:
    sizes = as_tensor(operation.x.type).get_shape()
    return all(sizes[axis] not in (DYNAMIC, 0) for axis in operation.axes.data)


@expands("pairwise_sum")
def pairwise_sum(operation: Any) -> EmittedTerm:
    """Halves added until one element is left; a plain sum where the size is unknown."""
    x = EmittedTerm(operation.x)
    if not _static(operation):
        return x.of("sum", axes=operation.axes.data)
    for axis in operation.axes.data:
        while x.type.get_shape()[axis] > 1:
            first, second, rest = _halves(x, axis)
            x = _joined(first + second, rest, axis)
    return x


@expands("kahan_sum")
def kahan_sum(operation: Any) -> EmittedTerm:
    """Pairwise, with the rounding error of every addition summed beside it; accumulated wider where the size is unknown."""
    x = EmittedTerm(operation.x)
    if not _static(operation):
        wide = {"f16": "f32", "bf16": "f32", "f32": "f64"}.get(x.element)
        return x.of("sum", axes=operation.axes.data, **({} if wide is None else {"accumulate": wide}))
    lost = x * 0.0
    for axis in operation.axes.data:
        while x.type.get_shape()[axis] > 1:
            first, second, rest = _halves(x, axis)
            total, error = _two_sum(first, second)
            one, other, remainder = _halves(lost, axis)
            x, lost = _joined(total, rest, axis), _joined(one + other + error, remainder, axis)
    return x + lost


@expands("logsumexp")
def logsumexp(operation: Any) -> EmittedTerm:
    """max + log Σ e^(x - max), with 0 for a max that is not finite."""
    x, axes = EmittedTerm(operation.x), operation.axes.data
    top = x.of("max", axes=axes)
    shift = _infinite(top.of("abs")).where(0.0, top)
    return (x - shift).of("exp").of("sum", axes=axes).of("log") + shift


@expands("softmax", "log_softmax")
def along_several_axes(operation: Any) -> EmittedTerm | None:
    """torch knows one axis."""
    return None if len(operation.axes.data) == 1 else in_steps(operation)


def _affine(y: EmittedTerm, parameters: Sequence[Any]) -> EmittedTerm:
    for index, parameter in enumerate(parameters):
        term = EmittedTerm(parameter).cast(y.element)
        y = y + term if index else y * term
    return y


@expands("rms_norm")
def rms_norm(operation: Any) -> EmittedTerm:
    """x·(1/√(mean x² + eps))·weight, in float32 where x is narrower."""
    x = EmittedTerm(operation.x)
    wide = x.cast("f32") if x.element in HALVES else x
    scale = (wide.of("square").of("mean", axes=operation.axes.data) + operation.eps.value.data).of("rsqrt")
    return _affine(wide * scale, operation.parameters).cast(x.element)


@expands("layer_norm")
def layer_norm(operation: Any) -> EmittedTerm | None:
    """torch's own wants the last axes, of known size, and parameters of just their shape; else the formula."""
    x, axes = EmittedTerm(operation.x), operation.axes.data
    sizes = as_tensor(operation.x.type).get_shape()
    trailing = tuple(sizes[len(sizes) - len(axes) :])
    fits = all(tuple(as_tensor(p.type).get_shape()) == trailing for p in operation.parameters)
    if axes == tuple(range(len(sizes) - len(axes), len(sizes))) and DYNAMIC not in trailing and fits:
        return None
    wide = x.cast("f32") if x.element in HALVES else x
    centered = wide - wide.of("mean", axes=axes)
    scale = (centered.of("square").of("mean", axes=axes) + operation.eps.value.data).of("rsqrt")
    return _affine(centered * scale, operation.parameters).cast(x.element)


@expands("matmul")
def matmul(operation: Any) -> EmittedTerm | None:
    """torch-mlir does not lower a vector times a batch of matrices: the vector becomes a matrix of one row."""
    a, b = EmittedTerm(operation.a), EmittedTerm(operation.b)
    if len(a.type.get_shape()) != 1 or len(b.type.get_shape()) < 3:
        return None
    row = a.of("reshape", shape=(1, *a.type.get_shape()))
    return row.of("matmul", b).of("reshape", shape=as_tensor(operation.result.type).get_shape())


@expands("attention")
def attention(operation: Any) -> EmittedTerm | None:
    """A mask of fewer axes than the scores gets axes of size 1 in front, which torch-mlir does not do by itself."""
    if not operation.mask:
        return None
    mask, rank = EmittedTerm(operation.mask[0]), len(as_tensor(operation.q.type).get_shape())
    sizes = mask.type.get_shape()
    if len(sizes) >= rank:
        return None
    full = mask.of("reshape", shape=((1,) * (rank - len(sizes)) + tuple(sizes)))
    q, k, v = (EmittedTerm(part) for part in (operation.q, operation.k, operation.v))
    scale, causal = operation.scale.value.data, bool(operation.causal.value.data)
    return q.of("attention", k, v, full, scale=scale, causal=causal)
