"""`hnfc.watch`: the first bad number of a training loop, its reason, and a loop that nothing changes."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.optimizer import _global_optimizer_pre_hooks

import hnfc
from hnfc.core.errors import UsageError
from tests.watching.loops import HandSoftmax, NegativeLog, Normed, batch, negative_log, train, watched


def model(kind: type[nn.Module] = HandSoftmax) -> nn.Module:
    torch.manual_seed(0)
    return kind().train()


@pytest.mark.parametrize("how", ["a module", "through the watch", "a function"])
def test_the_step_and_the_line_are_named(how: str) -> None:
    made = model()
    watching = watched(made, NegativeLog() if how == "a module" else negative_log, how == "through the watch")
    (step,) = watching.bad
    assert step.before and step.step == watching.step > 0
    assert all(p.isfinite().all() for p in made.parameters())
    assert step.trace is not None and step.trace.first is not None
    assert step.trace.first.kind == "overflow" and "exp" in step.trace.first.operation
    assert "loops.py" in str(step) and "the loss is NaN" in str(step)


def test_training_is_the_same_to_the_bit() -> None:
    bare, seen = model(Normed), model(Normed)
    y = torch.rand(12, 1)
    torch.manual_seed(5)
    expected = train(bare, lambda z, _: ((z - y) ** 2).mean())
    torch.manual_seed(5)
    with hnfc.watch(seen, folder=None, budget=1.0) as watching:
        found = train(seen, lambda z, _: ((z - y) ** 2).mean())
    assert found == expected and not watching.bad
    for (name, a), (_, b) in zip(bare.state_dict().items(), seen.state_dict().items(), strict=True):
        assert torch.equal(a, b), name
    assert len(watching.series["addmm in net.0 (tests/watching/loops.py:31)"].steps) == 60 and "gradient of net.3.weight" in watching.series


def test_hooks_go_with_the_watch() -> None:
    made, backward = model(), torch.autograd.backward
    with pytest.raises(ZeroDivisionError), hnfc.watch(made, folder=None):
        raise ZeroDivisionError
    assert torch.autograd.backward is backward
    assert not made._forward_hooks and not made._forward_pre_hooks
    assert not torch.nn.modules.module._global_forward_pre_hooks and not _global_optimizer_pre_hooks


def test_a_bad_batch_is_named_by_its_argument() -> None:
    made, said = model(Normed), list[str]()
    x, _ = batch()
    x[3, 1] = math.nan
    optimizer = torch.optim.SGD(made.parameters(), 0.1)
    before = copy.deepcopy(made.state_dict())
    with hnfc.watch(made, folder=None, report=said.append):
        made(x).sum().backward()
        optimizer.step()
    assert "the input x has NaN at index [3, 1]" in said[0]
    assert all(torch.equal(p, before[name]) for name, p in made.named_parameters())


def test_it_can_go_on() -> None:
    made, said = model(), list[str]()
    with hnfc.watch(made, folder=None, stop=False, report=said.append) as watching:
        train(made, negative_log, 30)
    assert watching.step == 30 and len(watching.bad) > 1


def test_micro_batches_are_told_apart() -> None:
    made = model(Normed)
    x, _ = batch()
    optimizer = torch.optim.SGD(made.parameters(), 0.1)
    said: list[str] = []
    with hnfc.watch(made, folder=None, report=said.append) as watching:
        for index in range(3):
            scale = math.inf if index == 1 else 1.0
            (made(x) * scale).sum().backward()
        optimizer.step()
    bad = watching.bad[0]
    assert bad.bad[0].call is bad.call is not None and bad.call.gradients[0].isinf().all()


@pytest.mark.parametrize(
    ("optimizer", "words"),
    [
        (lambda ps: torch.optim.SGD(ps, math.nan), "the learning rate is nan"),
        (lambda ps: torch.optim.Adam(ps, 1e-3, eps=1e-8), "eps = 1e-08 is 0 in float16"),
        (lambda ps: torch.optim.RMSprop(ps, 1e-3, eps=0.0), "eps = 0, and 1 second moments are 0"),
        (lambda ps: torch.optim.SGD(ps, 6e4), "leaves the range of float16"),
    ],
)
def test_what_the_optimizer_did(optimizer: Any, words: str) -> None:
    torch.manual_seed(0)
    made = nn.Linear(4, 2).half()
    chosen = optimizer(made.parameters())
    said: list[str] = []
    with hnfc.watch(made, folder=None, report=said.append) as watching:
        (made(torch.randn(3, 4).half()) * torch.tensor([2.0, 1e-7]).half()).sum().backward()
        chosen.step()
    assert not watching.bad[0].before and words in said[-1]


def test_a_scaler_may_leave_out_steps() -> None:
    made, said = model(Normed), list[str]()
    x, _ = batch()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**120)
    optimizer = torch.optim.SGD(made.parameters(), 1e-3)
    with hnfc.watch(made, scaler=scaler, folder=None, report=said.append) as watching:
        for _ in range(6):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = ((made(x).float() * 1e4) ** 2).mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    assert not watching.bad and not said


def test_a_scaler_that_is_stuck_is_a_fault() -> None:
    made, said = model(Normed), list[str]()
    x, _ = batch()
    x[0, 0] = math.inf
    scaler = torch.amp.GradScaler("cpu")
    optimizer = torch.optim.SGD(made.parameters(), 1e-3)
    with hnfc.watch(made, scaler=scaler, folder=None, report=said.append):
        for _ in range(20):
            optimizer.zero_grad()
            scaler.scale(made(x).mean()).backward()
            scaler.step(optimizer)
            scaler.update()
    assert "left out 8 steps in a row" in said[0] and "the input x has inf" in said[0]


class Uninitialized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        room = torch.empty_like(x)
        room.fill_(1e30)
        return self.a(x + 0 * room.clamp(max=1.0))  # type: ignore[no-any-return]


def test_memory_that_holds_nothing_yet_has_no_size() -> None:
    made = Uninitialized()
    optimizer = torch.optim.SGD(made.parameters(), 0.1)
    with hnfc.watch(made, folder=None, budget=1.0) as watching:
        made(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    assert watching.series and not any(name.startswith("empty") for name in watching.series)


def test_time_of_looks_counts() -> None:
    made = model(Normed)
    with hnfc.watch(made, folder=None, budget=0.0) as watching:
        train(made, lambda z, _: z.mean(), 20)
    assert len(watching.series["addmm in net.0 (tests/watching/loops.py:31)"].steps) == 1


def test_a_jump_of_the_loss_is_one_if_it_is_named() -> None:
    made = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(made.parameters(), 0.0)
    with hnfc.watch(made, folder=None, jump=100, report=lambda _: None) as watching:
        for index in range(40):
            (made(torch.ones(2, 4)).mean() ** 2 * (1e6 if index == 30 else 1)).backward()
            optimizer.step()
    assert watching.bad[0].step == 30 and "its median was" in str(watching.bad[0])


def test_compiled_models() -> None:
    made = model()
    compiled = torch.compile(made, backend="eager")
    said: list[str] = []
    with hnfc.watch(compiled, folder=None, report=said.append) as watching:
        train(compiled, negative_log)
    assert watching.bad and "exp" in said[0] and "overflow" in said[0]


def test_what_it_does_not_take() -> None:
    with pytest.raises(UsageError, match=r"nn\.Module"):
        hnfc.watch(lambda x: x)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="budget"):
        hnfc.watch(nn.Linear(1, 1), budget=7)
