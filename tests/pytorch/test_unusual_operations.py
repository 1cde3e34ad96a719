"""Operations that write without saying so, that torch-mlir has no number type for, and graphs that fail where the model does not."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch

import hnfc
from hnfc.core.errors import ModelError
from hnfc.pytorch.optimized import programs_of
from tests.exporting import FunctionModule


@pytest.mark.parametrize("kind", [torch.nn.InstanceNorm1d, torch.nn.BatchNorm1d])
def test_running_statistics_change_by_calls_alone(kind):
    torch.manual_seed(0)
    model = torch.nn.Sequential(kind(5, track_running_stats=True), torch.nn.Tanh()).train()
    before = copy.deepcopy(model.state_dict())
    better, alike = hnfc.optimize(model, torch.randn(3, 5, 7)), copy.deepcopy(model)
    assert all(torch.equal(value, before[name]) for name, value in better.state_dict().items())
    x = torch.randn(3, 5, 7)
    torch.testing.assert_close(better(x), alike(x))
    for name, value in alike.state_dict().items():
        torch.testing.assert_close(better.state_dict()[name], value)


def test_statistics_that_are_inputs_stay_through_the_capture():
    def norm(x, mean, var):
        return torch.nn.functional.instance_norm(x, mean, var, use_input_stats=True, momentum=0.5)

    sample = (torch.randn(3, 5, 7), torch.zeros(5), torch.ones(5))
    hnfc.optimize(FunctionModule(norm), sample)
    assert not sample[1].any() and (sample[2] == 1).all()


@pytest.mark.parametrize("dtype", [torch.complex128, torch.uint16])
def test_a_type_that_the_importer_lacks_is_named(dtype):
    with pytest.raises(ModelError, match=str(dtype).removeprefix("torch.")):
        hnfc.optimize(FunctionModule(lambda x: x.abs().to(dtype)), torch.ones(3))


def test_a_graph_that_raises_where_the_model_does_not():
    better = hnfc.optimize(FunctionModule(lambda x: x * 2), torch.ones(3))
    programs_of(better)[0].graph = lambda *_: [].pop()
    with pytest.warns(UserWarning, match="its graph raises IndexError"):
        torch.testing.assert_close(better(torch.ones(3)), torch.full((3,), 2.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert better(torch.ones(3)).sum() == 6


def test_what_the_model_itself_raises_comes_through():
    better = hnfc.optimize(FunctionModule(lambda x, i: x[i]), (torch.arange(4.0), torch.tensor([1, 2])))
    with pytest.raises(IndexError, match="out of"):
        better(torch.arange(4.0), torch.tensor([1, 9]))


def test_the_place_of_the_largest_element_as_a_number():
    better = hnfc.optimize(FunctionModule(lambda x: torch.exp(x.argmax().float()) + x.sum()), torch.tensor([0.5, 3.0, -1.0]))
    torch.testing.assert_close(better(torch.tensor([0.5, 3.0, 9.0])), torch.exp(torch.tensor(2.0)) + 12.5)
    hnfc.optimize(FunctionModule(lambda x: x.argmax().float()), torch.tensor(2.5))


def test_a_gradient_without_memory():
    """The gradient of a sign is 0 everywhere, which torch keeps as a tensor without elements in memory."""
    x = torch.tensor([1.0, -2.0], dtype=torch.float64, requires_grad=True)
    rewritten = hnfc.optimize(FunctionModule(torch.sgn), (x,))
    (gradient,) = torch.autograd.grad(rewritten(x).sum(), x)
    assert (gradient + 0).tolist() == [0.0, 0.0]  # torch itself lists no elements that lie nowhere
