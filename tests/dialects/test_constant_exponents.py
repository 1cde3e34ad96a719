"""The power 0.5 of a constant is the root, whatever the number of elements, as in torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hnfc.dialects.num.binary_functions import power


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_root_is_the_same_alone_and_among_others(dtype):
    x = np.array([-np.inf, -0.0, 0.0, 2.0, 3.7, np.nan, np.inf], dtype)
    wanted = (torch.tensor(x) ** 0.5).numpy()
    with np.errstate(all="ignore"):
        for shape in ((), (1,), (1, 1)):
            half = np.full(shape, 0.5, dtype)
            found = power(x, half)
            np.testing.assert_array_equal(found.reshape(-1), wanted)
            assert np.signbit(found).reshape(-1)[1]
            for one, right in zip(x, wanted, strict=True):
                np.testing.assert_array_equal(power(one.reshape(shape), half), np.full(shape, right))
