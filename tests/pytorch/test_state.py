"""A module that changes after it was optimized, and one that many threads call."""

from __future__ import annotations

import copy
import inspect
import pickle
import threading
import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import hnfc
from hnfc.core.errors import ModelError


class Weighted(nn.Module):
    """A condition on a parameter, and a value of each kind that capturing reads."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor([0.3, 0.5, 0.9]))
        self.factor, self.flag, self.shift = 2.0, False, torch.tensor(1.5)
        self.settings, self.layers = {"scale": 1.0}, [1.0]
        self.inner = nn.Sequential(nn.Linear(3, 3), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.log((self.w * torch.exp(self.inner(x))).sum(-1)) * self.factor
        return (-y if self.flag else y) + self.shift * self.settings["scale"] + len(self.layers)


def change_number(module: Any) -> None:
    module.factor = 3.0


def change_flag(module: Any) -> None:
    module.flag = True


def change_tensor(module: Any) -> None:
    module.shift = torch.tensor(7.0)


def change_tensor_in_place(module: Any) -> None:
    module.shift.mul_(3)


def change_settings(module: Any) -> None:
    module.settings["scale"] = 5.0


def change_list(module: Any) -> None:
    module.layers.append(2.0)


def change_submodule(module: Any) -> None:
    module.inner[1] = nn.Tanh()


def change_parameter(module: Any) -> None:
    module.w = nn.Parameter(torch.tensor([2.0, 3.0, 4.0]))


CHANGES = (
    change_number, change_flag, change_tensor, change_tensor_in_place, change_settings, change_list, change_submodule, change_parameter,
)  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_is_never_answered_by_the_old_graph(change: Any) -> None:
    torch.manual_seed(0)
    model, x = Weighted(), torch.randn(4, 3)
    better = hnfc.optimize(model, x, ranges="sample")
    reference = copy.deepcopy(model)
    for module in (better, reference):
        change(module)
    torch.testing.assert_close(better(x), reference(x))
    duplicate = pickle.loads(pickle.dumps(better))
    torch.testing.assert_close(duplicate(x), reference(x))
    change_number(duplicate)
    assert duplicate.factor == 3.0 and torch.isfinite(duplicate(x)).all()


def test_a_parameter_that_leaves_the_range_of_a_condition() -> None:
    torch.manual_seed(0)
    model, x = Weighted(), torch.randn(4, 3)
    better = hnfc.optimize(model, x, ranges="sample")
    assert [rewrite["rule"] for rewrite in hnfc.diff(model, better).data[0]["rewrites"]] == ["logsumexp_of_weighted"]
    with torch.no_grad():
        model.w[0] = -0.01
    with pytest.warns(UserWarning, match="`w` left"):
        result = better(x)
    torch.testing.assert_close(result, model(x))
    with torch.no_grad():
        model.w.mul_(1.001)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        torch.testing.assert_close(better(x), model(x))


SCALE, SETTINGS, SHIFT = 2.0, {"scale": 1.0}, torch.tensor(2.0)


def scaled(x: torch.Tensor) -> torch.Tensor:
    return torch.log(1 + torch.exp(x)) * SCALE


shape = (3,)
"""A global with the name of an attribute that `Shaped` reads."""


class Shaped(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log(1 + torch.exp(x)) * x.shape[0]


def test_an_attribute_is_no_global(monkeypatch: pytest.MonkeyPatch) -> None:
    better, x = hnfc.optimize(Shaped(), torch.randn(3)), torch.randn(3)
    known = list(better._hnfc.known)  # type: ignore[union-attr]
    monkeypatch.setitem(globals(), "shape", (4,))
    better(x)
    assert better._hnfc.known == known  # type: ignore[union-attr]


class Slotted:
    __slots__ = ("scale",)


class Reading(nn.Module):
    """Reads what is no attribute of the module itself: globals, also in a function, a class's attributes, slots, an outer variable."""

    factor, factors = 2.0, [3.0]

    def __init__(self, outer: list[float]) -> None:
        super().__init__()
        self.slotted, self.sign = Slotted(), 0.0
        self.slotted.scale = 1.0
        self.outer = lambda: outer[0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = scaled(x) * self.factor * self.factors[0] * self.slotted.scale * self.outer()
        return torch.stack((y * SETTINGS["scale"] + SHIFT, torch.copysign(y, torch.full_like(y, self.sign))))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["global", "container", "tensor", "class", "class_list", "slot", "outer", "sign"])
