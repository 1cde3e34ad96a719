"""Old against new: what counts as worse, and samples that include the corners of the ranges."""

from __future__ import annotations

import numpy as np
import pytest

from hnfc.core.errors import ModelError
from hnfc.core.samples import declared, drawn, from_file, parse_range
from hnfc.dialects.interval import Interval
from hnfc.dialects.types import FORMATS
from hnfc.validation.measurement import Error, Leniency, Reference, measure, regression
from hnfc.validation.probes import Probe, Slot, probes
from tests.graphs import Graph

F32 = FORMATS["f32"]
U = F32.unit_roundoff


def test_what_counts_as_worse():
    def error(relative, common=None, scaled=None, not_finite=0):
        return Error(not_finite, relative, 10, relative if common is None else common, relative if scaled is None else scaled)

    fine = error(1e-7)
    assert error(0.0, not_finite=1).worse_than(fine, U), "one more value that is not finite"
    assert not error(1.0).worse_than(error(0.0, not_finite=1), U), "one less"
    assert not error(8e-7).worse_than(fine, U), "within 16 units roundoff"
    assert error(1e-4).worse_than(fine, U)
    assert not error(1e-4).worse_than(error(5e-5), U), "the same order"
    assert not error(1e-4, 1e-7, 1e-7).worse_than(fine, U), "one small element of a hundred"
    assert error(1e-4, 1e-4, 1e-7).worse_than(fine, U), "many small elements"
    assert error(1e-4, 1e-7, 1e-4).worse_than(fine, U), "a large element"


def test_errors_are_relative_and_overflow_of_the_truth_is_nobodys_fault():
    truth = np.array([1.0, 1e300, np.nan, 0.0])
    error = measure(np.float32([1 + 2**-20, np.inf, 7, 0]), truth, F32)
    assert (error.not_finite, error.elements) == (0, 4) and error.relative == pytest.approx(2**-20)
    assert measure(np.float32([np.nan, 0, 0, 0]), truth, F32).not_finite == 1


def test_the_reference_is_the_truth():
    g = Graph((2,))
    (x,) = g.args
    value = g.log(g.exp(x))
    g.returns(value)
    reference = Reference.of(g.block, [{x: np.float32([1e-10, 100])}], None)
    assert reference.kind == "exact"
    before = reference.before(value)
    assert before.not_finite == 1 and before.relative == pytest.approx(1.0)


def test_samples_hold_the_corners():
    g = Graph((4, 3), ("si64", 2))
    x, ids = g.args
    g.returns(g.exp(x))
    samples = drawn(g.block, declared(g.block, [("arg0", Interval(-2.0, 5.0))]))
    values = np.stack([s[x] for s in samples])
    assert values.min() == -2 and values.max() == 5 and values.dtype == np.float32
    assert all(s[ids].dtype == np.int64 for s in samples)
    assert drawn(g.block, {}) == []


@pytest.mark.parametrize(
    ("after", "right", "negligible", "is_worse"),
    [(0.0, 1.0, 0.0, True), (1.0, 1.0, 0.0, False), (0.0, 1e-20, 0.0, True), (0.0, 1e-20, 2**-48, False), (0.0, 1.0, 2**-48, True)],
)
def test_a_nan_becomes_no_wrong_number(after, right, negligible, is_worse):
    found = regression(np.array([np.nan]), np.array([after]), np.array([right]), F32, Leniency(negligible=negligible))
    assert bool(found) == is_worse


def test_what_is_negligible_on_a_probe():
    def probe(number: float) -> Probe:
        slot = Slot("f32", Interval(-2 * number, 2 * number), np.full(4, number, np.float32), (), 2)
        return next(iter(probes([slot])))

    assert [probe(number).negligible for number in (1.0, 1e9, 1e18, 1e-20, 1e20)] == [0, 0, 2**-48, 2**-48, np.inf]


@pytest.mark.parametrize(
    ("text", "expected"), [("arg0=-1:2.5", ("arg0", -1, 2.5)), ("-1e3:1e3", ("", -1e3, 1e3)), ("%arg1=0:inf", ("arg1", 0, np.inf))]
)
def test_ranges(text, expected):
    name, interval = parse_range(text)
    assert (name, interval.lo, interval.hi) == expected


@pytest.mark.parametrize("text", ["", "x", "x=", "x=1", "x=2:1", "x=nan:1", "x=a:b", "=1:2"])
def test_unreadable_ranges(text):
    with pytest.raises(ModelError, match="range"):
        parse_range(text)


def test_samples_from_a_file(tmp_path):
    g = Graph((2,), ("f16", 3))
    path = str(tmp_path / "s.npz")
    np.savez(path, arg0=np.zeros((5, 2)), arg1=np.ones(3))
    samples = from_file(path, g.block)
    assert len(samples) == 5 and samples[0][g.args[1]].dtype == np.float16
    for arrays, words in (
        ({"arg0": np.zeros(2)}, "no array `arg1`"),
        ({"arg0": np.zeros(3), "arg1": np.zeros(3)}, "has shape"),
        ({"arg0": np.zeros((2, 2)), "arg1": np.zeros((3, 3))}, "different numbers of samples"),
    ):
        np.savez(path, **arrays)
        with pytest.raises(ModelError, match=words):
            from_file(path, g.block)
    (tmp_path / "s.npz").write_text("no archive")
    with pytest.raises(ModelError, match="cannot read samples"):
        from_file(path, g.block)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Error(0, 1.0, 8, 1.0, 1e-20), "1.0e+00 (1e-20 of the largest)"),
        (Error(0, 1.0, 8, 1.0, 0.9), "1.0e+00"),
        (Error(0, 1e-3, 8, 1e-3, 1e-20), "1.0e-03"),
        (Error(3, 1.0, 8, 1.0, 1e-20), "3 of 8 not finite"),
    ],
)
def test_an_element_without_a_right_digit_may_be_tiny(error, text):
    assert str(error) == text
