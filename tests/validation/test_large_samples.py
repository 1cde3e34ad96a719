"""A sample too large to vary costs nothing, however many of the model's own sizes are unknown."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.func import FuncOp

from hnfc.frontend.models import read_model
from hnfc.frontend.torch_mlir import import_module
from hnfc.validation import variations

TEXT = """func.func @main(%x: !torch.vtensor<[?,4],f32>) -> !torch.vtensor<[?,4],f32> {
  %r = torch.aten.tanh %x : !torch.vtensor<[?,4],f32> -> !torch.vtensor<[?,4],f32>
  return %r : !torch.vtensor<[?,4],f32>
}"""


def test_sizes_of_the_sample_count(monkeypatch):
    imported = import_module(read_model(TEXT.encode()))
    (function,) = (op for op in imported.module.ops if isinstance(op, FuncOp))
    block = function.body.block
    sample = {block.args[0]: np.full((100, 4), 0.25, np.float32)}
    near, scales = variations.varied(block, [sample], {}, frozenset())
    assert near and scales
    monkeypatch.setattr(variations, "MOST_VARIED", 399)
    assert variations.varied(block, [sample], {}, frozenset()) == ([], [])
