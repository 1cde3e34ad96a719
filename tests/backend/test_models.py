"""Real models with random weights: nothing unexpected is opaque, an export without changes is the input, numbers are torch's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_mlir import ir

from hnfc.backend.torch_mlir import build, emit_bytecode, export
from hnfc.frontend.reading import read
from hnfc.frontend.torch_mlir import Imported, import_module
from tests.exporting import export_torch
from tests.models import MODELS
from tests.running import run_torch_mlir

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore")]

WALLS = (
    "torch.constant.", "torch.prim.", "torch.aten._assert_tensor_metadata", "torch.aten.index.Tensor", "torch.aten.empty",
    "torch.aten.Int.bool", "torch.aten.full_like", "torch.operator",
)  # fmt: skip
"""The plumbing of masks and assertions, which holds no numerics."""


def opaque(imported: Imported) -> set[str]:
    return {op.operation.data for op in imported.module.walk() if op.name == "num.opaque"}


def exported(name: str, decompose: bool) -> tuple[ir.Module, torch.nn.Module, tuple[torch.Tensor, ...]]:
    pytest.importorskip("transformers")
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    return export_torch(model, *inputs, decompose=decompose), model.eval(), inputs


@pytest.mark.parametrize("decompose", [True, False])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_import_and_export_change_nothing(name: str, decompose: bool) -> None:
    module, _, _ = exported(name, decompose)
    before, text = emit_bytecode(module), str(module)
    imported = import_module(module)
    imported.module.verify()
    assert {found for found in opaque(imported) if not found.startswith(WALLS)} <= {"torch.aten.add_.Tensor"}
    if "torch.aten.add_.Tensor" not in opaque(imported):  # an in-place operation on values, which MLIR does not accept either
        assert emit_bytecode(export(imported, {})) == before
        assert str(module) == text


@pytest.mark.parametrize("name", sorted(MODELS))
def test_what_num_alone_says_computes_what_the_model_computes(name: str) -> None:
    module, model, inputs = exported(name, decompose=True)
    imported = import_module(module)
    rebuilt = build(imported.module, module.context, imported.weight_attributes)
    with torch.no_grad():
        expected = model(*inputs).numpy()
    (got,) = run_torch_mlir(rebuilt, [tensor.numpy() for tensor in inputs])
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_torch_backend_form_is_read(name: str) -> None:
    from hnfc.backend.torch_mlir import lower_to_torch_backend

    module, _, _ = exported(name, decompose=True)
    lowered = lower_to_torch_backend(module)
    imported = import_module(lowered)
    imported.module.verify()
    assert not {found for found in opaque(imported) if not found.startswith(WALLS)}
    before = emit_bytecode(lowered)
    assert emit_bytecode(export(imported, {})) == before
    assert str(read(before)) == str(lowered)
