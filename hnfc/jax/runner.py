"""A traced function run by JAX on NumPy arrays, before and after a rewrite, and its single walls."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.extend.core as jex
import numpy as np
from torch_mlir import ir
from xdsl.ir import SSAValue

from hnfc.core.errors import ModelError
from hnfc.core.interpreter import FOREIGN
from hnfc.dialects.num.opaque import OpaqueOp
from hnfc.frontend.stablehlo_marks import wall_of
from hnfc.jax.capture import WALLS, MarkedModule, is_represented
from hnfc.jax.rewriting import Plan
from hnfc.jax.steps import EquationStep
from hnfc.jax.widening import in_float64
from hnfc.validation.differential import Rewritten

Array: TypeAlias = "np.ndarray[Any, Any]"
QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
"""Options of XLA for references: their speed is that of their compilation."""
Function: TypeAlias = "Callable[[Sequence[Array]], list[Array]]"


@contextlib.contextmanager
def apart(wide: bool | None = None) -> Iterator[None]:
    """Computation on numbers, apart from what a user is tracing and how JAX is set up to report. wide: whether 64 bits are allowed."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(jax.core.eval_context())
        stack.enter_context(jax.debug_nans(False))
        stack.enter_context(jax.debug_infs(False))
        stack.enter_context(jax.numpy_rank_promotion("allow"))
        stack.enter_context(jax.numpy_dtype_promotion("standard"))
        if wide is not None:
            stack.enter_context(jax.enable_x64(wide))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        yield


class JaxRunner:
    """JAX, for functions that are compared before and after a rewrite.

    sample: an array for each input. given: whether a caller gave it, so that loops end on it.
    """

    name = "JAX"

    def __init__(self, captured: MarkedModule, original: Any, sample: Sequence[Any], given: bool, adapts: bool) -> None:
        self.captured, self.original, self.sample, self.given, self.adapts = captured, original, list(sample), given, adapts
        self._may_not_end = has_open_loop(original.jaxpr)

    def load(self, module: ir.Module, function: str) -> Function:
        """The function as it was."""
        return self._on_arrays(jax.jit(jex.jaxpr_as_fun(self.original)))

    def wide(self, module: ir.Module, function: str) -> Function | None:
        """The function as it was in float64."""
        return self._on_arrays(jax.jit(in_float64(self.original), compiler_options=QUICKLY), wide=True)

    def rewritten(self, compiled: Rewritten, native: bool) -> Callable[[str], Function]:
        """Loader of the function with its rewrites."""
        run = self._on_arrays(jax.jit(Plan(self.captured, compiled)))
        return lambda function: run

    def inputs(self, arrays: Sequence[Array]) -> list[Any]:
        """An array for each input of the program from those for the arguments of the module."""
        given = dict(zip(self.captured.arguments, arrays, strict=True))
        return [given.get(key, value) for key, value in zip(self.captured.program.inputs, self.sample, strict=True)]

    def _on_arrays(self, function: Callable[..., Any], wide: bool | None = None) -> Function:
        outputs = self.captured.program.outputs
        places = [outputs.index(key) for key in self.captured.results]

        def run(arrays: Sequence[Array]) -> list[Array]:
            inputs = self.inputs(arrays)
            if self._may_not_end and not (self.given and all(a is b or _same(a, b) for a, b in zip(inputs, self.sample, strict=True))):
                raise ModelError("its loop may not end on other inputs than the sample")
            with apart(wide):
                found = attempted(function, inputs)
            return [np.asarray(found[place]) for place in places]

        return run


def attempted(function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
    """The results of a function of JAX. Raises ModelError where it fails."""
    try:
        return jax.block_until_ready(function(*inputs))
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"JAX cannot run it: {next(iter(str(error).splitlines()), type(error).__name__)}") from error


def _same(first: Any, second: Any) -> bool:
    with contextlib.suppress(TypeError):
        return bool(np.array_equal(np.asarray(first), np.asarray(second), equal_nan=np.asarray(first).dtype.kind in "fc"))
    return False


def has_open_loop(jaxpr: Any) -> bool:
    """Return whether a function has a loop that ends by what it computes."""
    inner = (j for equation in jaxpr.eqns for j in jex.jaxprs_in_params(equation.params))
    return any(equation.primitive.name == "while" for equation in jaxpr.eqns) or any(map(has_open_loop, inner))


# walls in hnfc's own evaluation


_CASTS = ("torch_c.to_builtin_tensor", "torch_c.from_builtin_tensor")


def on_jax(operation: OpaqueOp, known: Mapping[SSAValue, Any], wide: bool) -> list[Array] | None:
    """The results of a wall, in float64 if wide; None where an operand is missing, or JAX cannot compute them."""
    if any(operand not in known for operand in operation.operands):
        return None
    arrays = [np.asarray(known[operand]) for operand in operation.operands]
    if operation.operation.data in _CASTS:
        return arrays
    wall = wall_of(operation.attributes_as_python()["carried"])
    captured = WALLS.get(wall[0]) if wall is not None else None
    if wall is None or captured is None:
        return None
    step = captured.program.steps[wall[1]]
    function = _function_of(captured, step, wide)
    if function is None:
        return None
    try:
        with apart(wide or None):
            return [np.asarray(result) for result in attempted(function, arrays)]
    except ModelError:
        return None


def _function_of(captured: MarkedModule, step: EquationStep, wide: bool) -> Callable[..., Any] | None:
    avals = captured.program.avals
    if not all(is_represented(avals[key]) for key in (*step.inputs, *step.outputs)) or step.equation.effects:
        return None
    if has_open_loop(step.alone.jaxpr):
        return None
    key = (id(step), wide)
    if key not in captured.functions:
        captured.functions[key] = jax.jit(in_float64(step.alone) if wide else jex.jaxpr_as_fun(step.alone))
    return captured.functions[key]  # type: ignore[no-any-return]


FOREIGN.append(on_jax)
