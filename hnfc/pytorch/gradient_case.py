"""The gradient by one argument on one input, before a rewrite and after it: whether it is worse, whatever rounding explains left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import fx

from hnfc.core.tensors import to_numpy
from hnfc.pytorch.differentiation import (
    ELEMENT_OF_DTYPE,
    REFUSALS,
    copied,
    detached,
    format_of_tensor,
    gradients_of,
    is_differentiable,
)
from hnfc.pytorch.gradient_terms import separate_uses
from hnfc.pytorch.kept_values import WithKept
from hnfc.validation.gradients import misses, next_to, rounding_noise, scale_noise, worse, worse_than_kept
from hnfc.validation.measurement import Leniency
from hnfc.validation.tolerance import TOLERATED_GROWTH

Array: TypeAlias = "np.ndarray[Any, Any]"
_UNITS_OF_TERMS = 4
"""Units roundoff of the largest term of a gradient, by which one may be off that was no number before the rewrite."""


@dataclass
class GradientCase:
    """Graphs, in the types of a model and in float64, each before and after, and their inputs. index: of the argument. unit_roundoff: that
    of the narrowest format on the way."""

    narrow: tuple[fx.GraphModule, fx.GraphModule]
    wide: tuple[fx.GraphModule, fx.GraphModule]
    inputs: Sequence[Any]
    doubled: Sequence[Any]
    index: int
    returned: Sequence[bool]
    defined: Sequence[Any]
    unit_roundoff: float

    def reason(self, arrays: Sequence[Array], derivative: Callable[[int], float | None], rules: Leniency) -> str:
        """The reason why the gradient is worse after the rewrite; empty where it is not.

        arrays: the gradient before and after, then both in float64. derivative: of the results over the reals, by one element.
        """
        form = format_of_tensor(self.inputs[self.index])
        found = worse(arrays, form, derivative, rules)
        if found and rules.mixing:
            # sums that cancel leave rounding, in their own type and in float64
            noise = max(self._noise(self.narrow[0], arrays[0], self.inputs), self._noise(self.wide[0], arrays[2], self.doubled))
            rules = replace(rules, noise=TOLERATED_GROWTH * noise)
            found = worse(arrays, form, derivative, rules)
        if not found or np.isfinite(arrays[0].astype(np.float64)).all():
            return found
        allowed = TOLERATED_GROWTH * self._noise(self.wide[1], arrays[3], self.doubled) if rules.mixing else 0.0
        if misses(arrays, form, derivative, replace(rules, unnoticed=allowed)):
            return found
        # what came before the rewrite may have no digit left, as the scores of a softmax; its gradient is right for those
        kept = self._of_kept()
        found = worse_than_kept(arrays, kept, form, derivative, rules)
        if not found:
            return ""
        loosened = replace(rules, unnoticed=self._unnoticed(form, arrays, rules.mixing))
        found = worse(arrays, form, derivative, loosened)
        return found and worse_than_kept(arrays, kept, form, derivative, loosened)

    def _unnoticed(self, form: Any, arrays: Sequence[Array], mixing: bool) -> Array:
        """The error of each element that terms which cancel may leave, where before there was no number."""
        of_terms = np.asarray(_UNITS_OF_TERMS * form.unit_roundoff * self._largest_terms())
        if not mixing:
            return of_terms
        noise = TOLERATED_GROWTH * self._noise(self.narrow[1], arrays[1], self.inputs)
        scale = scale_noise(form, self._results(), to_numpy(self.inputs[self.index]))
        return np.asarray(np.maximum(of_terms, max(noise, scale)))

    def _results(self) -> list[tuple[Array, Array]]:
        """The results after the rewrite in float64, each with the mask of the elements that count."""
        with torch.no_grad():
            results = self.wide[1](*map(detached, self.doubled))
        return [(to_numpy(result), to_numpy(known)) for result, known in zip(results, self.defined, strict=True) if known is not None]

    def _noise(self, graph: fx.GraphModule, found: Array, inputs: Sequence[Any]) -> float:
        unit = self.unit_roundoff if inputs is self.inputs else 0.0
        return rounding_noise(found, partial(self._next_to, graph, inputs, unit))

    def _gradient(self, graph: fx.GraphModule | WithKept, inputs: Sequence[Any]) -> Array | None:
        found = gradients_of(graph, inputs, [self.index], self.returned, self.defined)
        return to_numpy(found[0]) if found is not None else None

    def _next_to(self, graph: fx.GraphModule, inputs: Sequence[Any], unit_roundoff: float, random: np.random.Generator) -> Array | None:
        """The gradient of a graph on inputs some units in the last place away."""

        def moved(tensor: torch.Tensor) -> torch.Tensor:
            return torch.tensor(next_to(to_numpy(tensor), ELEMENT_OF_DTYPE[tensor.dtype], unit_roundoff, random), dtype=tensor.dtype)

        return self._gradient(graph, [moved(t) if is_differentiable(t) else t for t in inputs])

    def _of_kept(self) -> Array | None:
        """The gradient in float64 from values that were computed in the model's types before the rewrite; None where torch has none."""
        graph = WithKept(*self.narrow, self.wide[1])
        try:
            graph.record([detached(value) for value in self.inputs])
        except REFUSALS:
            return None
        return self._gradient(graph, self.doubled)

    def _largest_terms(self) -> Array:
        """The size of the largest term of each element of a gradient, which is a sum over the uses of the argument; 0 for a single one:
        where terms cancel, their rounding is no fault of a form."""
        graph = copied(self.wide[1])
        uses = separate_uses(graph, self.index)
        places = range(len(self.doubled), len(self.doubled) + uses)
        given = [*self.doubled, *[self.doubled[self.index]] * uses]
        found = gradients_of(graph, given, places, self.returned, self.defined) if uses > 1 else None
        sizes = [np.nan_to_num(np.abs(to_numpy(term)), nan=0.0, posinf=0.0) for term in found or ()]
        return np.asarray(np.max(sizes, axis=0) if sizes else 0.0)
