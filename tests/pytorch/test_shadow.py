"""The tree of modules that is captured in the place of the model: the model itself stays as it is, and its hooks are its own."""

from __future__ import annotations

import threading

import torch
from torch import nn

import hnfc


class Normed(nn.Module):
    """Submodules, a buffer and a block without gradients, as torch.export swaps and traces them."""

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.norm = nn.Linear(8, 8), nn.BatchNorm1d(8)
        self.also = [self.mix]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        e = torch.exp(self.norm(self.mix(x)))
        with torch.no_grad():
            shift = x.mean()
        return e / e.sum(-1, keepdim=True) + shift + self.also[0](x)


def test_the_original_runs_while_it_is_captured() -> None:
    torch.manual_seed(0)
    model, x = Normed().eval(), torch.randn(4, 8)
    wanted, wrong, done = model(x).detach(), list[str](), threading.Event()

    def call() -> None:
        while not done.is_set():
            try:
                result = model(x)
                result.sum().backward()
                if type(result) is not torch.Tensor or not torch.equal(result.detach(), wanted):
                    wrong.append("another result")
            except Exception as error:
                wrong.append(str(error))

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        better = hnfc.optimize(model, x)
        torch.testing.assert_close(better(torch.cat((x, x))), model(torch.cat((x, x))))
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert wrong == [] and not torch.compiler.is_exporting()
    better(x).sum().backward()
    assert model.mix.weight.grad is not None


def test_hooks_belong_to_the_module_that_they_are_registered_on() -> None:
    model, x, seen = Normed(), torch.randn(4, 8), list[str]()
    model.register_forward_hook(lambda module, inputs, result: seen.append("before") or 2 * result)
    better = hnfc.optimize(model, x)
    torch.testing.assert_close(better(x), model(x))
    model.register_forward_hook(lambda *_: seen.append("original"))
    better.register_forward_hook(lambda *_: seen.append("optimized"))
    better.register_state_dict_post_hook(lambda *_: seen.append("state"))
    seen.clear()
    better(x)
    assert seen == ["before", "optimized"]
    seen.clear()
    model(x)
    model.state_dict()
    assert seen == ["before", "original"]
