"""A graph, run one operation after another beside float64.

Every operation runs three times: as the model runs it, in float64 on the true values of its operands, and in float64 on the operands
that the model has. The first two differ by all errors so far, the first and the last by the error of this operation alone.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import fx

from hnfc.frontend.pytorch import module_path, source_of
from hnfc.frontend.torch_mlir import shortened
from hnfc.tracing.events import Event, Span

_WIDE = torch.float64
Pair: TypeAlias = tuple[torch.Tensor, torch.Tensor]
_GROWING = frozenset({"exp", "exp2", "expm1", "sinh", "cosh", "pow", "mul", "square", "prod", "cumprod", "matmul", "mm", "bmm", "linear"})
"""Functions without a pole: an infinite result for finite operands is an overflow, of float64 too if it has none."""
_GETS_WORSE = 2.0**6
"""An operation that makes errors this many times larger, and larger than the square root of the unit roundoff, cancels."""


@dataclass
class _Value:
    """What a node is to the model, what it should be, and what went wrong in it so far."""

    given: Any
    true: Any
    """What it should be, in float64; the same as `given` where that is exact, so that weights are there once."""
    error: float = 0.0
    faulty: bool = False
    """Whether it has elements that are not finite and should be."""
    event: Event | None = None


class Run(fx.Interpreter):
    """A graph run beside float64. Afterwards it has the events, the results, and the largest error of these."""

    def __init__(self, graph: fx.GraphModule) -> None:
        super().__init__(graph)
        self.events: list[Event] = []
        self.absorbed: list[Event] = []
        self.largest: list[Any] = []
        """The largest growth of an error that was too small to be an event, and the event that it would be."""
        self.results: list[Pair] = []
        """The floating-point results, as the model has them and as they should be."""
        self.error, self.epsilon = 0.0, 0.0
        self.count = 0
        self._node: fx.Node
        self._modules = {n.meta["seq_nr"]: module_path(n) for n in graph.graph.nodes if "seq_nr" in n.meta and module_path(n)}

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> _Value:
        value = super().placeholder(target, args, kwargs)
        return _Value(value, value)

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> _Value:
        value = super().get_attr(target, args, kwargs)
        return _Value(value, value)

    def output(self, target: Any, args: Any, kwargs: Any) -> None:
        for value in _leaves(args):
            if isinstance(value, _Value) and isinstance(value.given, torch.Tensor) and value.given.is_floating_point():
                self.results.append((value.given, _shaped(value.true, value.given)))
                self.error = max(self.error, result_error(*self.results[-1]))
                self.epsilon = max(self.epsilon, torch.finfo(value.given.dtype).eps)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> _Value:
        operands = [value for value in _leaves((args, kwargs)) if isinstance(value, _Value)]
        given = target(*_map(args, lambda v: v.given), **_map(kwargs, lambda v: v.given))
        if getattr(target, "tags", None) and torch.Tag.nondeterministic_seeded in target.tags:
            return _Value(given, given)
        true = _in_float64(target, _map((args, kwargs), lambda v: _widened(v.true)), given)
        value = _Value(given, true)
        inherited = next((operand.event for operand in operands if operand.event is not None), None)
        value.event = inherited
        if target is not operator.getitem and isinstance(given, torch.Tensor) and given.is_floating_point() and given.numel():
            self.count += 1
            exact = all(operand.true is operand.given for operand in operands)
            alone = true if exact else _in_float64(target, _map((args, kwargs), lambda v: _widened(v.given)), given)
            self._judge(target, operands, value, alone, inherited)
        else:
            value.error = max((operand.error for operand in operands), default=0.0)
            value.faulty = any(operand.faulty for operand in operands)
        return value

    def _judge(self, target: Any, operands: list[_Value], value: _Value, alone: Any, inherited: Event | None) -> None:
        """Notes what this operation makes worse."""
        info = torch.finfo(value.given.dtype)
        given, true, alone = value.given.to(_WIDE), _shaped(value.true, value.given), _shaped(alone, value.given)
        floats = [operand for operand in operands if isinstance(operand.given, torch.Tensor) and operand.given.is_floating_point()]
        inherited_fault = any(operand.faulty for operand in floats)
        note = partial(self._note, target=target, floats=floats, value=value, cause=inherited)
        finite = bool(torch.isfinite(given).all())
        wrong = None if finite else ~torch.isfinite(given) & torch.isfinite(true)
        value.faulty = inherited_fault or (wrong is not None and bool(wrong.any()))
        errors = _errors(given, true, info)
        value.error = float(errors.max()) if errors.numel() else 0.0
        before = max((operand.error for operand in floats), default=0.0)
        if wrong is not None:
            value.event = self._not_finite(note, target, floats, value, alone, wrong, inherited_fault) or inherited
            if value.event is not inherited:
                return
        lost = (given == 0) & (alone != 0) & torch.isfinite(alone)
        if value.error > max(info.eps**0.5, _GETS_WORSE * max(before, info.eps)) and not value.faulty:
            value.event = note("cancellation", errors > info.eps**0.5, _why_lost(value, before, info))
        elif lost.any():
            least = float(alone[lost].abs().max())
            value.event = note("underflow", lost, f"results of up to {least:.3g} become 0: {_name(value.given.dtype)} has nothing below "
                                                  f"{info.smallest_normal * info.eps:.3g}")  # fmt: skip
        else:
            self._remember(target, floats, value, alone, before, info)

    def _not_finite(
        self, note: Any, target: Any, floats: list[_Value], value: _Value, alone: torch.Tensor, wrong: torch.Tensor, inherited: bool
    ) -> Event | None:
        """What made elements infinite or NaN whose operands were neither."""
        given, info = value.given, torch.finfo(value.given.dtype)
        infinite = torch.isinf(given) & ~_where_any(floats, lambda x: ~torch.isfinite(x), given)
        grows = _base(target) in _GROWING and not (_base(target) == "pow" and any(bool((x.given == 0).any()) for x in floats))
        overflown = infinite & (torch.isfinite(alone) | torch.tensor(grows))
        if overflown.any():
            reached = float(alone[overflown].abs().max())
            size = f"reaches {reached:.4g}" if math.isfinite(reached) else f"lies beyond {torch.finfo(_WIDE).max:.2g}"
            reason = f"the exact result {size}, and {_name(given.dtype)} ends at {info.max:.4g}"
            return note("overflow", overflown, reason, reached=reached)  # type: ignore[no-any-return]
        if (infinite & wrong).any():
            return note("pole", infinite & wrong, _why_pole(floats))  # type: ignore[no-any-return]
        invalid = torch.isnan(given) & ~_where_any(floats, torch.isnan, given)
        if not invalid.any() or inherited:
            return None
        reason = _why_pole(floats) if value.faulty else "it has no value there in exact arithmetic either"
        return note("undefined", invalid, reason)  # type: ignore[no-any-return]

    def _remember(self, target: Any, floats: list[_Value], value: _Value, alone: torch.Tensor, before: float, info: Any) -> None:
        """Keeps what is no event by itself, but explains a wrong result where nothing else does."""
        given = value.given
        event = partial(self._event, target=target, floats=floats, value=value, cause=None)
        if _base(target) in ("add", "sub") and len(floats) == 2 and not self.absorbed:
            x, y = (_spread(operand.given, given) for operand in floats)
            unchanged = (y != 0) & (x == given) & (alone != x.to(_WIDE))
            if unchanged.any():
                size, place = float(y[unchanged].abs().max()), float(x[unchanged].abs().max())
                reason = f"{size:.3g} is less than half a unit in the last place of {place:.4g}, and goes"
                self.absorbed = [event("absorption", unchanged, reason)]
        growth = value.error / max(before, info.eps / 2)
        if growth > (self.largest[0] if self.largest else 2.0):
            everywhere = torch.ones_like(given, dtype=torch.bool)
            self.largest = [growth, event("cancellation", everywhere, _why_lost(value, before, info))]

    def _note(self, *what: Any, **of: Any) -> Event:
        event = self._event(*what, **of)
        self.events.append(event)
        return event

    def _event(
        self, kind: str, where: torch.Tensor, reason: str, *, target: Any, floats: list[_Value], value: _Value, cause: Event | None,
        reached: float | None = None,
    ) -> Event:  # fmt: skip
        node = self._node
        backward, source = "autograd_backward" in node.meta, source_of(node)
        return Event(
            kind,
            str(target).removeprefix("aten.").removesuffix(".default"),
            self._modules.get(node.meta.get("seq_nr"), "") if backward else module_path(node),
            f"{shortened(source[0])}:{source[1]}" if source else "",
            tuple(Span.of(operand.given) for operand in floats),
            Span.of(value.given),
            int(where.sum()),
            value.error,
            reason,
            backward,
            reached,
            cause,
        )

    def run_node(self, n: fx.Node) -> Any:
        self._node = n
        return super().run_node(n)


def _leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, Mapping):
        tree = list(tree.values())
    if isinstance(tree, list | tuple):
        for part in tree:
            yield from _leaves(part)
    else:
        yield tree


def _map(tree: Any, function: Any) -> Any:
    if isinstance(tree, Mapping):
        return {key: _map(part, function) for key, part in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(_map(part, function) for part in tree)
    return function(tree) if isinstance(tree, _Value) else tree


def _widened(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.to(_WIDE)
    if isinstance(value, list | tuple):
        return type(value)(_widened(part) for part in value)
    return value


def _in_float64(target: Any, arguments: Any, given: Any) -> Any:
    """The operation without rounding to narrow types: a cast to one is none. What has no float64 form stays as the model has it."""
    args, kwargs = _without_narrow_types(arguments)
    try:
        return _widened(target(*args, **kwargs))
    except (RuntimeError, TypeError, NotImplementedError):
        return _widened(given)


def _without_narrow_types(tree: Any) -> Any:
    if isinstance(tree, Mapping):
        return {key: _without_narrow_types(part) for key, part in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(_without_narrow_types(part) for part in tree)
    return _WIDE if isinstance(tree, torch.dtype) and tree.is_floating_point else tree


def _shaped(value: Any, like: torch.Tensor) -> torch.Tensor:
    return value.to(_WIDE) if isinstance(value, torch.Tensor) and value.shape == like.shape else like.to(_WIDE)


def _where_any(operands: list[_Value], test: Callable[[torch.Tensor], torch.Tensor], like: torch.Tensor) -> torch.Tensor:
    """Elements of the result one of whose operands passes the test; all of a result of another shape, if an element passes."""
    found = torch.zeros_like(like, dtype=torch.bool)
    for operand in operands:
        found |= _spread(test(operand.given), like)
    return found


def _spread(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The values in the shape of a result: each at the elements that it goes into, or, where that is not known, the largest at all."""
    try:
        return values.expand(like.shape)
    except RuntimeError:
        return values.amax().expand(like.shape) if values.numel() else torch.zeros_like(like, dtype=values.dtype)


