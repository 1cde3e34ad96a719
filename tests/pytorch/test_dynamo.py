"""torch.compile(model, backend="hnfc")."""

from __future__ import annotations

import copy
from importlib.metadata import entry_points

import pytest
import torch

from hnfc.pytorch.dynamo import backend
from tests.pytorch.examples import Attention, Remembering


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
    torch._dynamo.reset()


def test_sizes_that_change_training_and_buffers():
    model = Attention()
    model.dropout.p = 0.0
    reference = copy.deepcopy(model)
    compiled = torch.compile(model, backend=backend, options={"inner": "eager"}, fullgraph=True)
    for batch in (2, 3, 5, 2):
        x = torch.randn(batch, 5, 8)
        found, wanted = compiled(x)["out"], reference(x)["out"]
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
        found.square().sum().backward()
        wanted.square().sum().backward()
    for a, b in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-4)
    for a, b in zip(model.buffers(), reference.buffers(), strict=True):
        torch.testing.assert_close(a, b)


def test_it_is_finite_where_the_original_is_not():
    model = Attention().eval()
    x = 200 * torch.randn(2, 5, 8)
    assert not torch.isfinite(model(x)["p"]).all()
    compiled = torch.compile(model, backend=backend, options={"inner": "eager"})
    assert torch.isfinite(compiled(x)["p"]).all()


def test_buffers_that_are_written_over():
    model = Remembering()
    reference = copy.deepcopy(model)
    compiled = torch.compile(model, backend=backend, options={"inner": "eager"})
    x = torch.randn(2, 4)
    torch.testing.assert_close(compiled(x), reference(x))
    torch.testing.assert_close(model.cache, reference.cache)


def test_a_graph_that_it_cannot_carry_goes_on_unchanged():
    def function(x):
        return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y * 2, (x,))

    compiled = torch.compile(function, backend=backend, options={"inner": "eager"})
    with pytest.warns(UserWarning, match="hnfc: a graph goes on unchanged: .*control flow that hnfc does not carry: torch[.]cond"):
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))


def test_unknown_options():
    with pytest.raises(Exception, match="the backend has no option `level`; it has group, inner"):
        torch.compile(Attention(), backend=backend, options={"level": 1})(torch.randn(2, 5, 8))


def test_it_is_found_by_its_name_where_hnfc_is_installed():
    if not entry_points(group="torch_dynamo_backends", name="hnfc"):
        pytest.skip("hnfc runs from its folder")
    assert "hnfc" in torch._dynamo.list_backends()
    model = Attention().eval()
    x = torch.randn(2, 5, 8)
    torch.testing.assert_close(torch.compile(model, backend="hnfc", options={"inner": "eager"})(x), model(x))


def test_sizes_that_the_rewritten_graph_is_not_for():
    compiled = torch.compile(lambda x: torch.exp(x.reshape(-1, 4)) / torch.exp(x.reshape(-1, 4)).sum(-1, keepdim=True), backend=backend,
                             options={"inner": "eager"}, dynamic=True)  # fmt: skip
    for shape in ((2, 4), (4, 4), (2, 6), (6, 2), (8, 5)):
        x = torch.randn(shape)
        torch.testing.assert_close(compiled(x), torch.softmax(x.reshape(-1, 4), -1))
