"""An export patches the original module: what changed is written anew, everything else stays as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from xdsl.ir import Operation, SSAValue

from hnfc.backend.torch_mlir import emit_bytecode, emit_linalg, emit_torch, export
from hnfc.dialects.num import OPERATIONS
from hnfc.frontend.reading import read
from hnfc.frontend.torch_mlir import Imported, import_module
from tests.exporting import export_torch
from tests.running import run_torch_mlir


def find(imported: Imported, name: str, index: int = 0) -> Any:
    return [op for op in imported.module.walk() if op.name == f"num.{name}"][index]


def replace(replaced: dict[SSAValue, SSAValue], old: Operation, new: Operation, *before: Operation) -> None:
    """What a rewriter does: the new operations stand before the old one, uses move, the old one goes."""
    block = old.parent_block()
    assert block is not None
    block.insert_ops_before([*before, new], old)
    for result, other in zip(old.results, new.results, strict=True):
        result.replace_all_uses_with(other)
        replaced[result] = other
    block.detach_op(old)


def softmax_by_hand(x: torch.Tensor) -> torch.Tensor:
    e = torch.exp(x)
    return e / e.sum(-1, keepdim=True)


X = np.array([[1000.0, 1000.0, 0.0], [1.0, 2.0, 3.0]], np.float32)


def test_a_fused_softmax_takes_the_place_of_its_parts() -> None:
    module = export_torch(softmax_by_hand, torch.from_numpy(X))
    imported, replaced = import_module(module), {}
    division = find(imported, "div")
    replace(replaced, division, OPERATIONS["softmax"].make(find(imported, "exp").x, axes=(1,)))
    text = emit_torch(export(imported, replaced))
    assert "aten.softmax.int" in text
    assert "aten.exp" not in text and "aten.sum" not in text and "aten.div" not in text
    np.testing.assert_allclose(run_torch_mlir(module, [X])[0], torch.softmax(torch.from_numpy(X), -1).numpy(), rtol=1e-6)


def test_dead_operations_of_the_user_stay() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.log(1 + x)

    module = export_torch(model, torch.from_numpy(X))
    text = str(module).replace(
        "return %", "%dead = torch.aten.cos %arg0 : !torch.vtensor<[2,3],f32> -> !torch.vtensor<[2,3],f32>\n return %"
    )
    imported, replaced = import_module(read(text.encode())), {}
    replace(replaced, find(imported, "log"), OPERATIONS["log1p"].make(find(imported, "add").x))
    after = emit_torch(export(imported, replaced))
    assert "aten.log1p" in after and "aten.cos" in after
    assert "aten.add" not in after and "aten.log " not in after


def test_chains_and_inner_values_of_an_operation_that_became_several() -> None:
    """sum without keepdim is a sum and a reshape: replacing the sum alone rewrites both."""
    module = export_torch(lambda x: x.sum(-1) * 2, torch.from_numpy(X))
    imported, replaced = import_module(module), {}
    first = OPERATIONS["pairwise_sum"].make(find(imported, "sum").x, axes=(1,))
    replace(replaced, find(imported, "sum"), first)
    second = OPERATIONS["sum"].make(first.x, axes=(1,), accumulate="f64")
    replace(replaced, first, second)
    text = emit_torch(export(imported, replaced))
    assert "f64" in text
    np.testing.assert_allclose(run_torch_mlir(module, [X])[0], X.sum(-1) * 2, rtol=1e-6)


def test_an_operand_changed_in_place_is_written() -> None:
    module = export_torch(lambda x: torch.exp(x) + 1, torch.from_numpy(X / 1000))
    imported = import_module(module)
    addition = find(imported, "add")
    wide = OPERATIONS["cast"].make(addition.x, to="f16")
    narrow = OPERATIONS["cast"].make(wide.result, to="f32")
    addition.parent_block().insert_ops_before([wide, narrow], addition)
    addition.operands[0] = narrow.result
    assert emit_torch(export(imported, {})).count("aten.to.dtype") == 2


def test_a_result_that_is_an_argument() -> None:
    module = export_torch(lambda x: torch.neg(torch.neg(x)), torch.from_numpy(X))
    imported, replaced = import_module(module), {}
    outer = find(imported, "neg", 1)
    source = find(imported, "neg").x
    outer.result.replace_all_uses_with(source)
    replaced[outer.result] = source
    outer.detach()
    text = emit_torch(export(imported, replaced))
    assert "aten.neg" not in text
    assert "return %arg0" in text


def test_locations_names_and_weights_survive() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.log(1 + torch.exp(self.linear(x)))

    torch.manual_seed(0)
    model = Model()
    module = export_torch(model, torch.from_numpy(X))
    imported, replaced = import_module(module), {}
    weight = next(op for op in imported.module.walk() if op.name == "num.weight" and op.result.type.get_shape() == (3, 3))
    np.testing.assert_array_equal(imported.weight(weight.weight_name), model.linear.weight.detach().numpy())
    logarithm = find(imported, "log")
    where = imported.location(logarithm)
    replace(replaced, logarithm, OPERATIONS["softplus"].make(find(imported, "exp").x))
    after = export(imported, replaced)
    bytes_after = emit_bytecode(after)
    assert model.linear.weight.detach().numpy().tobytes() in bytes_after
    assert where
    np.testing.assert_allclose(
        run_torch_mlir(after, [X / 1000])[0],
        torch.nn.functional.softplus(model.linear(torch.from_numpy(X / 1000))).detach().numpy(),
        rtol=1e-5,
    )


@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64"])
def test_scalars_keep_the_digits_of_a_double(element: str) -> None:
    text = f"""func.func @main(%x: !torch.vtensor<[4],{element}>) -> !torch.vtensor<[4],{element}> {{
      %y = torch.aten.neg %x : !torch.vtensor<[4],{element}> -> !torch.vtensor<[4],{element}>
      return %y : !torch.vtensor<[4],{element}> }}"""
    imported, replaced = import_module(read(text.encode())), {}
    old = find(imported, "neg")
    constant = OPERATIONS["constant"].make(value=0.1, element=element, shape=())
    replace(replaced, old, OPERATIONS["mul"].make(old.x, constant.result), constant)
    after = emit_torch(export(imported, replaced))
    assert "aten.mul.Scalar" in after
    assert "1.000000e-01" in after


def test_linalg_text() -> None:
    module = export_torch(softmax_by_hand, torch.from_numpy(X))
    before = str(module)
    assert "linalg.generic" in emit_linalg(module)
    assert str(module) == before


def test_dynamic_sizes() -> None:
    batch = torch.export.Dim("batch", min=2, max=64)
    module = export_torch(lambda x: softmax_by_hand(x).reshape(x.shape[0], 1, 3), torch.from_numpy(X), dynamic_shapes=({0: batch},))
    imported, replaced = import_module(module), {}
    before = emit_bytecode(module)
    assert emit_bytecode(export(imported, {})) == before
    replace(replaced, find(imported, "div"), OPERATIONS["softmax"].make(find(imported, "exp").x, axes=(1,)))
    after = export(imported, replaced)
    y = np.concatenate([X, X, X])
    np.testing.assert_allclose(run_torch_mlir(after, [y])[0][:, 0], torch.softmax(torch.from_numpy(y), -1).numpy(), rtol=1e-6)
