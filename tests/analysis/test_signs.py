"""Signs over the reals, beside numbers of every operation, and where a range of floating-point numbers ends at 0."""

from __future__ import annotations

import numpy as np
import pytest

from hnfc.analysis.ranges import Ranges, interval_of_array
from hnfc.analysis.signs import Sign, SignMath, sign_of
from hnfc.dialects.facts import Math
from hnfc.dialects.interval import Interval
from hnfc.dialects.num import OPERATIONS
from tests.dialects.building import operation
from tests.dialects.samples import ALL, Sample
from tests.graphs import Graph


@pytest.mark.parametrize(("name", "sample"), ALL)
@pytest.mark.parametrize("shift", [-1, 0, 1])
def test_no_number_has_a_sign_that_is_left_out(name: str, sample: Sample, shift: int) -> None:
    if OPERATIONS[name].FACTS.real is None:
        pytest.skip("no formula")
    arrays = [np.abs(a) * shift if shift and a.dtype == np.float64 else a for a in sample.operands(0)]
    _, made = operation(name, arrays, sample.attributes)
    ranges = Ranges({argument: interval_of_array(array) for argument, array in zip(made.operands, arrays, strict=True)})
    sign = sign_of(made.results[0], ranges)
    with np.errstate(all="ignore"):
        found = np.asarray(made.compute(*arrays))
    if found.dtype != np.float64:
        return
    assert sign.negative or not (found < 0).any()
    assert sign.positive or not (found > 0).any()
    # a 0 may be a positive number that underflowed, which these are too large for, or rounded to 1 and subtracted
    assert sign.zero or not (found == 0).any() or name in ("erfc", "sigmoid", "softmax")


ANYTHING = Interval(-np.inf, np.inf)


@pytest.mark.parametrize(
    ("made", "sign"),
    [
        (lambda g, x, y: g.softmax(x, axes=(1,)), Sign(False, False, True)),
        (lambda g, x, y: g.div(g.sigmoid(x), g.exp(y)), Sign(False, False, True)),
        (lambda g, x, y: g.neg(g.sum(g.exp(x), axes=(1,))), Sign(True, False, False)),
        (lambda g, x, y: g.add(g.square(x), 1.0), Sign(False, False, True)),
        (lambda g, x, y: g.maximum(x, g.exp(y)), Sign(False, False, True)),
        (lambda g, x, y: g.mul(x, g.exp(y)), Sign(True, True, True)),
        (lambda g, x, y: g.reciprocal(g.relu(x)), Sign(True, True, True)),
        (lambda g, x, y: g.sub(g.exp(x), g.exp(y)), Sign(True, True, True)),
        (lambda g, x, y: g.cast(g.exp(x), to="f16"), Sign(False, False, True)),
    ],
)
def test_what_is_known_for_any_input(made, sign) -> None:
    g = Graph((2, 3), (2, 3))
    value = made(g, *g.args)
    assert sign_of(value, Ranges(dict.fromkeys(g.args, ANYTHING))) == sign


def test_every_primitive_of_a_meaning_has_signs() -> None:
    assert [name for name in vars(Math) if not name.startswith("_") and not hasattr(SignMath, name)] == []


def test_axes_without_elements_tell_nothing() -> None:
    g = Graph((2, 0))
    value = g.sum(g.exp(*g.args), axes=(1,))
    assert sign_of(value, Ranges(dict.fromkeys(g.args, ANYTHING))).zero
