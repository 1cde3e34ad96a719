"""Functions of every kind give what they gave, whatever JAX does with them."""

from __future__ import annotations

import warnings

import pytest

jax = pytest.importorskip("jax")

from tests.jax.comparing import compare, optimized, rewrites  # noqa: E402
from tests.jax.examples import EXAMPLES  # noqa: E402

FAST = {
    "scan_lse": {"logaddexp_fusion"},
}
"""Some of each kind, with rules that run."""


@pytest.mark.parametrize("name", FAST)
def test_some_functions(name: str) -> None:
    function, arguments = EXAMPLES[name]
    better = optimized(function, *arguments)
    assert FAST[name] <= rewrites(better)
    assert len(compare(function, better, arguments)) > 3


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_function(name: str) -> None:
    function, arguments = EXAMPLES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if name in REFUSED else "error")
        better = optimized(function, *arguments)
    compare(function, better, arguments)


REFUSED: set[str] = set()
"""Functions that run as they were."""


def test_there_are_sixty() -> None:
    assert len(EXAMPLES) >= 60
