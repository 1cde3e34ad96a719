"""A traced function as a list of steps: its equations, those of functions that it only calls in line among them.

Control flow, regions that are computed again, and derivatives that a user wrote stay single steps: no rule crosses them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import jax
import jax.extend.core as jex
from jax.extend import source_info_util

Key: TypeAlias = int
_LIBRARY = str(Path(jax.__file__).parent)
_OURS = str(Path(__file__).with_name("derivatives.py"))
source_info_util.register_exclusion(str(Path(__file__).parent))  # places are those of the user
_CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr"}
"""Primitives that only call a function, and the parameter that holds it."""


@dataclass(frozen=True, eq=False)
class EquationStep:
    """One equation. parts: the steps in line that compute the same, where it has a derivative of its own."""

    equation: Any
    inputs: tuple[Key, ...]
    outputs: tuple[Key, ...]
    parts: range = range(0)

    @property
    def ends_gradient(self) -> bool:
        """True if no gradient passes."""
        return self.equation.primitive.name == "stop_gradient" and not _is_of_library(self.equation)

    @property
    def changes_nothing(self) -> bool:
        """True if it is a stopped gradient of a function of JAX that has the derivative of its values all the same."""
        return self.equation.primitive.name == "stop_gradient" and _is_of_library(self.equation)

    def bind(self, *values: Any) -> list[Any]:
        """The results of the equation, computed as JAX does."""
        return jex.jaxpr_as_fun(self.alone)(*values)  # type: ignore[no-any-return]

    @property
    def alone(self) -> Any:
        """A function of the inputs that holds this equation and nothing else."""
        equation = self.equation
        taken = _distinct(equation.invars)
        made = [v for v in equation.outvars if not isinstance(v, jex.DropVar)]
        return jex.ClosedJaxpr(jex.Jaxpr([], taken, made, [equation], equation.effects, _NO_NAMES), ())


def _distinct(atoms: Sequence[Any]) -> list[Any]:
    """The variables, each once."""
    return list(dict.fromkeys(v for v in atoms if not isinstance(v, jex.Literal)))


_NO_NAMES = jax.make_jaxpr(lambda: None)().jaxpr.debug_info


@dataclass
class Equations:
    """A function of arrays as steps. Each value has a number."""

    inputs: list[Key] = field(default_factory=list)
    outputs: list[Key] = field(default_factory=list)
    steps: list[EquationStep] = field(default_factory=list)
    constants: dict[Key, Any] = field(default_factory=dict)
    avals: list[Any] = field(default_factory=list)

    @staticmethod
    def of(closed: Any) -> Equations:
        """The steps of a closed jaxpr."""
        program = Equations()
        keys = {v: program._new(v.aval) for v in closed.jaxpr.invars}
        program.inputs = list(keys.values())
        found = program._inline(closed.jaxpr, closed.consts, program.inputs)
        program.outputs = found
        return program

    def _new(self, aval: Any) -> Key:
        self.avals.append(aval)
        return len(self.avals) - 1

    def _constant(self, value: Any, aval: Any) -> Key:
        key = self._new(aval)
        self.constants[key] = value
        return key

    def _inline(self, jaxpr: Any, constants: Sequence[Any], given: Sequence[Key]) -> list[Key]:
        """Adds the steps of a function; the numbers of its results."""
        keys: dict[Any, Key] = dict(zip(jaxpr.invars, given, strict=True))
        keys.update((v, self._constant(c, v.aval)) for v, c in zip(jaxpr.constvars, constants, strict=True))

        def key(atom: Any) -> Key:
            return self._constant(atom.val, atom.aval) if isinstance(atom, jex.Literal) else keys[atom]

        for equation in jaxpr.eqns:
            taken = [key(atom) for atom in equation.invars]
            called = _called(equation)
            if called is not None:
                keys.update(zip(equation.outvars, self._inline(called.jaxpr, called.consts, taken), strict=True))
                continue
            whole = derived_by_library(equation)
            variables = [v for v in equation.outvars if not isinstance(v, jex.DropVar)]
            if whole is not None:
                start = len(self.steps)
                found = dict(zip(equation.outvars, self._inline(whole.jaxpr, whole.consts, taken), strict=True))
                keys.update((v, found[v]) for v in variables)
                parts = range(start, len(self.steps))
            else:
                keys.update((v, self._new(v.aval)) for v in variables)
                parts = range(0)
            inputs = tuple(keys[v] for v in _distinct(equation.invars))
            self.steps.append(EquationStep(equation, inputs, tuple(keys[v] for v in variables), parts))
        return [key(atom) for atom in jaxpr.outvars]


def half_sums(program: Equations) -> dict[int, tuple[Key, list[EquationStep]]]:
    """The casts back to a narrow type of sums that JAX keeps in float32: of each the value that is summed, and the sum with what moves it.

    A sum of narrow numbers means the same in the `num` dialect.
    """
    made = {key: step for step in program.steps if not step.parts for key in step.outputs}
    found = {}
    for index, step in enumerate(program.steps):
        total, moves = (made.get(step.inputs[0]) if _casts(step) else None), list[EquationStep]()
        while total is not None and total.equation.primitive.name in _MOVES:
            moves.insert(0, total)
            total = made.get(total.inputs[0]) if len(total.inputs) == 1 else None
        if total is None or total.equation.primitive.name != "reduce_sum":
            continue
        widened = made.get(total.inputs[0])
        if widened is not None and _casts(widened) and program.avals[widened.inputs[0]].dtype == program.avals[step.outputs[0]].dtype:
            if program.avals[step.outputs[0]].dtype.itemsize == 2 and program.avals[total.outputs[0]].dtype == "float32":
                found[index] = (widened.inputs[0], [total, *moves])
    return found


_MOVES = ("broadcast_in_dim", "reshape", "squeeze", "expand_dims")


def _casts(step: EquationStep) -> bool:
    return step.equation.primitive.name == "convert_element_type" and len(step.inputs) == 1


def _called(equation: Any) -> Any:
    """The function that an equation only calls; None for one that says where and how, or does something else."""
    name = _CALLS.get(equation.primitive.name)
    if name is None:
        return None
    params = equation.params
    layouts = [*params.get("in_shardings", ()), *params.get("out_shardings", ()), *params.get("in_layouts", ())]
    if any(params.get("donated_invars", ())) or any(s is not None and type(s).__name__ != "UnspecifiedValue" for s in layouts):
        return None
    found = params[name]
    return found if isinstance(found, jex.ClosedJaxpr) else jex.ClosedJaxpr(found, ())


def derived_by_library(equation: Any) -> Any:
    """The values of a function that JAX itself differentiates by a rule; None for rules of users, which may be no derivatives."""
    if equation.primitive.name != "custom_jvp_call":
        return None
    closed = equation.params["call_jaxpr"]
    source = str(closed.jaxpr.debug_info.func_src_info)
    return closed if _LIBRARY in source or _OURS in source else None


def _is_of_library(equation: Any) -> bool:
    """Return whether another function of JAX than `stop_gradient` itself made the equation."""
    traceback = equation.source_info.traceback
    frames = [frame for frame in traceback.frames if "/tree_util.py" not in frame.file_name] if traceback is not None else []
    callers = [i for i, frame in enumerate(frames) if frame.function_name == "stop_gradient"]
    return bool(callers) and len(frames) > callers[-1] + 1 and frames[callers[-1] + 1].file_name.startswith(_LIBRARY)


def with_literals(closed: Any) -> Any:
    """The function with its constant numbers as literals of its equations, so that larger ones alone are constants."""
    jaxpr = closed.jaxpr
    numbers = {v: jex.Literal(c, v.aval) for v, c in zip(jaxpr.constvars, closed.consts, strict=True) if _is_number(c, v.aval)}
    kept = [(v, c) for v, c in zip(jaxpr.constvars, closed.consts, strict=True) if v not in numbers]

    def read(atom: Any) -> Any:
        return atom if isinstance(atom, jex.Literal) else numbers.get(atom, atom)

    equations = [e.replace(invars=[read(atom) for atom in e.invars]) for e in jaxpr.eqns]
    made = jaxpr.replace(constvars=[v for v, _ in kept], outvars=[read(atom) for atom in jaxpr.outvars], eqns=equations)
    return jex.ClosedJaxpr(made, [c for _, c in kept])


def _is_number(constant: Any, aval: Any) -> bool:
    return aval.shape == () and not jax.dtypes.issubdtype(aval.dtype, jax.dtypes.extended)
