"""A model that runs eagerly, each of its operations beside float64: forward, and backward as autograd does it.

Every operation runs three times: as the model runs it, in float64 on the true values of its operands, and in float64 on the operands
that the model has. The first two differ by all errors so far, the first and the last by the error of this operation alone.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch._C._autograd import _get_sequence_nr
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from hnfc.frontend.places import frames_below, innermost, is_own
from hnfc.frontend.torch_mlir import shortened
from hnfc.tracing.events import Event
from hnfc.tracing.judging import JudgedTensor, LossJudge, Operand, SourcePosition
from hnfc.tracing.memory import WIDE, Memory, StorageState, is_float
from hnfc.tracing.modules import ModulePath

_CHANGES_UNSAID = frozenset({"native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "batch_norm"})
"""Operations that write running statistics though their signature does not say so."""
_TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
UNINITIALIZED = ("empty", "new_empty", "_empty")
_MASKS = {"WhereBackward0": "where", "MaskedFillBackward0": "masked_fill", "MaskedFillBackward1": "masked_fill",
          "MaskedFillBackward2": "masked_fill", "IndexPutBackward0": "an assignment by index"}  # fmt: skip


@dataclass
class _Node:
    """A function of autograd: the operation whose gradient it computes, its place, and what it took from other functions."""

    operation: str
    place: SourcePosition


class Run(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Mode that follows every operation under it. names: the paths of modules by identity. stop: the code at which the model is called."""

    def __init__(self, names: Mapping[int, str], stop: tuple[Any, ...]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.memory = Memory()
        self.judge = LossJudge()
        self.count = 0
        self.epsilon = 0.0
        """The roundoff of the narrowest type that something was computed in."""
        self._modules, self._stop = ModulePath(names), stop
        self._nodes: dict[int, _Node] = {}
        self._running: Any = None
        self._outside: list[Operand] = []
        self._inside: set[int] = set()

    @property
    def events(self) -> list[Event]:
        return self.judge.events

    def __enter__(self) -> Run:
        self._modules.__enter__()
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> Any:
        self._modules.__exit__()
        return super().__exit__(*error)  # type: ignore[no-untyped-call]

    # one operation

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if any(t.__torch_dispatch__ is not torch._C._disabled_torch_dispatch_impl for t in types):
            return NotImplemented
        place = self._place(func)
        name = func._schema.name.rpartition("::")[2]
        floats = [x for x in _tensors((args, kwargs)) if x.is_floating_point()]
        if _is_view(func._schema) or name == "_local_scalar_dense":
            return func(*args, **kwargs)
        with torch.no_grad():
            if torch.Tag.nondeterministic_seeded in func.tags or name.startswith(UNINITIALIZED):
                result = func(*args, **kwargs)
                self._forget(func, args, kwargs)
                return result
            return self._followed(func, name, args, kwargs, floats, place)

    def _followed(self, func: Any, name: str, args: Any, kwargs: Any, floats: list[torch.Tensor], place: SourcePosition) -> Any:
        written = _written(func._schema, name, args, kwargs)
        operands = [self._operand(x, any(x is w for w in written)) for x in floats]
        exact = all(operand.true is None for operand in operands)
        narrow = any(x.dtype != WIDE for x in floats) or not floats
        call = (args, kwargs)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            true_call = pytree.tree_map(lambda x: self._widened(x, written), call) if narrow else None
            own_call = None if exact or not narrow else pytree.tree_map(lambda x: _wide_copy(x, written), call)
        result = func(*args, **kwargs)
        made = [x for x in _tensors(result) if x.is_floating_point() and not any(x is w for w in written)]
        made = [x for x in made if not any(_shares(x, y) for y in floats)]
        changed = [x for x in written if x.is_floating_point()]
        if not made and not changed:
            return result
        self.count += 1
        self.epsilon = max(self.epsilon, *(torch.finfo(x.dtype).eps for x in (*made, *changed) if x.dtype in _TYPES), 0.0)
        true = _in_float64(func, true_call, written, call, made)
        alone = true if own_call is None else _in_float64(func, own_call, written, call, made)
        self._enter_node(place, operands)
        outcomes = []
        for index, given in enumerate([*made, *changed]):
            if not given.numel() or given.layout is not torch.strided:
                continue
            outcomes.append(JudgedTensor(given, _shaped(true, index, given), _shaped(alone, index, given)))
        self.judge.judge(func, name, (args, kwargs), operands, self._outside, outcomes, place, self.memory)
        for outcome in outcomes:
            record = self.memory.record(outcome.given)
            if record is not None and place.backward:
                record.state.backward = True
                record.state.branch = self._branch(place, operands)
                self._inside.add(outcome.given.untyped_storage()._cdata)
        return result

    def _operand(self, tensor: torch.Tensor, written: bool) -> Operand:
        true = self.memory.true(tensor)
        given = tensor.detach()
        if written:
            given, true = given.clone(), None if true is None else true.clone()
        record = self.memory.record(tensor)
        return Operand(given, true, StorageState() if record is None else record.state)

    def _widened(self, value: Any, written: list[torch.Tensor]) -> Any:
        """The true value of an operand, in float64; a copy where the operation writes it."""
        if not is_float(value):
            return _wide_copy(value, written)
        true = self.memory.true(value)
        if true is None:
            return _wide_copy(value, written)
        return true.clone() if any(value is w for w in written) else true

    def _forget(self, func: Any, args: Any, kwargs: Any) -> None:
        """Random draws, which count as exact."""
        for x in _written(func._schema, "", args, kwargs):
            if x.is_floating_point() and self.memory.record(x) is not None:
                self.memory.store(x, x.detach().to(WIDE))

    # places

    def _place(self, func: Any) -> SourcePosition:
        node = torch._C._current_autograd_node() if hasattr(torch._C, "_current_autograd_node") else None
        backward = node is not None and not torch.is_grad_enabled()
        found = innermost(frames_below(sys._getframe(2), self._stop))
        name = func._schema.name.rpartition("::")[2]
        if backward:
            assert node is not None
            self._change_node(node)
            known = self._nodes.get(node._sequence_nr())
            own = found if found is not None and is_own(found[0]) else None
            if known is None:
                return SourcePosition(own, "", True, name, type(node).__name__)
            return SourcePosition(own or known.place.source, known.place.module, True, known.operation, type(node).__name__)
        place = SourcePosition(found, self._modules.current, False, name, "")
        if torch.is_grad_enabled():
            self._nodes.setdefault(_get_sequence_nr() - 1, _Node(name, place))
        return place

    def _change_node(self, node: Any) -> None:
        if self._running is not node:
            self._running, self._outside, self._inside = node, [], set()

    def _enter_node(self, place: SourcePosition, operands: list[Operand]) -> None:
        """Notes what a function of autograd takes: its incoming gradients and what it saved."""
        if not place.backward:
            self._outside = []
            return
        known = self._inside
        self._outside += [operand for operand in operands if operand.given.untyped_storage()._cdata not in known]

    def _branch(self, place: SourcePosition, operands: list[Operand]) -> str:
        if place.node in _MASKS:
            return f"the branch of {_MASKS[place.node]} ({_spelled(place)}) that is not taken"
        return next((o.state.branch for o in operands if o.state.backward and o.state.branch), "")


def _spelled(place: SourcePosition) -> str:
    return f"{shortened(place.source[0])}:{place.source[1]}" if place.source else "the model"


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    return (x for x in pytree.tree_leaves(tree) if isinstance(x, torch.Tensor))


def _is_view(schema: Any) -> bool:
    """Return whether the result is the operand seen otherwise."""
    return any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)


