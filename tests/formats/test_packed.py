"""A packed tensor holds what rounding gives, in as many bytes as the format says, and survives what people do to tensors."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch

from hnfc.formats.named import format_named
from hnfc.formats.packed import PackedTensor, is_packable, packed, unpacked
from hnfc.formats.scaled import split, stored_bytes
from hnfc.formats.torch_rounding import stored_values

FORMATS = (
    "Q8_0", "MXINT8", "MXFP8_E4M3", "MXFP6_E3M2", "MXFP4_E2M1", "NVFP4", "fp8_e4m3fn", "fp8_e5m2fnuz", "fp8_e3m4", "fp6_e2m3fn",
    "fp4_e2m1fn", "int8_affine(0.02)", "int8_affine(0.1, 3)", "uint8_affine(0.02, 100)", "int4_affine(0.3)", "int3_affine(0.5)",
    "fixed(3, 4)", "fixed(3, 8)", "log(8)", "minifloat_denorm(8, 4)", "block_fp(8, 8, 16)", "block_minifloat(8, 4, 4, 16)",
    "fp16*2^5", "fp16*2^-5", "fp8_e5m2*2^3", "mx(whole(4))",
)  # fmt: skip


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("shape", [(5, 37), (3,), (2, 3, 7, 5)], ids=str)
def test_elements_are_those_of_rounding(form: str, shape: tuple[int, ...]) -> None:
    assert is_packable(form)
    base, exponent = split(form)
    x = drawn(*shape)
    assert torch.equal(packed(x, form).dense(), stored_values(x * 2.0**-exponent, format_named(base)) * 2.0**exponent)


@pytest.mark.parametrize("form", ["Q8_0", "MXFP4_E2M1", "MXFP6_E3M2", "NVFP4", "fp8_e4m3fn", "int4_affine(0.3)", "int3_affine(0.5)"])
def test_bytes_are_those_of_the_format(form: str) -> None:
    size = sum(part.numel() * part.element_size() for part in packed(drawn(64, 64), form).parts())
    assert stored_bytes((64, 64), form) <= size <= stored_bytes((64, 64), form) + 4


@pytest.mark.parametrize("form", ["Q8_0", "NVFP4", "fp8_e4m3fn", "int4_affine(0.3)"])
def test_copies_files_and_other_types(form: str) -> None:
    x = packed(drawn(6, 64), form)
    saved = io.BytesIO()
    torch.save({"weight": torch.nn.Parameter(x)}, saved)
    saved.seek(0)
    loaded = torch.load(saved, weights_only=True)["weight"]
    for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.clone(), x.to("cpu"), loaded):
        assert isinstance(other, PackedTensor) and torch.equal(other.dense(), x.dense())
    assert x.to("meta").device.type == "meta" and x.half().dtype == torch.float16
    assert torch.equal(x @ torch.ones(64, 2), x.dense() @ torch.ones(64, 2))


def test_it_is_written_to_by_rounding_only() -> None:
    x, y = packed(drawn(4, 32), "Q8_0"), drawn(4, 32, seed=1)
    x.copy_(y)
    assert torch.equal(x.dense(), packed(y, "Q8_0").dense())
    with pytest.raises(TypeError, match=r"stored in Q8_0 cannot be changed in place by add_: train with apply\(train=True\)"):
        x.add_(1.0)


def test_gradients_are_of_the_elements() -> None:
    x = torch.nn.Parameter(packed(drawn(4, 32), "MXFP4_E2M1"))
    unpacked(x, torch.float32).square().sum().backward()
    assert x.grad is not None and torch.equal(x.grad, 2 * x.detach().dense())