def _errors(given: torch.Tensor, true: torch.Tensor, info: Any) -> torch.Tensor:
    """The relative errors that matter: of all elements if more than a tenth of them is wrong, else of those that are not negligible
    beside the largest (a mean taken off leaves some near 0, and their errors are nobody's trouble)."""
    good = torch.isfinite(given) & torch.isfinite(true)
    size = true.abs()
    errors = torch.where(good, (given - true).abs() / size.clamp_min(info.smallest_normal), 0.0)
    if int((errors > info.eps**0.5).sum()) * 10 > errors.numel():
        return errors
    largest = float(size[good].max()) if good.any() else 0.0
    return torch.where(size >= largest * info.eps**0.5, errors, 0.0)


def result_error(given: torch.Tensor, true: torch.Tensor) -> float:
    """The largest relative error that matters; infinite where an element is not finite and should be."""
    wide = given.to(_WIDE)
    if bool((~torch.isfinite(wide) & torch.isfinite(true)).any()):
        return math.inf
    errors = _errors(wide, true, torch.finfo(given.dtype))
    return float(errors.max()) if errors.numel() else 0.0


def _base(target: Any) -> str:
    return str(getattr(target, "overloadpacket", target)).rpartition(".")[2]


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _why_pole(operands: list[_Value]) -> str:
    for operand in operands:
        true = _shaped(operand.true, operand.given)
        if bool(((operand.given == 0) & (true != 0)).any()):
            return f"an operand is 0 that should be {float(true[operand.given == 0].abs().max()):.3g}"
        if bool(((operand.given < 0) & (true >= 0)).any()):
            return f"an operand is {Span.of(operand.given).low:.3g} that should not be below 0"
    for operand in operands:
        if bool(torch.isinf(operand.given).any()):
            return "an operand is infinite"
        if bool((operand.given == 0).any()):
            return "an operand is 0"
    return "the true result is finite, but this is not"


def _why_lost(value: _Value, before: float, info: Any) -> str:
    digits = round(-math.log2(info.eps)) + 1
    bits = digits if value.error >= 1 else max(0, digits - 1 + round(math.log2(max(value.error, info.eps))))
    start = (
        f"an error of {before:.1e} in its operands becomes {value.error:.1e}" if before else f"its result has an error of {value.error:.1e}"
    )
    return f"{start}: {bits} of {digits} bits are lost"