def _written(schema: Any, name: str, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """The tensors that an operation changes in place."""
    found: list[torch.Tensor] = []
    for index, argument in enumerate(schema.arguments):
        unsaid = name in _CHANGES_UNSAID and argument.name in ("running_mean", "running_var")
        if unsaid or (argument.alias_info is not None and argument.alias_info.is_write):
            value = args[index] if index < len(args) else kwargs.get(argument.name)
            found += [x for x in _tensors(value) if not any(x is y for y in found)]
    return found


def _shares(x: torch.Tensor, y: torch.Tensor) -> bool:
    if x.layout is not torch.strided or y.layout is not torch.strided:
        return False
    return bool(x.untyped_storage()._cdata == y.untyped_storage()._cdata)


def _wide_copy(value: Any, written: list[torch.Tensor]) -> Any:
    if isinstance(value, torch.dtype):  # a cast to a narrow type is none
        return WIDE if value.is_floating_point else value
    if not isinstance(value, torch.Tensor):
        return value
    if value.is_floating_point():
        return value.detach().to(WIDE, copy=any(value is w for w in written))
    return value.detach().clone() if any(value is w for w in written) else value.detach()


def _in_float64(func: Any, call: Any, written: list[torch.Tensor], given: Any, made: list[torch.Tensor]) -> list[torch.Tensor] | None:
    """The results of an operation in float64, then what it changed; None where it has no float64 form."""
    if call is None:
        return None
    args, kwargs = call
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = func(*args, **kwargs)
    except (RuntimeError, TypeError, NotImplementedError, IndexError, ValueError):
        return None
    wide = pytree.tree_leaves(call)
    changed = []
    for x in written:
        if x.is_floating_point():
            changed.append(next(w for w, g in zip(wide, pytree.tree_leaves(given), strict=True) if g is x))
    results = [x for x in _tensors(result) if x.is_floating_point() and not any(x is c for c in changed)]
    return [*results, *changed] if len(results) == len(made) else None


def _shaped(values: list[torch.Tensor] | None, index: int, like: torch.Tensor) -> torch.Tensor:
    if values is None or values[index].shape != like.shape:
        return like.detach().to(WIDE)
    return values[index].to(WIDE)
