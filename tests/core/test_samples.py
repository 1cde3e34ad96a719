"""Samples from files, and numbers next to them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hnfc.core.errors import ModelError
from hnfc.core.samples import from_file, moved
from tests.graphs import Graph


@pytest.mark.parametrize("element", ["f32", "f16", "bf16"])
def test_numbers_beyond_the_type_of_an_input_are_refused(element: str, tmp_path: Path) -> None:
    """They became infinities, and NumPy warned of them."""
    path = str(tmp_path / "samples.npz")
    np.savez(path, arg0=np.array([1.0, 1e300]))
    with pytest.raises(ModelError, match=f"`arg0` holds numbers that {element} cannot"):
        from_file(path, Graph((element, 2)).block)


def test_infinities_of_a_file_are_kept(tmp_path: Path) -> None:
    path, graph = str(tmp_path / "samples.npz"), Graph(("f32", 2))
    np.savez(path, arg0=np.array([1.0, np.inf]))
    (sample,) = from_file(path, graph.block)
    assert sample[graph.args[0]].tolist() == [1.0, np.inf]


def test_the_largest_number_may_move_beyond_the_format() -> None:
    largest = np.full(100, np.finfo(np.float64).max)
    near = moved(largest, "f64", 1.0, np.random.default_rng(0))
    assert np.isinf(near).any() and np.isfinite(near).any()
