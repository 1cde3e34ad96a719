"""x[i, j] with tensors of integers: one look-up along the merged axes, as masks of transformers need it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hnfc.backend.torch_mlir import build
from hnfc.core.interpreter import evaluate
from hnfc.frontend.torch_mlir import import_module
from tests.exporting import export_torch
from tests.running import run_torch_mlir

X = torch.arange(24.0).reshape(2, 3, 4)
I = torch.tensor([[0], [-1]])
J = torch.tensor([[2, 0, -2]])


@pytest.mark.parametrize(
    "look_up",
    [lambda x, i, j: x[i, j], lambda x, i, j: x[:, i, j], lambda x, i, j: x[i.abs(), j, i], lambda x, i, j: x[:, 1][:, j[0]]],
)
def test_several_indices_are_one_look_up(look_up: object) -> None:
    module = export_torch(look_up, X, I, J)  # type: ignore[arg-type]
    imported = import_module(module)
    function = next(iter(imported.module.ops))
    block = function.regions[0].block
    assert not [op for op in block.ops if op.name == "num.opaque" and "index" in op.operation.data]  # type: ignore[attr-defined]
    expected = look_up(X, I, J).numpy()  # type: ignore[operator]
    arrays = [X.numpy(), I.numpy(), J.numpy()]
    found = evaluate(block, dict(zip(block.args, arrays, strict=True)))
    assert block.last_op is not None
    np.testing.assert_array_equal(found[block.last_op.operands[0]], expected)
    rebuilt = build(imported.module, module.context, imported.weight_attributes)
    np.testing.assert_array_equal(run_torch_mlir(rebuilt, arrays)[0], expected)


def test_indices_apart_stay_opaque() -> None:
    imported = import_module(export_torch(lambda x, i: x[i, :, i], X, torch.tensor([0, 1])))
    assert "aten.index.Tensor" in str(imported.module)
