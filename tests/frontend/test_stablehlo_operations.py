"""Each operation of StableHLO, through the torch dialect and torch, gives what StableHLO's own interpreter gives."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from hnfc.backend.execution import runner
from hnfc.backend.stablehlo import emit_stablehlo, kept_operations
from hnfc.dialects.num.rounding import NUMPY_TYPES
from hnfc.frontend.models import read_model
from tests.interpreting import interpret

DATA = Path(__file__).parent.parent / "data" / "stablehlo"
_NAME, _GIVEN = re.compile(r"@(\w+)\("), re.compile(r"%arg\d+: tensor<([^>]*)>")


def functions(file: str) -> dict[str, str]:
    """Name → text of each function in a file of them."""
    parts = (DATA / file).read_text(encoding="utf-8").split("// -----")
    return {_NAME.search(part)[1]: part for part in parts}


OPERATIONS, KEPT = functions("operations.mlir"), functions("kept.mlir")


def inputs_of(text: str) -> list[np.ndarray]:
    """Arrays for a function: zeros of both signs among the floats, places below 0 and beyond the end among the integers."""
    generator = np.random.default_rng(len(text))
    return [_drawn(generator, kind) for kind in _GIVEN.findall(text)]


def _drawn(generator: np.random.Generator, kind: str) -> np.ndarray:
    *sizes, element = kind.split("x")
    shape = [int(size) for size in sizes]
    if element == "i1":
        return generator.random(shape) < 0.5
    if element.startswith(("i", "ui")):
        whole = np.asarray(generator.integers(1, 9, shape) * generator.choice([1, 1, -1], shape))
        return (np.abs(whole) * 31).astype(np.uint8) if element == "ui8" else whole.astype(np.int32)
    array = np.asarray(generator.normal(size=shape) * 1.5)
    if array.size >= 12:
        array.flat[:3] = 0.0, -0.0, 0.5
    return array.astype(NUMPY_TYPES[element])


def assert_same(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=3e-5, atol=3e-6)


@pytest.mark.sampled(40)
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_what_the_interpreter_says(name):
    text = OPERATIONS[name]
    inputs = inputs_of(text)
    module = read_model(text.encode())
    assert not list(kept_operations(module)), "torch has it"
    found = runner(module, name, "torch")(inputs)
    if "chlo." in text:
        assert_same(found, _special(name, inputs))
        return
    wanted = interpret(text, inputs)
    assert_same(found, wanted)
    assert_same(interpret(emit_stablehlo(module), inputs), wanted)


def _special(name, inputs):
    """SciPy's and NumPy's functions, for CHLO, which the interpreter does not have."""
    from scipy import special

    table = {"erf": special.erf, "erfc": special.erfc, "lgamma": special.gammaln, "digamma": special.digamma, "square": np.square}
    called = re.sub("^a(?=cos|sin|tan)", "arc", name.removesuffix("_of_chlo"))
    function = table.get(name) or getattr(np, called)
    with np.errstate(all="ignore"):
        return [function(inputs[0].astype(np.float64)).astype(np.float32)]


@pytest.mark.parametrize("name", KEPT)
def test_what_torch_lacks_goes_out_as_it_came(name):
    text = KEPT[name]
    inputs = inputs_of(text)
    module = read_model(text.encode())
    assert list(kept_operations(module))
    assert_same(interpret(emit_stablehlo(module), inputs), interpret(text, inputs))
    assert list(kept_operations(read_model(str(module).encode()))), "what hnfc writes, it reads"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.0, -0.0, 0.49999997, 2.5, -0.5, 1e-45])
@pytest.mark.parametrize("name", ["sign", "round_nearest_afz", "round_nearest_even", "logistic", "maximum", "minimum", "clamp_numbers"])
def test_special_values(name, value):
    text = OPERATIONS[name]
    inputs = [np.full_like(array, value if index == 0 else 1.0) for index, array in enumerate(inputs_of(text))]
    (found,), (wanted,) = runner(read_model(text.encode()), name, "torch")(inputs), interpret(text, inputs)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert np.isnan(wanted).any() or np.array_equal(np.signbit(found), np.signbit(wanted))
