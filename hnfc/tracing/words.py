"""Reasons in words: operands, their values and their positions."""

from __future__ import annotations

import math
from typing import Any

import torch

from hnfc.tracing.memory import WIDE


def name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def first_index(where: torch.Tensor) -> tuple[int, ...]:
    found = torch.nonzero(where)
    return tuple(int(i) for i in found[0]) if len(found) else ()


def at(index: tuple[int, ...]) -> str:
    return f" at index [{', '.join(map(str, index))}]" if index else ""


def kinds_of(tensor: torch.Tensor) -> str:
    """The values of a tensor that are not finite: `NaN`, `inf and -inf` …"""
    kinds = [("NaN", torch.isnan(tensor)), ("inf", tensor == math.inf), ("-inf", tensor == -math.inf)]
    return " and ".join(word for word, where in kinds if bool(where.any()))


def why_lost(error: float, before: float, info: Any) -> str:
    digits = round(-math.log2(info.eps)) + 1
    bits = digits if error >= 1 else max(0, digits - 1 + round(math.log2(max(error, info.eps))))
    start = f"an error of {before:.1e} in its operands becomes {error:.1e}" if before else f"its result has an error of {error:.1e}"
    return f"{start}: {bits} of {digits} bits are lost"


def why_pole(step: Any, where: torch.Tensor) -> str:
    """The operand at which an operation is infinite."""
    for operand in _suspects(step):
        true = operand.should
        if bool(((operand.given == 0) & (true != 0)).any()):
            return f"an operand is 0 that should be {float(true[operand.given == 0].abs().max()):.3g}"
        if bool(((operand.given < 0) & (true >= 0)).any()):
            return f"an operand is {float(operand.given.min()):.3g} that should not be below 0"
    index = first_index(where)
    if step.place.backward:
        return _why_derivative(step, index)
    values = values_at(step.operands, where, index)
    along = _constant_row(step, where, index)
    if along:
        return along
    zero = next((i for i, value in enumerate(values) if value == 0), None)
    if zero is not None:
        what = "" if len(values) == 1 else f" ({zero + 1} of {len(values)})"
        return f"an operand{what} is 0{at(index)}, exactly: {step.name} has no finite value there"
    if values:
        return f"{step.name} has no finite value at its operand{'s' if len(values) > 1 else ''} {_listed(values)}{at(index)}"
    if any(bool((operand.given == 0).any()) for operand in step.operands):
        return "an operand is 0, and there is no finite value"
    why = "; no alignment exists, as where a target is longer than its input" if "ctc" in step.name else ""
    return f"there is no finite value in exact arithmetic either{at(index)}{why}"


def _suspects(step: Any) -> list[Any]:
    """The operands that may have made a pole: of a division by 0 the divisor alone."""
    last: list[Any] = list(step.operands[-1:])
    divides = step.name == "div" and not step.place.backward and len(step.operands) == 2
    return last if divides and bool((last[0].given == 0).any()) else list(step.operands)


def why_undefined(step: Any, where: torch.Tensor) -> str:
    """The operands at which an operation is NaN."""
    index = first_index(where)
    for operand in step.operands:
        true = operand.should
        wrong = (operand.given == 0) & (true != 0) & torch.isfinite(true)
        if bool(wrong.any()) and operand.given.shape == where.shape and bool(wrong[index] if index else wrong.any()):
            return f"an operand is 0 that should be {float(true[wrong].abs().max()):.3g}{at(index)}"
    if step.place.backward:
        more = untaken(step, index)
        return _why_derivative(step, index) + (f", and {more}" if more else "")
    phrase = "it has no value there in exact arithmetic either"
    shapes = " and ".join(str(list(operand.given.shape)) for operand in step.operands)
    if step.name.startswith("nll_loss"):
        return f"{phrase}: 0/0, since no target counts"
    if step.name == "mean" and step.operands and not step.operands[0].given.numel():
        return f"{phrase}: 0/0, since no element is left"
    if step.name.startswith(("var", "std")):
        return f"{phrase}{at(index)}: too few elements to reduce, with an operand of shape {shapes}"
    along = _constant_row(step, where, index)
    if along:
        return f"{phrase}: {along}"
    values = values_at(step.operands, where, index)
    if len(values) == 2:
        return f"{phrase}: {_expression(step.name, values)}{at(index)}"
    if step.name == "div" and len(values) == 1 and len(divisors := _whole_numbers(step, where, index)) == 1:
        return f"{phrase}: {_expression(step.name, [*values, *divisors])}{at(index)}"
    if values:
        return f"{phrase}: its operand{'s are' if len(values) > 1 else ' is'} {_listed(values)}{at(index)}"
    for operand in step.operands:
        if not bool(torch.isfinite(operand.given).all()):
            return f"{phrase}: an operand has {kinds_of(operand.given)}"
    zero = next((operand for operand in step.operands if operand.given.numel() and bool((operand.given == 0).all())), None)
    if zero is not None:
        return f"{phrase}: an operand is zero everywhere"
    return f"{phrase}{at(index)}, with operands of shape {shapes}"


