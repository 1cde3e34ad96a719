"""Gradients of a traced function before and after a rewrite, on the sample and on probes, by the rules that values are compared by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block

from hnfc.core.errors import ModelError
from hnfc.dialects.interval import ANYTHING, Interval
from hnfc.dialects.types import FORMATS
from hnfc.frontend.torch_mlir import import_module
from hnfc.jax.capture import MarkedModule
from hnfc.jax.runner import QUICKLY, JaxRunner, apart, attempted, has_open_loop
from hnfc.jax.widening import in_float64, raised
from hnfc.validation.differential import MOST_ELEMENTS, elements_of
from hnfc.validation.gradients import BACKWARD, Arbiter, coarsest, leniency, next_to, only_the_first, rounding_noise, weight_of, worse
from hnfc.validation.invented import is_pointwise
from hnfc.validation.probes import Slot, probes
from hnfc.validation.tolerance import TOLERATED_GROWTH

Array: TypeAlias = "np.ndarray[Any, Any]"
_NAMES = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16"}

_FLUSHED = 1024
"""Smallest normal numbers that a NaN may be off by when it becomes a number: XLA takes smaller ones for 0 on the way."""


@dataclass
class FunctionGradients:
    """A function before and after, as closed jaxprs of the same inputs. intervals: the range of each input, if it is known."""

    captured: MarkedModule
    before: Any
    after: Any
    runner: JaxRunner
    intervals: Sequence[Interval | None]
    fixed: frozenset[int] = frozenset()
    """Inputs that probes leave as they are."""
    skipped: str = ""
    """The reason why gradients were not compared, on the sample at least."""
    _made: list[Callable[..., Any]] = field(default_factory=list)

    def regressions(self) -> Iterator[str]:
        """Reasons why a gradient is worse, one for each input and probe on which it is."""
        sample = self.runner.sample
        wanted = [i for i, x in enumerate(sample) if _format(x) is not None]
        if not wanted:
            return
        self.skipped = self._reason_to_skip(sample)
        if self.skipped:
            return
        assert self.captured.module is not None
        imported = import_module(self.captured.module)
        block = next(op for op in imported.module.ops if isinstance(op, FuncOp)).body.block
        limit = max(1, MOST_ELEMENTS // max(1, BACKWARD * elements_of(block)))
        mixing = not all(is_pointwise(op) for op in block.ops if op.results)
        for count, (name, negligible, inputs) in enumerate(self._inputs(sample)):
            if count >= limit:
                return
            found = self._found(inputs, wanted)
            if found is None:
                if count:
                    continue
                self.skipped = "JAX cannot compute them, or not in float64"
                return
            gradients, defined = found
            if self._stops:
                gradients = only_the_first(gradients)
            for position, index in enumerate(wanted):
                form = FORMATS[_format(inputs[index]) or "f32"]
                lost = max(negligible, _FLUSHED * form.smallest_normal)
                rules = leniency(mixing, lost, count == 0)
                derivative = self._arbiter(block, imported, inputs, index, defined)
                arrays = [g[position] for g in gradients]
                reason = worse(arrays, form, derivative, rules)
                if reason and mixing:
                    # sums that cancel leave rounding
                    near = [partial(self._next_to, inputs, wanted, which, position, coarsest(block)) for which in range(2)]
                    rules = replace(rules, noise=TOLERATED_GROWTH * rounding_noise(arrays[0], near[0]))
                    reason = worse(arrays, form, derivative, rules)
                    if reason and not np.isfinite(arrays[0].astype(np.float64)).all():
                        unnoticed = TOLERATED_GROWTH * rounding_noise(arrays[1], near[1])
                        reason = worse(arrays, form, derivative, replace(rules, unnoticed=unnoticed))
                if reason:
                    yield f"the gradient by input {index} {'on the sample' if count == 0 else f'on a probe ({name})'}: {reason}"

    def _reason_to_skip(self, sample: Sequence[Any]) -> str:
        if sum(np.size(x) for x in sample) > MOST_ELEMENTS:
            return f"the function has more than {MOST_ELEMENTS:,} numbers"
        return "the function has a loop without a reverse derivative" if has_open_loop(self.before.jaxpr) else ""

    def _inputs(self, sample: Sequence[Any]) -> Iterator[tuple[str, float, list[Any]]]:
        """The sample, and probes that change the floating-point inputs."""
        yield "the sample", 0.0, list(sample)
        moving = [i for i, x in enumerate(sample) if _format(x) is not None and i not in self.fixed]
        slots = [Slot(_format(sample[i]) or "", self.intervals[i] or ANYTHING, np.asarray(sample[i])) for i in moving]
        for probe in probes(slots):
            if probe.name == "the sample" or any(not np.isfinite(a.astype(np.float64)).all() for a in probe.arrays):
                continue
            changed = list(sample)
            for index, array in zip(moving, probe.arrays, strict=True):
                changed[index] = array
            yield probe.name, probe.negligible, changed

    @property
    def _stops(self) -> bool:
        return any(step.ends_gradient for step in self.captured.program.steps)

    def _found(self, inputs: Sequence[Any], wanted: Sequence[int]) -> tuple[list[list[Array]], list[Array | None]] | None:
        """The gradients before and after, then both in float64; weights of the results, 0 where one is not defined."""
        before, after, in_wide = self._functions(wanted)
        largest = min(FORMATS[_format(inputs[i]) or "f32"].largest for i in wanted)
        try:
            with apart(True):
                wide, weights = attempted(in_wide, [list(map(raised, inputs)), largest])
                exact = [[np.array(g) for g in found] for found in wide]
            with apart():
                narrow = [[np.array(g) for g in attempted(each, [list(inputs), weights])] for each in (before, after)]
        except ModelError:
            return None
        counted = [None if w is None else np.asarray(w) for w in weights]
        return [*narrow, *exact], counted

    def _next_to(
        self, inputs: Sequence[Any], wanted: Sequence[int], which: int, position: int, unit_roundoff: float, random: np.random.Generator
    ) -> Array | None:  # fmt: skip
        """One of the gradients of `_found` on inputs some units in the last place away."""
        near = [
            next_to(np.asarray(x), form, unit_roundoff, random).astype(np.asarray(x).dtype) if (form := _format(x)) else x for x in inputs
        ]
        found = self._found(near, wanted)
        return found[0][which][position] if found is not None else None

    def _functions(self, wanted: Sequence[int]) -> list[Callable[..., Any]]:
        if not self._made:
            wide = in_float64(self.before), in_float64(self.after)

            def both(inputs: Any, largest: Any) -> Any:
                weights = _weights(wide[0](*inputs), wide[1](*inputs), largest)
                return [_gradient(function, wanted)(inputs, weights) for function in wide], weights

            plain = [jax.jit(_gradient(jex.jaxpr_as_fun(closed), wanted)) for closed in (self.before, self.after)]
            self._made = [*plain, jax.jit(both, compiler_options=QUICKLY)]
        return self._made

    def _arbiter(
        self, block: Block, imported: Any, inputs: Sequence[Any], index: int, weights: Sequence[Array | None]
    ) -> Callable[[int], float | None]:  # fmt: skip
        """The derivative over the reals; unknown where a gradient is stopped, or a result has no counterpart in the module."""
        program = self.captured.program
        values = dict(zip(program.inputs, inputs, strict=True))
        keys = self.captured.arguments
        if self._stops or program.inputs[index] not in keys or self.captured.results != program.outputs:
            return lambda position: None
        arrays = [np.asarray(values.get(key, program.constants.get(key))) for key in keys]
        return Arbiter(block, arrays, keys.index(program.inputs[index]), weights, imported.weight).derivative


def _gradient(function: Callable[..., Any], wanted: Sequence[int]) -> Callable[..., Any]:
    """The gradients of the weighted floating-point results by the wanted inputs."""

    def gradients(inputs: Any, weights: Any) -> Any:
        def chosen(*moving: Any) -> list[Any]:
            given = list(inputs)
            for index, x in zip(wanted, moving, strict=True):
                given[index] = x
            return [r for r in function(*given) if jnp.issubdtype(r.dtype, jnp.floating)]

        results, pull = jax.vjp(chosen, *(inputs[i] for i in wanted))
        counted = [w for w in weights if w is not None]
        return pull([w.astype(r.dtype).reshape(r.shape) for w, r in zip(counted, results, strict=True)])

    return gradients


def _weights(first: Sequence[Any], second: Sequence[Any], largest: Any) -> list[Any]:
    """The weights of results that are finite before and after in float64, and in the function's own type; None of a result that is no
    floating-point number."""
    found: list[Any] = []
    for a, b in zip(first, second, strict=True):
        known = (jnp.abs(a) <= largest) & (jnp.abs(b) <= largest)
        found.append(jnp.where(known, weight_of(a.size).reshape(a.shape), 0.0) if jnp.issubdtype(a.dtype, jnp.floating) else None)
    return found


def _format(x: Any) -> str | None:
    return _NAMES.get(getattr(getattr(x, "dtype", None), "name", ""))
