"""The reader of GGUF finds the numbers that were stored."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from hnfc.deployment.gguf import write_gguf
from hnfc.deployment.weights import plain
from hnfc.formats.packed import packed
from tests.deployment.embedded import analyzed

gguf = pytest.importorskip("gguf")


def read(path: Path) -> dict[str, torch.Tensor]:
    tensors = gguf.GGUFReader(str(path)).tensors
    is_plain = {t.name: t.tensor_type.name in ("I8", "I64", "F64") for t in tensors}
    arrays = {t.name: t.data if is_plain[t.name] else gguf.quants.dequantize(t.data, t.tensor_type) for t in tensors}
    return {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}


@pytest.mark.parametrize(("formats", "kinds"), [
    (("Q8_0",), {"Q8_0", "I64"}), (("q4_0",), {"Q4_0", "F32", "I64"}), (("Q4_0", "bf16"), {"Q4_0", "BF16", "I64"}),
    (("int8",), {"F32", "I64"}), (("fp16",), {"F16", "I64"}),
])  # fmt: skip
def test_the_numbers_are_those_that_are_stored(tmp_path: Path, formats: tuple[str, ...], kinds: set[str]) -> None:
    found = analyzed(*formats, least="parameters")
    types = found.to_gguf(tmp_path / "m.gguf")
    assert set(types.values()) == kinds
    state, there = found.apply().state_dict(), read(tmp_path / "m.gguf")
    assert there.keys() == state.keys()
    assert all(torch.equal(there[name].reshape(t.shape), plain(t).to(there[name].dtype)) for name, t in state.items())


def test_shapes_and_types(tmp_path: Path) -> None:
    draw = torch.Generator().manual_seed(0)
    state = {
        "whole": packed(torch.randn(3, 4, 64, generator=draw), "Q8_0"), "short": packed(torch.randn(6, 20, generator=draw), "Q4_0"),
        "one": torch.tensor(2.5, dtype=torch.bfloat16), "mask": torch.tensor([True, False]), "wide": torch.randn(3, dtype=torch.float64),
        "narrow": packed(torch.randn(5, 7), "fp8_e4m3fn"),
    }  # fmt: skip
    types = write_gguf(tmp_path / "m.gguf", state, "hnfc")
    assert types == {"whole": "Q8_0", "short": "F32", "one": "BF16", "mask": "I8", "wide": "F64", "narrow": "F32"}
    there = read(tmp_path / "m.gguf")
    assert all(torch.equal(there[name].reshape(t.shape).double(), plain(t).double()) for name, t in state.items())
