"""A program's steps in the torch dialect, with a mark for every value, so that what rules do to it can be done to the program."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.extend.core as jex
import jax.lax.linalg
import numpy as np
from jax.export import DisabledSafetyCheck
from torch_mlir import ir

from hnfc.dialects.num.rounding import NUMPY_TYPES
from hnfc.frontend.models import read_model
from hnfc.frontend.stablehlo_marks import DETACH, MARK, WALL, kept_marks
from hnfc.jax.steps import Equations, EquationStep, Key, half_sums

_KNOWN = frozenset(np.dtype(kind) for kind in NUMPY_TYPES.values())
_OF_LINALG = frozenset(p.name for name, p in vars(jax.lax.linalg).items() if name.endswith("_p"))
"""Primitives that call a library of linear algebra, whose calls StableHLO cannot carry."""
_OF_MESHES = ("sharding_constraint", "reshard", "mesh_cast")
"""Primitives that say where arrays lie."""
_LARGEST_LITERAL = 16
"""Elements of a constant that is part of the function; a larger one is an argument, as a weight."""
_NUMBERS = itertools.count()
WALLS: weakref.WeakValueDictionary[str, MarkedModule] = weakref.WeakValueDictionary()
"""Captures by their names, which are in those of their walls."""


@dataclass(eq=False)
class MarkedModule:
    """A program as a module. arguments: the values that its function takes. walls: steps that rules must not cross."""

    program: Equations
    arguments: list[Key]
    results: list[Key]
    walls: frozenset[int]
    name: str = ""
    module: ir.Module | None = field(default=None, repr=False)
    functions: dict[tuple[int, bool], Any] = field(default_factory=dict, repr=False)
    """Walls as functions of JAX, in their own type and in float64."""

    @staticmethod
    def of(program: Equations, title: str = "function") -> MarkedModule:
        """The program in the torch dialect; what has no counterpart there is a wall. title: the name of its function in reports."""
        walls: frozenset[int] = frozenset()
        while True:
            captured = _lowered(program, walls, title)
            makers = {str(key): index for index, step in enumerate(program.steps) for key in step.outputs if not step.parts}
            more = frozenset(makers[name] for name in kept_marks(captured.function) if name in makers)
            if more <= walls:
                return captured
            walls |= more

    @property
    def function(self) -> ir.Operation:
        """The only function of the module."""
        assert self.module is not None
        return next(view.operation for view in self.module.body.operations if view.operation.name == "func.func")

    @property
    def fixed(self) -> frozenset[int]:
        """The arguments that are constants of the program."""
        return frozenset(i for i, key in enumerate(self.arguments) if key in self.program.constants)


def is_represented(aval: Any) -> bool:
    """Return whether values of this type exist in the torch dialect."""
    return getattr(aval, "dtype", None) in _KNOWN


def _lowered(program: Equations, walls: frozenset[int], title: str) -> MarkedModule:
    shown = [is_represented(aval) for aval in program.avals]
    literals = {k: v for k, v in program.constants.items() if shown[k] and np.size(v) <= _LARGEST_LITERAL}
    made = {key for step in program.steps for key in step.outputs}
    arguments = [k for k in program.inputs if shown[k]]
    arguments += [k for k in program.constants if shown[k] and k not in literals]
    results = list(dict.fromkeys(k for k in program.outputs if shown[k] and k in made))
    # what unknown values are made of leads nowhere, and stays outside
    walls |= {i for i, s in enumerate(program.steps) if not s.parts and not all(shown[k] for k in (*s.inputs, *s.outputs))}
    walls |= {i for i, s in enumerate(program.steps) if not s.parts and _is_wall(s)}
    captured = MarkedModule(program, arguments, results, walls, str(next(_NUMBERS)))
    targets = [DETACH]
    sums = half_sums(program)

    def call(target: str, avals: Sequence[Any], operands: Sequence[Any]) -> Any:
        targets.append(target)
        return jax.ffi.ffi_call(target, [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals])(*operands)

    def function(*given: Any) -> list[Any]:
        values: dict[Key, Any] = {**literals, **dict(zip(arguments, given, strict=True))}
        for index, step in enumerate(program.steps):
            if step.parts:
                continue
            outputs = [k for k in step.outputs if shown[k]]
            operands = [values[k] for k in step.inputs if k in values]
            if step.ends_gradient and outputs:
                found = call(DETACH, [program.avals[k] for k in outputs], operands)
            elif step.changes_nothing:
                found = operands
            elif index in sums:
                summed, parts = sums[index]
                found = [values[summed]]
                for part in parts:
                    found = part.bind(*found)
            elif index in walls:
                target = f"{WALL}{captured.name}.{index}.{step.equation.primitive.name}"
                found = call(target, [program.avals[k] for k in outputs], operands) if outputs else []
            else:
                found = step.bind(*operands)
            for key, value in zip(outputs, found, strict=True):
                values[key] = call(f"{MARK}{key}", [program.avals[key]], [value])[0]
        return [values[k] for k in results]

    avals = [jax.ShapeDtypeStruct(program.avals[k].shape, program.avals[k].dtype) for k in arguments]
    function.__name__ = title
    jitted = jax.jit(function, keep_unused=True)
    jitted.trace(*avals)
    checks = [DisabledSafetyCheck.custom_call(target) for target in targets]
    exported = jax.export.export(jitted, platforms=["cpu"], disabled_checks=checks)(*avals)
    captured.module = read_model(exported.mlir_module_serialized, "the function")
    WALLS[captured.name] = captured
    return captured


def _is_wall(step: EquationStep) -> bool:
    """Return whether no rule may look inside: functions of functions, effects, libraries, and derivatives that a user wrote."""
    equation = step.equation
    holds_functions = next(iter(jex.jaxprs_in_params(equation.params)), None) is not None
    return (
        bool(equation.effects)
        or equation.primitive.name in (*_OF_LINALG, *_OF_MESHES)
        or (holds_functions and not _is_comparator(equation))
    )


def _is_comparator(equation: Any) -> bool:
    """Return whether the inner functions only say how two elements are combined."""
    return str(equation.primitive.name).startswith(("reduce", "scatter", "sort"))
