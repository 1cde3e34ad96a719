"""The power 0.5 is the root, whatever the number of elements."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hnfc.dialects.num.binary_functions import power


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_a_root_is_the_same_alone_and_among_others(dtype):
    x = np.array([-np.inf, -0.0, 0.0, 2.0, 3.7, np.nan, np.inf], dtype)
    with np.errstate(all="ignore"):
        wanted = np.sqrt(x)
        if dtype != np.float16:
            np.testing.assert_array_equal((torch.tensor(x) ** 0.5).numpy(), wanted)
        np.testing.assert_array_equal(power(x, np.array(0.5, dtype)), wanted)
        np.testing.assert_array_equal(power(x, np.full(x.shape, 0.5, dtype)), wanted)
        for one, right in zip(x, wanted, strict=True):
            np.testing.assert_array_equal(power(one, np.full(1, 0.5, dtype)), [right])
        assert np.signbit(power(x, np.array(0.5, dtype)))[1]
        np.testing.assert_array_equal(power(x[3:5], np.array([0.5, 2], dtype)), [np.sqrt(x[3]), x[4] * x[4]])
