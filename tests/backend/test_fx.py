"""What is written in the torch dialect runs by torch itself, each operation by the one that it is named after."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hnfc.backend.fx import raise_function
from hnfc.backend.torch_mlir import build
from hnfc.core.errors import ModelError
from hnfc.core.tensors import to_numpy
from hnfc.dialects.types import FORMATS
from hnfc.frontend.reading import read
from tests.dialects.building import assert_close, doubles, flat, operation, to_torch
from tests.dialects.samples import ALL, NOT_IN_TORCH, NUMPY, SAMPLES, SOURCES, Sample
from tests.exporting import export_torch


@pytest.mark.sampled(110)
@pytest.mark.parametrize(
    ("name", "sample", "precision"),
    [(*case.values, "f32") for case in ALL] + [(name, samples[0], p) for name, samples in SAMPLES.items() for p in ("f64", "bf16")],
)
def test_every_operation(name: str, sample: Sample, precision: str) -> None:
    if (name in SOURCES and precision != "f64") or (name, precision) in NOT_IN_TORCH:
        pytest.skip("nothing to compare with")
    arrays = sample.operands(0, NUMPY[precision])
    module, _ = operation(name, arrays, sample.attributes)
    graph = raise_function(build(module))
    with torch.no_grad():
        got = graph(*map(to_torch, arrays))
    expected = flat(sample.torch(*map(to_torch, arrays)))
    for a, b in zip(got, expected, strict=True):
        assert a.dtype == b.dtype
        slack = 0 if sample.exact and precision == "f32" else max(sample.slack, 16.0)
        assert_close(to_numpy(a), doubles(to_numpy(b)), FORMATS[precision].unit_roundoff, slack)


ODD = {
    "a list of results": (lambda x: torch.cat(x.split(2, -1)[::-1], -1), [torch.randn(3, 4)]),
    "two results": (lambda x: torch.topk(x, 2).values + torch.max(x, -1, keepdim=True).values, [torch.randn(3, 4)]),
    "no number": (lambda x: torch.clamp(x, max=0.5), [torch.randn(3)]),
    "a dtype": (lambda x: x.to(torch.float16).sum(dtype=torch.float32), [torch.randn(3)]),
    "a memory format": (lambda x: x.contiguous(memory_format=torch.channels_last), [torch.randn(1, 2, 3, 4)]),
    "complex numbers": (lambda x: torch.fft.fft(x).real, [torch.randn(8)]),
    "integers": (lambda x: x // 3 + x % 3, [torch.arange(10)]),
    "booleans": (lambda x: (x > 0) & ~(x > 1), [torch.randn(8)]),
    "a constant of bfloat16": (lambda x: x * torch.tensor([1.5, 2.5], dtype=torch.bfloat16), [torch.randn(3, 2).bfloat16()]),
    "a constant of booleans": (lambda x: x * torch.tensor([True, False]), [torch.randn(3, 2)]),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("decompose", [False, True])
def test_odd_operands_and_results(name: str, decompose: bool) -> None:
    function, inputs = ODD[name]
    graph = raise_function(export_torch(function, *inputs, decompose=decompose))
    (got,) = graph(*inputs)
    torch.testing.assert_close(got, function(*inputs))


def test_arithmetic_on_sizes() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return (x / x.shape[0]).reshape(x.shape[0] * x.shape[1]) + (x.shape[1] // 2 - 1)

    batch = torch.export.Dim("batch", min=2, max=99)
    graph = raise_function(export_torch(function, torch.randn(4, 6), dynamic_shapes=[{0: batch}]))
    for rows in (2, 7):
        x = torch.randn(rows, 6)
        torch.testing.assert_close(graph(x)[0], function(x))


def test_it_is_differentiable_and_pickles() -> None:
    import pickle

    graph = pickle.loads(pickle.dumps(raise_function(export_torch(lambda x: torch.softmax(x * 2, -1), torch.randn(3)))))
    x = torch.randn(3, requires_grad=True)
    graph(x)[0][0].backward()
    assert x.grad is not None
    assert np.isfinite(x.grad.numpy()).all()


def test_faults_are_named() -> None:
    T = "!torch.vtensor<[2],f32>"
    module = read(
        f'func.func @main(%x: {T}) -> {T} {{\n  %0 = torch.operator "torch.aten.no_such"(%x) : ({T}) -> {T}\n  return %0 : {T}\n}}'.encode()
    )
    with pytest.raises(ModelError, match=r"torch has no operation `aten\.no_such`"):
        raise_function(module)
    with pytest.raises(ModelError, match="there is no function `other`"):
        raise_function(module, "other")
