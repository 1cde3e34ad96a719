"""A program with what rules did to its module: its own equations where nothing changed, and operations of `num` where rules made some.

An equation whose values a rule replaced does not run; all others run as they were, on the new values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
from jax.extend.core.primitives import convert_element_type_p
from torch_mlir import ir
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from hnfc.core.errors import ModelError
from hnfc.dialects.num.base import NumOp
from hnfc.dialects.num.opaque import OpaqueOp
from hnfc.frontend.stablehlo_marks import marked_values
from hnfc.jax.capture import MarkedModule
from hnfc.jax.operations import apply, is_known
from hnfc.jax.steps import EquationStep, Key
from hnfc.validation.differential import Rewritten

Node: TypeAlias = "Key | SSAValue"
"""A value of the program, or one of the module."""


@dataclass(frozen=True)
class Action:
    """Computation of some values from others."""

    run: Callable[..., Any]
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]


class Plan:
    """The actions that compute the results of a rewritten program. Raises ModelError where JAX lacks an operation."""

    def __init__(self, captured: MarkedModule, compiled: Rewritten) -> None:
        self.captured, self.program = captured, captured.program
        self.replaced = compiled.replaced
        self.imported = compiled.imported
        self.known = self._values()
        self.names: dict[SSAValue, Key] = {}
        for key, value in self.known.items():
            if value not in self.replaced:
                self.names.setdefault(value, key)
        self.whole: Collection[Operation] = compiled.whole_rows
        self._marked = frozenset(self.known.values())
        self._clean: dict[SSAValue, bool] = {}
        self.makers: dict[Key, EquationStep] = {}
        for step in self.program.steps:  # a whole comes after its parts
            if not step.parts or not any(self._is_changed(k) for p in step.parts for k in self.program.steps[p].outputs):
                self.makers.update(dict.fromkeys(step.outputs, step))
        self.actions = self._schedule()

    def _values(self) -> dict[Key, SSAValue]:
        """The value of the module, as it was before rules changed it, for each of the program that has one."""
        function = next(view.operation for view in self.imported.torch.body.operations if view.operation.name == "func.func")
        marked: dict[Key, ir.Value] = {int(name): value for name, value in marked_values(function).items()}
        arguments = list(function.regions[0].blocks[0].arguments)
        marked.update(zip(self.captured.arguments, arguments, strict=True))
        candidates: dict[ir.Value, list[SSAValue]] = {}
        for value, original in self.imported.values.items():
            candidates.setdefault(original, []).append(value)
        found = {}
        for key, original in marked.items():
            there = [v for v in candidates.get(original, ()) if v in self.replaced or _is_there(v)]
            fitting = [v for v in there if _has_shape(v, self.program.avals[key])]
            if fitting:
                found[key] = fitting[0]
        return found

    def _final(self, value: SSAValue) -> SSAValue:
        while value in self.replaced:
            value = self.replaced[value]
        return value

    def _is_changed(self, key: Key) -> bool:
        """Return whether a value is computed otherwise than by its equation."""
        value = self.known.get(key)
        return value is not None and not self._is_clean(value)

    def _is_clean(self, value: SSAValue) -> bool:
        """Return whether the operations between a value and the marked ones before it are those of the program."""
        stack = [value]
        while stack:
            current = stack[-1]
            if current in self._clean:
                stack.pop()
                continue
            before = self._before(current)
            if before is None:
                self._clean[current] = False
                continue
            inner = [operand for operand in before if operand not in self._marked]
            missing = [operand for operand in inner if operand not in self._clean]
            if missing:
                stack += missing
            else:
                self._clean[current] = all(self._clean[operand] for operand in inner)
        return self._clean[value]

    def _before(self, value: SSAValue) -> Sequence[SSAValue] | None:
        """The operands that the operation of a value had at first, if nothing but replacements of them changed it."""
        owner = value.owner
        if value in self.replaced:
            return None
        if not isinstance(owner, Operation):
            return ()
        before = self.imported.operands.get(owner)
        if before is None or owner.parent is None or len(before) != len(owner.operands):
            return None
        same = all(now is old or now is self._final(old) for now, old in zip(owner.operands, before, strict=True))
        return before if same else None

    # the order

    def _schedule(self) -> list[Action]:
        actions: list[Action] = []
        made: set[Node] = {*self.program.inputs, *self.program.constants}
        pending: set[Node] = set()
        stack: list[Node] = list(reversed(self.program.outputs))
        while stack:
            node = stack[-1]
            if node in made:
                stack.pop()
                continue
            action = self._action(node)
            missing = [each for each in action.inputs if each not in made]
            if missing and node in pending:
                raise ModelError(_CIRCLE)
            if missing:
                pending.add(node)
                stack += missing
            else:
                actions.append(action)
                made.update(action.outputs)
        return actions

    def _action(self, node: Node) -> Action:
        if isinstance(node, SSAValue):
            return self._of_module(node)
        value = self.known.get(node)
        if value is not None and self._is_changed(node):
            return Action(_Typed(self.program.avals[node]), (self._named(self._final(value), node),), (node,))
        step = self.makers[node]
        return Action(step.bind, step.inputs, step.outputs)

    def _named(self, value: SSAValue, asking: Key | None = None) -> Node:
        """The node that stands for a value of the module."""
        key = self.names.get(value)
        return value if key is None or key == asking or self._is_changed(key) else key

    def _of_module(self, value: SSAValue) -> Action:
        owner = value.owner
        if not isinstance(owner, NumOp) or isinstance(owner, OpaqueOp) or not is_known(owner):
            what = getattr(owner, "name", "an argument")
            raise ModelError(f"JAX has no function for `{what}`, of which a rule changed an operand")
        inputs = tuple(self._named(self._final(operand)) for operand in owner.operands)
        return Action(_Operation(owner, owner in self.whole), inputs, tuple(owner.results))

    # running

    def __call__(self, *arrays: Any) -> list[Any]:
        """The results of the program for its inputs."""
        values: dict[Any, Any] = {**self.program.constants, **dict(zip(self.program.inputs, arrays, strict=True))}
        for action in self.actions:
            values.update(zip(action.outputs, action.run(*(values[node] for node in action.inputs)), strict=True))
        return [values[key] for key in self.program.outputs]


_CIRCLE = "a rewrite of this function hangs on its own result"


class _Operation:
    """One operation of the module on arrays of JAX."""

    def __init__(self, operation: NumOp, whole: bool) -> None:
        self.name = operation.name.removeprefix("num.")
        self.attributes = operation.attributes_as_python()
        if self.name == "softmax" and whole:
            self.attributes["whole"] = True

    def __call__(self, *operands: Any) -> Sequence[Any]:
        found = apply(self.name, *operands, **self.attributes)
        return found if isinstance(found, tuple) else (found,)


class _Typed:
    """A value in the type and shape that the program has for it."""

    def __init__(self, aval: Any) -> None:
        self.aval = aval

    def __call__(self, value: Any) -> Sequence[Any]:
        shaped = jax.numpy.reshape(value, self.aval.shape)
        return (convert_element_type_p.bind(shaped, new_dtype=self.aval.dtype, weak_type=self.aval.weak_type, sharding=None),)


def _is_there(value: SSAValue) -> bool:
    owner = value.owner
    return not isinstance(owner, Operation) or owner.parent is not None


def _has_shape(value: SSAValue, aval: Any) -> bool:
    return not isinstance(value.type, TensorType) or tuple(value.type.get_shape()) == tuple(aval.shape)
