"""PyTorch's op_db, by `make suites`: none wrong, none that raises or ends the process; a part of it by default."""

from __future__ import annotations

import pytest

from tests.suites import forked
from tests.suites.preparing import prepared

DAILY = (
    "nn.functional.softmax", "nn.functional.layer_norm", "nn.functional.scaled_dot_product_attention", "nn.functional.conv2d",
    "nn.functional.cross_entropy", "nn.functional.instance_norm", "std", "logsumexp", "matmul", "index_select", "sort", "where", "svd",
)  # fmt: skip
WRONG_IN_TORCH = {"as_strided_scatter"}
"""torch's own gradient is wrong: that of an element which is overwritten is not 0."""


def outcomes(**options):
    pytest.importorskip("expecttest")  # op_db needs it
    from tests.suites import op_db

    with prepared():
        return list(forked.run(op_db.cases(**options), seconds=180))


def faults(found):
    return [str(outcome) for outcome in found if outcome.kind in forked.FAULTS and outcome.name.split()[0] not in WRONG_IN_TORCH]


@pytest.mark.slow
def test_what_is_used_daily():
    found = outcomes(names=DAILY, types=("float32",), samples=1)
    assert len(found) >= len(DAILY)
    assert faults(found) == []
    assert [str(outcome) for outcome in found if outcome.kind != forked.RIGHT] == []


@pytest.mark.suites
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int64", "bool", "complex64"])
def test_all(dtype):
    found = outcomes(types=(dtype,))
    print(dtype, forked.counts(found))
    assert faults(found) == []