def _whole_numbers(step: Any, where: torch.Tensor, index: tuple[int, ...]) -> list[float]:
    """The values of operands of whole numbers, such as counts, at an index of the result."""
    counts = [x for x in torch.utils._pytree.tree_leaves(step.call) if isinstance(x, torch.Tensor) and not x.is_floating_point()]
    found = []
    for count in counts:
        try:
            found.append(float(count.expand(where.shape)[index]))
        except (RuntimeError, IndexError):
            continue
    return found


def _why_derivative(step: Any, index: tuple[int, ...]) -> str:
    """The position at which a derivative is infinite, and the zero that it is multiplied by."""
    place = step.place
    saved = [o for o in step.outside if not o.state.backward]
    values = values_at(saved, None, index)
    held = f" where it took or gave {_listed(dict.fromkeys(values))}" if values else ""
    return f"the derivative of {place.operation} has no finite value{held}{at(index)}"


def untaken(step: Any, index: tuple[int, ...]) -> str:
    """Description of an incoming gradient that is 0, and of the branch that it comes from."""
    gradients = [o for o in step.outside if o.state.backward]
    incoming = values_at(gradients, None, index)
    if 0 not in incoming:
        return ""
    branch = next((o.state.branch for o in gradients if o.state.branch), "")
    phrase = "the gradient that comes in is 0: 0 · inf is NaN"
    return f"{phrase}; it comes from {branch}" if branch else phrase


def values_at(operands: list[Any], like: torch.Tensor | None, index: tuple[int, ...]) -> list[float]:
    """The values of operands at an index of the result, of those that have the shape for it."""
    found = []
    for operand in operands:
        tensor = operand.given
        if like is not None:
            try:
                tensor = tensor.expand(like.shape)
            except RuntimeError:
                continue
        if tensor.dim() == 0:
            found.append(float(tensor))
        elif tensor.dim() == len(index) and all(i < n for i, n in zip(index, tensor.shape, strict=True)):
            found.append(float(tensor[index]))
    return found


def _constant_row(step: Any, where: torch.Tensor, index: tuple[int, ...]) -> str:
    """The row of the first operand that is constant, for operations that look at a row as a whole."""
    if not step.operands or step.name in _ELEMENTWISE:
        return ""
    tensor = step.operands[0].given
    if tensor.dim() < 1 or not tensor.numel():
        return ""
    row = index[: tensor.dim() - 1] if len(index) >= tensor.dim() - 1 else index
    try:
        values = tensor[row].reshape(-1).to(WIDE)
    except IndexError:
        return ""
    if values.numel() < 1 or not bool(((values == values[0]) | (values.isnan() & values[0].isnan())).all()):
        return ""
    where_it_is = f"row [{', '.join(map(str, row))}] of its operand" if row else "its operand"
    count = "its only element is" if values.numel() == 1 else "all elements are"
    return f"{where_it_is}: {count} {float(values[0]):.4g}"


_ELEMENTWISE = frozenset({"div", "mul", "add", "sub", "rsub", "pow", "log", "sqrt", "rsqrt", "reciprocal", "exp", "acos", "asin", "atanh",
                          "acosh", "log1p", "log2", "log10", "where", "atan2", "xlogy", "fmod", "remainder"})  # fmt: skip
_SIGNS = {"div": "/", "sub": "-", "add": "+", "mul": "·", "pow": "**"}


def _expression(operation: str, values: list[float]) -> str:
    x, y = (f"{value:.4g}" for value in values)
    return f"{x}{_SIGNS[operation]}{y}" if operation in _SIGNS else f"its operands are {x} and {y}"


def _listed(values: Any) -> str:
    return " and ".join(f"{value:.4g}" for value in values)
