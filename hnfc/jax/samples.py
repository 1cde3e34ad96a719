"""An array for every input of a traced function, where the caller has none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from hnfc.jax.steps import Equations


def sample_of(program: Equations, given: Sequence[Any] | None) -> list[Any] | None:
    """The caller's arrays, or drawn ones: normal numbers, small indices; None for a type that none can be drawn of."""
    if given is not None:
        return [x if _is_key(x) else np.asarray(x).astype(program.avals[key].dtype) for key, x in zip(program.inputs, given, strict=True)]
    random = np.random.default_rng(0)
    drawn = [_drawn(program.avals[key], random) for key in program.inputs]
    return None if any(x is None for x in drawn) else drawn


def _is_key(x: Any) -> bool:
    return hasattr(x, "dtype") and jax.dtypes.issubdtype(x.dtype, jax.dtypes.extended)


def _drawn(aval: Any, random: np.random.Generator) -> Any:
    if _is_key(aval):
        if aval.dtype.name != "key<fry>":
            return None
        return jax.random.wrap_key_data(np.zeros((*aval.shape, 2), np.uint32), impl="threefry2x32")
    if aval.dtype.kind in "iub":
        return random.integers(0, 2, aval.shape).astype(aval.dtype)
    numbers = random.standard_normal(aval.shape)
    return (numbers + 1j * random.standard_normal(aval.shape) if aval.dtype.kind == "c" else numbers).astype(aval.dtype)
