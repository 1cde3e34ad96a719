"""Files of samples: what is broken, empty, no number, or unpacks to far too much is one line of error."""

from __future__ import annotations

import os

import numpy as np
import pytest

from hnfc.core import archives
from hnfc.core.errors import ModelError
from hnfc.core.samples import from_file
from hnfc.frontend.reading import read
from hnfc.frontend.torch_mlir import import_module

MODEL = b"""func.func @main(%x: !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32> {
  return %x : !torch.vtensor<[2],f32>
}"""


def samples(path):
    (function,) = import_module(read(MODEL)).module.ops
    return from_file(str(path), function.body.block)


def truncated(path):
    np.savez(path, arg0=np.ones((3, 2), "f4"))
    path.write_bytes(path.read_bytes()[:100])


def another_crc(path):
    np.savez(path, arg0=np.ones((3, 2), "f4"))
    data = bytearray(path.read_bytes())
    data[200] ^= 255
    path.write_bytes(data)


def one_array(path):
    with path.open("wb") as file:
        np.save(file, np.ones(2, "f4"))


BROKEN = {
    "truncated": truncated, "crc": another_crc, "npy": one_array, "pipe": os.mkfifo, "folder": os.mkdir,
    "text": lambda path: path.write_text("no archive"),
    "nothing": lambda path: np.savez(path),
    "objects": lambda path: np.savez(path, arg0=np.array([{}], object)),
    "words": lambda path: np.savez(path, arg0=np.array(["a", "b"])),
    "complex": lambda path: np.savez(path, arg0=np.ones(2, "c8")),
    "no sample": lambda path: np.savez(path, arg0=np.ones((0, 2), "f4")),
    "NaN": lambda path: np.savez(path, arg0=np.full((3, 2), np.nan, "f4")),
    "missing": lambda path: None,
}  # fmt: skip


@pytest.mark.parametrize("kind", BROKEN)
def test_one_line_of_error(kind, tmp_path):
    BROKEN[kind](tmp_path / "f.npz")
    with pytest.raises(ModelError) as raised:
        samples(tmp_path / "f.npz")
    assert "\n" not in str(raised.value)


def test_what_unpacks_to_far_more_than_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "_LARGE", 2**16)
    np.savez_compressed(tmp_path / "f.npz", arg0=np.zeros((2**17, 2), "f4"))
    with pytest.raises(ModelError, match="unpack to 104"):
        samples(tmp_path / "f.npz")


def test_samples_are_read(tmp_path):
    np.savez_compressed(tmp_path / "f.npz", arr_0=np.array([[1, 2], [3, np.nan]], "f8"))
    assert [next(iter(sample.values())).tolist()[0] for sample in samples(tmp_path / "f.npz")] == [1, 3]