def test_state_outside_the_module(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    outer, home = [1.0], globals()
    model, x = Reading(outer), torch.randn(3)
    better = hnfc.optimize(model, x)
    torch.testing.assert_close(better(x), model(x))
    match name:
        case "global":
            monkeypatch.setitem(home, "SCALE", 5.0)
        case "container":
            monkeypatch.setitem(SETTINGS, "scale", 7.0)
        case "tensor":
            monkeypatch.setitem(home, "SHIFT", torch.tensor(9.0))
        case "class":
            monkeypatch.setattr(Reading, "factor", 11.0)
        case "class_list":
            monkeypatch.setattr(Reading, "factors", [13.0])
        case "slot":
            model.slotted.scale = 3.0
        case "outer":
            outer[0] = 4.0
        case "sign":
            model.sign = better.sign = -0.0
    torch.testing.assert_close(better(x), model(x))


@pytest.mark.parametrize("kind", ["number", "list", "new"])
def test_a_call_that_changes_the_module_is_not_captured(kind: str) -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.count, self.seen = 0.0, [1.0]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if kind == "number":
                self.count += 1
            elif kind == "list":
                self.seen.append(2.0)
            else:
                self.state = x.detach()
            return torch.log(1 + torch.exp(x)) * self.count + len(self.seen)

    model = Counting()
    with pytest.raises(ModelError, match="which a graph would not do"):
        hnfc.optimize(model, torch.randn(3))
    assert model.count == 0 and model.seen == [1.0] and not hasattr(model, "state")


def test_a_bias_that_comes_and_goes() -> None:
    model, x = nn.Sequential(nn.Linear(3, 3), nn.Softplus()), torch.randn(2, 3)
    better, bias = hnfc.optimize(model, x), model[0].bias
    for now in (None, bias):
        model[0].bias = now
        torch.testing.assert_close(better(x), model(x))


class Tripled(torch.autograd.Function):
    """A backward that torch.export does not keep."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.log(1 + torch.exp(x))

    @staticmethod
    def backward(ctx: Any, cotangent: torch.Tensor) -> torch.Tensor:
        return 3 * cotangent


def test_the_backward_of_a_custom_function() -> None:
    class Calling(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return Tripled.apply(x)  # type: ignore[no-any-return]

    better = hnfc.optimize(Calling(), torch.randn(2))
    for size in (2, 3):
        x = torch.randn(size, requires_grad=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            better(x).sum().backward()
        assert x.grad is not None and torch.equal(x.grad, torch.full((size,), 3.0))
    with torch.no_grad():
        assert torch.equal(better(torch.tensor([100.0])), torch.tensor([100.0]))


def test_arguments_that_differ_by_the_sign_of_zero() -> None:
    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor, scale: float) -> torch.Tensor:
            return torch.log(1 + torch.exp(x)) * scale

    x = torch.randn(3)
    better: Any = hnfc.optimize(Scaled(), (x, 0.0))
    assert torch.signbit(better(x, -0.0)).all() and not torch.signbit(better(x, 0.0)).any()
    for _ in range(3):
        better(x, float("nan"))
    assert len(better._hnfc.known) == 3


class Softmax(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        e = torch.exp(x)
        return e / e.sum(-1, keepdim=True)


def in_threads(count: int, work: Any) -> list[Any]:
    """Results of the work in each thread."""
    found: list[Any] = [None] * count

    def run(index: int) -> None:
        found[index] = work(index)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_many_threads_call_with_new_sizes() -> None:
    better = hnfc.optimize(Softmax(), torch.randn(2, 3))

    def work(index: int) -> bool:
        inputs = [200 * torch.randn(size, 3) for size in (index + 3, index + 9)]
        return all(torch.equal(better(x), torch.softmax(x, -1)) for x in inputs)

    assert all(in_threads(4, work))
    assert not torch.compiler.is_exporting()


class Scores(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log(torch.exp(x).sum((1, 2)))


def test_a_capture_notices_nothing_that_other_threads_run() -> None:
    better = hnfc.optimize(Scores(), torch.randn(2, 3, 4))
    captured = threading.Event()

    def work(index: int) -> bool:
        if index:
            while not captured.is_set():
                better(torch.randn(2, 3, 4))
            return True
        try:
            for shape in ((3, 3, 4), (5, 1, 4), (2, 7, 1)):
                better(torch.randn(shape))
        finally:
            captured.set()
        return True

    assert all(in_threads(3, work))
    assert [program.other_gradients for program in better._hnfc.known] == [""] * len(better._hnfc.known)  # type: ignore[union-attr]


def test_many_threads_optimize() -> None:
    large = torch.tensor([[1000.0, 1000.0]])
    assert all(torch.equal(r, torch.tensor([[0.5, 0.5]])) for r in in_threads(3, lambda _: hnfc.optimize(Softmax(), large)(large)))


def test_a_forward_that_is_set_around_ours() -> None:
    better: Any = hnfc.optimize(Softmax(), torch.randn(2, 3))
    inner = better.forward
    better.forward = lambda *args, **kwargs: 2 * inner(*args, **kwargs)
    x = torch.randn(5, 3)
    torch.testing.assert_close(better(x), 2 * torch.softmax(x, -1))


def test_a_forward_that_was_set_on_the_original() -> None:
    model: Any = Softmax()
    inner = model.forward
    model.forward = lambda x: inner(x) + 1
    better = hnfc.optimize(model, torch.randn(2, 3))
    x = torch.tensor([[1000.0, 1000.0]])
    torch.testing.assert_close(better(x), torch.tensor([[1.5, 1.5]]))


def test_the_signature_is_the_original_one() -> None:
    class Named(nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None, *, scale: float = 1.0) -> torch.Tensor:
            return torch.log(torch.sigmoid(x * scale))

    better = hnfc.optimize(Named(), torch.randn(3))
    assert list(inspect.signature(better.forward).parameters) == ["x", "mask", "scale"]


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(16, 64), Softmax(), nn.Linear(64, 16)) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return x


def saved(module: nn.Module, x: torch.Tensor) -> int:
    """The bytes that are kept for the backward pass."""
    found: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        found[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        module(x)
    return sum(found.values())


def test_checkpointed_activations_stay_checkpointed() -> None:
    model, x = Checkpointed(), torch.randn(32, 16, requires_grad=True)
    better = hnfc.optimize(model, x)
    with pytest.warns(UserWarning, match="checkpoints activations"):
        assert saved(better, x) == saved(model, x)
    with torch.no_grad():
        assert torch.isfinite(better(1e4 * x)).all()


def test_slices_of_other_lengths_are_not_captured_one_by_one() -> None:
    better: Any = hnfc.optimize(Softmax(), torch.randn(4, 20)[:, :-1])
    for length in range(5, 12):
        x = torch.randn(4, length)[:, :-1]
        torch.testing.assert_close(better(x), torch.softmax(x, -1))
    assert len(better._hnfc.known) <= 2


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor, others: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.log(torch.exp(x - others["y"]) + torch.exp(self.weight)) + x * others["z"] / x


@pytest.mark.parametrize("same", ["an input", "a parameter"])
def test_a_sample_that_holds_one_tensor_twice(same: str) -> None:
    """torch.export takes the two for one value, which they are not in the next call."""
    model, x = Shared(), torch.randn(3)
    better = hnfc.optimize(model, (x, {"y": x if same == "an input" else model.weight, "z": x}))
    other = [torch.randn(3), {"y": torch.randn(3), "z": torch.randn(3)}]
    torch.testing.assert_close(better(*other), model(*other))
