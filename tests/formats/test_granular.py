"""Formats whose scales are found: names, bytes, and errors of what observers find."""

from __future__ import annotations

import io

import pytest
import torch

from hnfc.formats.granular import Granular
from hnfc.formats.named import UnknownFormat, canonical, format_named
from hnfc.formats.packed import PackedTensor, packed
from hnfc.formats.scaled import stored_bytes
from hnfc.formats.torch_rounding import stored_values
from hnfc.precision import round_to

FORMATS = (
    "int8", "int8/tensor", "int8/channel/zero", "int8/token", "int5/tensor", "int4", "int4/group64/zero/mse", "int4/channel/mse",
    "int3/channel/percentile99", "int2/group16/zero", "fp8/channel", "fp8_e5m2/token", "fp4_e2m1fn/group16", "Q4_0",
)  # fmt: skip


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("shape", [(6, 128), (5, 37), (7,), (2, 3, 5, 5), (), (0, 4)], ids=str)
def test_elements_are_those_of_rounding(form: str, shape: tuple[int, ...]) -> None:
    x = drawn(*shape)
    stored = packed(x, canonical(form))
    assert torch.equal(stored.dense(), stored_values(x, format_named(form)))


@pytest.mark.parametrize("form", FORMATS)
def test_bytes_are_those_of_the_format(form: str) -> None:
    size = sum(part.numel() * part.element_size() for part in packed(drawn(64, 128), canonical(form)).parts())
    assert size == stored_bytes((64, 128), canonical(form))


def test_names() -> None:
    names = {
        "int8": "int8/channel",
        "int4": "int4/group32",
        "fp8": "fp8_e4m3fn",
        "fp8/token": "fp8_e4m3fn/token",
        "mxfp4": "MXFP4_E2M1",
        "int8/mse/zero/tensor": "int8/tensor/zero/mse",
    }
    for given, name in names.items():
        assert canonical(given) == name and format_named(name) == format_named(given)
    assert not isinstance(format_named("int8_affine(1/50)"), Granular)


@pytest.mark.parametrize(("name", "words"), [
    ("int8/chanel", "did you mean `channel`"), ("int9", "no format `int9`"), ("int8/zero/zero", "twice"), ("fp16/channel", "8 bits"),
    ("fp8/channel/zero", "integers"), ("int4/group0", "group64"), ("int4/percentile20", "percentile99.9"), ("fp9/token", "fp9"),
])  # fmt: skip
def test_what_is_no_name_is_refused_with_a_way_out(name: str, words: str) -> None:
    with pytest.raises(UnknownFormat, match=words):
        format_named(name)


@pytest.mark.parametrize("form", ["int8/channel", "int8/tensor", "int8/token", "int4/group32", "int8/channel/zero", "int4/group16/zero"])
def test_no_element_is_off_by_more_than_half_a_step(form: str) -> None:
    found = format_named(form)
    assert isinstance(found, Granular)
    for scale in (1e-6, 1.0, 1e6):
        x = scale * (drawn(16, 64) + 3.0)
        # a scale in bfloat16 is off by a 256th, and so may be the greatest element
        limit = found.rounding_error(float(x.abs().max()))
        assert float((stored_values(x, found) - x).abs().max()) <= limit


def test_the_least_square_error_is_no_larger() -> None:
    x = drawn(32, 64)
    x[:, 0] *= 20
    for form in ("int4/channel", "int4/group32/zero", "int8/tensor"):
        plain, clipped = (float((round_to(x, name) - x).square().sum()) for name in (form, f"{form}/mse"))
        assert clipped <= plain * 1.0001


def test_a_percentile_leaves_out_the_largest() -> None:
    x = drawn(8, 1000)
    x[0, 0] = 1e3
    found = round_to(x, "int8/tensor/percentile99.9")
    assert float(found.max()) < 10 and float((found - x)[1:].abs().max()) < 1.0
    assert torch.equal(round_to(x, "int8/tensor/percentile100"), round_to(x, "int8/tensor"))


def test_a_zero_point_holds_what_is_above_0() -> None:
    x = drawn(4, 256).abs() + 1
    plain, shifted = (float((round_to(x, name) - x).norm()) for name in ("int4/channel", "int4/channel/zero"))
    assert shifted < 0.6 * plain
    assert float(round_to(torch.zeros(3, 4), "int8/channel/zero").abs().max()) == 0.0


def test_an_element_that_is_no_number_makes_its_part_none() -> None:
    x = drawn(3, 8)
    x[1, 2] = float("nan")
    assert torch.isnan(stored_values(x, format_named("int8"))).any(-1).tolist() == [False, True, False]


@pytest.mark.parametrize("form", ["int4/group64/zero", "fp8/channel"])
def test_copies_and_files(form: str) -> None:
    x, saved = packed(drawn(6, 64), canonical(form)), io.BytesIO()
    torch.save({"weight": torch.nn.Parameter(x)}, saved)
    saved.seek(0)
    loaded = torch.load(saved, weights_only=True)["weight"]
    assert isinstance(loaded, PackedTensor) and torch.equal(loaded.dense(), x.dense()) and len(loaded.parts()) == len(x.parts())


def test_arrays_are_refused() -> None:
    with pytest.raises(TypeError, match=r"torch\.from_numpy"):
        round_to([[1.0]], "int8")


def test_gradients_pass_unchanged() -> None:
    x = drawn(4, 8).requires_grad_(True)
    (3 * round_to(x, "int4/group16")).sum().backward()
    assert x.grad is not None and torch.equal(x.grad, torch.full((4, 8), 3.0))
