"""Places of doubles, and errors in bits."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hnfc.accuracy.ordinals import LARGEST, bits_of_error, from_ordinal, to_ordinal

DOUBLES = st.floats(allow_nan=False)


@given(DOUBLES)
def test_a_place_is_one_of_one_double(x):
    there = to_ordinal(np.array([x]))
    assert from_ordinal(there)[0] == x


@given(st.integers(-LARGEST, LARGEST))
def test_a_double_is_one_of_one_place(n):
    assert to_ordinal(from_ordinal(np.array([n])))[0] == n


@given(DOUBLES, DOUBLES)
def test_places_are_in_the_order_of_the_doubles(x, y):
    a, b = to_ordinal(np.array([x, y]))
    assert (a < b) == (x < y) and (a == b) == (x == y)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_next_double_is_one_bit_away(x):
    assert bits_of_error(np.array([math.nextafter(x, math.inf)]), np.array([x]))[0] == 1


def test_bits():
    largest = np.finfo(np.float64).max
    computed = np.array([1.0, math.nan, -largest, 1.0 + 2.0**-50, -0.0])
    exact = np.array([1.0, 1.0, largest, 1.0, 0.0])
    found = bits_of_error(computed, exact)
    assert found[0] == 0 and found[1] == 64 and 63.9 < found[2] <= 64 and found[3] == math.log2(5) and found[4] == 0
