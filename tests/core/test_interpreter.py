"""Running a function: in the model's precision, in float64, and over the reals; with sizes that are not known when compiling."""

from __future__ import annotations

import numpy as np
import torch

from hnfc.core.interpreter import evaluate, evaluate_exactly
from hnfc.frontend.torch_mlir import import_module
from tests.exporting import export_torch
from tests.graphs import Graph


def block_of(module):
    imported = import_module(module)
    (function,) = imported.module.ops
    return imported, function.body.block


def test_half_precision_is_computed_in_float32_and_rounded_once():
    g = Graph(("f16", 2), ("f16", 2))
    x, y = g.args
    g.returns(g.add(g.mul(x, y), g.constant(1e-8, "f16")))
    a, b = np.float16([300, 1e-4]), np.float16([300, 1e-4])
    found = evaluate(g.block, {x: a, y: b})[g.block.last_op.operands[0]]
    expected = (torch.from_numpy(a) * torch.from_numpy(b) + 1e-8).numpy()
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == np.float16


def test_the_exact_value_does_not_cancel_or_overflow():
    g = Graph((3,))
    (x,) = g.args
    value = g.log(g.sub(1.0, g.exp(x)))
    g.returns(value)
    inputs = {x: np.float32([-1e-10, -80, 5])}
    exact = evaluate_exactly(g.block, inputs, [value], None, budget=1000)[value]
    np.testing.assert_allclose(exact[:2], [-23.025850930040455, -1.8048513878454153e-35], rtol=1e-7)
    assert np.isnan(exact[2]), "log of a negative number has no value"
    assert evaluate_exactly(g.block, inputs, [value], None, budget=2) == {}


def test_sizes_that_are_not_known_when_compiling():
    class Model(torch.nn.Module):
        def forward(self, x):
            return x.reshape(x.shape[0] * 2, -1).sum(-1)

    module = export_torch(Model(), torch.zeros(3, 4), dynamic_shapes=({0: torch.export.Dim("n")},))
    imported, block = block_of(module)
    x = np.arange(20, dtype=np.float32).reshape(5, 4)
    (argument,), (result,) = block.args, block.last_op.operands
    expected = x.reshape(10, -1).sum(-1)
    np.testing.assert_array_equal(evaluate(block, {argument: x}, imported.weight)[result], expected)
    np.testing.assert_array_equal(evaluate_exactly(block, {argument: x}, [result], imported.weight, budget=1000)[result], expected)
    long = np.zeros((500, *x.shape[1:]), x.dtype)
    assert evaluate_exactly(block, {argument: long}, [result], imported.weight, budget=1000) == {}, "the size that came is counted"


def test_integers_choose_rows_exactly():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(5, 3)

        def forward(self, ids):
            return torch.exp(self.table(ids))

    model = Model()
    ids = torch.tensor([[1, 4]])
    imported, block = block_of(export_torch(model, ids))
    (argument,), (result,) = block.args, block.last_op.operands
    exact = evaluate_exactly(block, {argument: ids.numpy()}, [result], imported.weight, budget=1000)[result]
    np.testing.assert_allclose(exact, np.exp(model.table(ids).detach().double().numpy()), rtol=1e-14)


def test_what_cannot_be_computed_is_left_out():
    g = Graph((3,))
    (x,) = g.args
    g.returns(g.exp(x))
    assert evaluate(g.block, {}) == {}
