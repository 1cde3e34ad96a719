"""Remedies that train on, and those of the optimizer, tried from an earlier state: what mends is offered, and nothing else."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import hnfc
from hnfc.core.errors import UsageError
from hnfc.tracing.course import Course, StepChange
from hnfc.tracing.optimizers import copied_optimizer, update
from hnfc.tracing.remedies import add_remedies

F = nn.functional


def run(model: nn.Module, optimizer: torch.optim.Optimizer, loss: Callable[[int], torch.Tensor], steps: int = 80, **options: Any) -> Any:
    with hnfc.watch(model, **{"folder": None, "report": lambda _: None, **options}) as watching:
        for step in range(steps):
            optimizer.zero_grad()
            loss(step).backward()
            optimizer.step()
    return watching


class Squares(nn.Module):
    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(16, 1).to(dtype)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (self.layer(x).float() - y).square().mean()


def data(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    made = torch.Generator().manual_seed(2)
    return torch.randn(32, 16, generator=made).to(dtype), torch.randn(32, 1, generator=made)


def remedies(watching: Any) -> list[str]:
    return list(watching.bad[0].remedies)


def test_a_rate_that_is_too_high() -> None:
    model = Squares()
    watching = run(model, torch.optim.SGD(model.parameters(), 1.0), lambda _: model(*data()))
    assert [each.partition(" from")[0] for each in remedies(watching)] == [
        "lr=0.1 in place of 1",
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 1) before the update",
    ]
    assert all("50 steps more stay finite" in each for each in remedies(watching))


def test_an_eps_that_is_0_in_the_type() -> None:
    model, (x, y) = Squares(torch.float16), data(torch.float16)
    x[:, 3] = 0  # a gradient of exactly 0: 0 / (0 + eps)
    watching = run(model, torch.optim.Adam(model.parameters(), 1e-3), lambda _: model(x, y))
    found = remedies(watching)
    assert watching.bad[0].by_optimizer and [each.partition(" ")[0] for each in found] == ["eps=1e-06", "Adam"]
    assert "on float32 copies of the parameters" in found[1] and "the error of the parameters goes from not finite to" in found[1]


def test_a_rate_that_is_no_number() -> None:
    model = Squares()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)

    def loss(step: int) -> torch.Tensor:
        if step == 7:
            optimizer.param_groups[0]["lr"] = math.nan
        return model(*data())

    (remedy,) = remedies(run(model, optimizer, loss))
    assert remedy.startswith("lr=0.05, the last that was finite, in place of nan")


def test_a_poisoned_batch_is_left_out() -> None:
    model, (x, y) = Squares(), data()
    bad = x.clone()
    bad[3, 1] = math.nan
    watching = run(model, torch.optim.SGD(model.parameters(), 0.05), lambda step: model(bad if step == 9 else x, y))
    (remedy,) = remedies(watching)
    assert 'stop="skip"' in remedy and "50 steps more stay finite" in remedy


def test_what_no_optimizer_mends() -> None:
    model, (x, y) = Squares(), data()
    watching = run(model, torch.optim.SGD(model.parameters(), 0.05), lambda step: model(x * (1e30 if step == 9 else 1.0), y))
    assert watching.bad[0].trace.first.kind == "overflow" and remedies(watching) == []


def test_growth_that_a_smaller_rate_only_slows_down() -> None:
    class Scores(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.z = nn.Parameter(torch.tensor([80.0, 79.0]))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            e = torch.exp(self.z * x)
            return -(e[0] / e.sum()).log() - 0.1 * self.z.mean()

    model = Scores()
    watching = run(model, torch.optim.SGD(model.parameters(), 3.0), lambda _: model(torch.ones(2)))
    assert watching.bad[0].step > 16 and watching.bad[0].trace.first.kind == "overflow" and remedies(watching) == []


def test_the_steps_since_an_earlier_state_are_few() -> None:
    model = Squares()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    watching = run(model, optimizer, lambda step: model(*data()) * (math.nan if step == 300 else 1.0), 301)
    records = watching._rewind.records
    assert 16 <= len(records) <= 130 and watching._rewind.start is not None
    assert sum(record.size for record in records) == watching._rewind._bytes


def test_an_optimizer_that_cannot_be_copied() -> None:
    class Odd(torch.optim.SGD):
        def __setstate__(self, state: Any) -> None:
            raise TypeError("no copies")

    model = Squares()
    said: list[str] = []
    watching = run(model, Odd(model.parameters(), 1.0), lambda _: model(*data()), report=said.append)
    assert watching.bad and remedies(watching) == [] and not any("could not be looked at" in words for words in said)


def test_nothing_of_the_run_changes() -> None:
    model = Squares()
    optimizer = torch.optim.SGD(model.parameters(), 1.0, momentum=0.5)
    watching = run(model, optimizer, lambda _: model(*data()))
    again = Squares()
    other = torch.optim.SGD(again.parameters(), 1.0, momentum=0.5)
    for _ in range(watching.bad[0].step):
        other.zero_grad()
        again(*data()).backward()
        other.step()
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    states = (copy.deepcopy(each.state_dict()["state"]) for each in (optimizer, other))
    assert all(torch.equal(a["momentum_buffer"], b["momentum_buffer"]) for a, b in zip(*(s.values() for s in states), strict=True))


def test_nothing_is_kept_if_so_chosen() -> None:
    model = Squares()
    watching = run(model, torch.optim.SGD(model.parameters(), 1.0), lambda _: model(*data()), rewind=0)
    assert watching.bad and remedies(watching) == [] and not watching._rewind.records


class Logs(nn.Module):
    """Probabilities whose logarithm fails at 0; the update makes more of them 0."""

    def __init__(self) -> None:
        super().__init__()
        self.z = nn.Parameter(torch.tensor([-80.0, 3.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log(torch.exp(self.z * x)).mean()


def test_a_remedy_that_fails_later_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hnfc.tracing, "add_remedies", add_remedies)
    model = Logs()
    watching = run(model, torch.optim.SGD(model.parameters(), 40.0), lambda _: model(torch.full((2,), 1.4)))
    first = watching.bad[0].trace.first
    assert first is not None and any("50 steps of training on the batch stay finite" in each for each in first.remedies), str(first)
    assert not any("float64" in each for each in first.remedies)


def test_a_loss_that_was_not_seen_is_not_trained_on() -> None:
    model = nn.Linear(16, 1)
    watching = run(model, torch.optim.SGD(model.parameters(), 0.1), lambda _: torch.log(model(data()[0]).exp() * 0).sum().exp())
    assert watching.bad and remedies(watching) == []


def test_a_replay_trains_on(tmp_path: Path) -> None:
    model, (x, y) = Squares(torch.float16), data(torch.float16)
    x[:, 3] = 0
    watching = run(model, torch.optim.Adam(model.parameters(), 1e-3), lambda _: model(x, y), folder=str(tmp_path))
    again = hnfc.replay(watching.bad[0].folder, lambda: Squares(torch.float16))
    assert all(p.isfinite().all() for p in again.model.parameters())
    tried = {trial.name: trial for trial in again.attempt("optimizer-eps=1e-4", "optimizer-float32", "rate=0.1", "clip=1")}
    assert {name for name, trial in tried.items() if trial.mends} == {"optimizer-eps=1e-4", "optimizer-float32"}
    assert "a parameter is not finite in step 0" in str(tried["clip=1"])
    with pytest.raises(UsageError, match="above 0"):
        again.attempt("clip=-1")


def test_a_course_says_how_far_it_came() -> None:
    model = Squares()
    course = Course(model, data(), torch.optim.SGD(model.parameters(), 1.0))
    before = copy.deepcopy(model.state_dict())
    found = course.train(StepChange())
    assert not found.is_finite and "the loss has grown from" in str(found) and 0 < found.steps < 50
    assert course.train(StepChange(form=torch.float64)).wrong and course.train(StepChange(), 3).steps == 3
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad])
def test_a_copy_of_an_optimizer_does_the_same(kind: Any) -> None:
    model, seen = Squares(), list[Any]()
    optimizer = kind(model.parameters(), 1e-2)
    optimizer.register_step_post_hook(lambda *_: seen.append(1))
    torch.optim.lr_scheduler.StepLR(optimizer, 1)  # puts a function of its own in the place of `step`
    for _ in range(3):
        model(*data()).backward()
        optimizer.step()
    copies = {id(p): nn.Parameter(p.detach().clone()) for p in model.parameters()}
    copied = copied_optimizer(optimizer, copies)
    for p in model.parameters():
        copies[id(p)].grad = p.grad
    with torch.no_grad():
        update(copied)
    assert len(seen) == 3
    optimizer.step()
    assert all(torch.equal(copies[id(p)], p) for p in model.parameters())
