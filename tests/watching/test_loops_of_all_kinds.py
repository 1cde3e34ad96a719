"""Loops of all kinds under `hnfc.watch`: what goes wrong is found, and nothing of the loop, the model or torch changes."""

from __future__ import annotations

import copy
import io
import math
import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

import hnfc
from hnfc.watching import StepStopped

X = torch.ones(3, 2)


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(self.a(x))  # type: ignore[no-any-return]


class Stateful(nn.Module):
    """Buffers that change shape, Python state, and random numbers of Python."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(2, 1)
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("cache", torch.zeros(0, 1))
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        self.calls += 1
        y = self.a(x) * random.random()
        self.cache = torch.cat([self.cache, y.detach()])
        return y


def quiet(model: nn.Module, *args: Any, **options: Any) -> hnfc.watching.Watch:
    return hnfc.watch(model, *args, **{"folder": None, "report": lambda _: None, **options})


@pytest.fixture(autouse=True)
def _torch_is_as_it_was() -> Iterator[None]:
    backward = torch.autograd.backward
    torch.manual_seed(0)
    yield
    assert torch.autograd.backward is backward
    assert not torch.nn.modules.module._has_any_global_hook()


def test_the_second_of_two_optimizers() -> None:
    model = Two()
    first, second = (torch.optim.SGD(part.parameters(), lr=0.1) for part in (model.a, model.b))
    with quiet(model) as watching:
        for step in range(3):
            first.zero_grad()
            second.zero_grad()
            model(X).sum().backward()
            if step == 1:
                assert model.b.weight.grad is not None
                model.b.weight.grad[0, 0] = math.nan
            first.step()
            second.step()
    assert watching.step == 1 and not watching.bad[0].before
    assert model.b.weight.isfinite().all() and "b.weight" in str(watching.bad[0])


def test_a_closure_stops_before_the_update() -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with quiet(model) as watching:
        for step in range(3):
            target = torch.full((3, 1), math.nan if step == 1 else 1.0)

            def closure(target: torch.Tensor = target) -> torch.Tensor:
                optimizer.zero_grad()
                loss = watching.loss(nn.functional.mse_loss, model(X), target)
                loss.backward()
                return loss  # type: ignore[no-any-return]

            optimizer.step(closure)
    assert "the loss is NaN" in str(watching.bad[0]) and model.weight.isfinite().all()


def test_a_model_in_eval_mode() -> None:
    model = nn.Sequential(nn.Linear(2, 1)).eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with quiet(model) as watching:
        (model(X) - model(X)).abs().sqrt().sum().backward()
        optimizer.step()
    assert watching.bad and all(p.isfinite().all() for p in model.parameters())


def test_a_loop_that_does_not_call_the_model() -> None:
    model = Two()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with quiet(model) as watching:
        (model.a(X) * math.inf).sum().backward()
        optimizer.step()
    assert watching.bad[0].bad[0].kind == "gradient" and watching.bad[0].before


def test_copies_and_files_have_dead_hooks() -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with quiet(model) as watching:
        model(X).sum().backward()
        average, file = AveragedModel(model), io.BytesIO()
        torch.save(model, file)
        optimizer.step()
        for _ in range(3):
            average(X).sum().backward()
            copy.deepcopy(model)(X)
        assert len(watching._calls) == 1
    file.seek(0)
    torch.load(file, weights_only=False)(X)


def test_watches_leave_in_any_order() -> None:
    models = nn.Linear(2, 1), nn.Linear(2, 1)
    one, two = (quiet(model) for model in models)
    one.__enter__()
    two.__enter__()
    one.__exit__(None, None, None)
    models[1](X).sum().backward()
    two.__exit__(None, None, None)


def test_the_outer_watch_stops_its_own_loop() -> None:
    outer, inner = nn.Linear(2, 1), nn.Linear(2, 1)
    optimizer = torch.optim.SGD(outer.parameters(), lr=0.1)
    steps = 0
    with quiet(outer) as watching:
        for _ in range(3):
            steps += 1
            with quiet(inner):
                try:
                    (outer(X).sum() * math.nan).backward()
                    optimizer.step()
                except Exception:
                    raise AssertionError("a stop is no error of the loop") from None
    assert steps == 1 and watching.bad


def test_no_hook_and_no_batch_outlives_its_step() -> None:
    class Returning(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.t = nn.Linear(2, 1), nn.Parameter(torch.ones(()))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.a(x), self.t

    model = Returning()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with quiet(model):
        for _ in range(5):
            y, t = model(X)
            (y * t).sum().backward()
            optimizer.step()
    assert not model.t._backward_hooks


def test_a_look_back_changes_nothing() -> None:
    def trained(watching: bool) -> tuple[Stateful, float]:
        torch.manual_seed(0)
        random.seed(0)
        model = Stateful()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def loop() -> None:
            for step in range(5):
                optimizer.zero_grad()
                (model(X).sum() * (math.nan if step == 2 else 1.0)).backward()
                for p in model.parameters():
                    assert p.grad is not None
                    p.grad.nan_to_num_()
                optimizer.step()

        if not watching:
            loop()
        else:
            with quiet(model, stop=False):
                loop()
        return model, random.random()

    (bare, next_of_bare), (seen, next_of_seen) = trained(False), trained(True)
    assert next_of_bare == next_of_seen and bare.calls == seen.calls
    assert torch.equal(bare.count, seen.count) and torch.equal(bare.cache, seen.cache)
    assert all(torch.equal(a, b) for a, b in zip(bare.parameters(), seen.parameters(), strict=True))


def test_negative_losses_do_not_jump() -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with quiet(model, jump=100) as watching:
        for _ in range(40):
            (model(X).mean() * 0.1 - 5).backward()
            optimizer.step()
    assert not watching.bad and watching.step == 40


def test_only_what_made_the_loss_is_taken_for_it() -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with quiet(model) as watching:
        p = nn.Sigmoid()(model(X) + 200)
        nn.L1Loss()(p, torch.zeros(3, 1))
        torch.log(1 - p).sum().backward()
        optimizer.step()
    assert "which was not seen" in str(watching.bad[0])


def test_results_that_others_are_computed_from() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(2, 1)

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            p = torch.sigmoid(self.a(x) - 200)
            return {"loss": torch.log(p).mean(), "p": p}

    model = Both()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with quiet(model) as watching:
        (model(X)["loss"] / 4).backward()
        optimizer.step()
    bad = watching.bad[0]
    assert bad.call is not None and {place: float(g) for place, g in bad.call.gradients.items()} == {0: 0.25}
    assert bad.trace is not None and "log" in str(bad.trace.first) and not bad.notes


def test_keyword_arguments_of_a_loss() -> None:
    class Shifted(nn.Module):
        def forward(self, y: torch.Tensor, *, by: float) -> torch.Tensor:
            return torch.log(y + by).mean()

    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with quiet(model) as watching:
        Shifted()(model(X), by=-100.0).backward()
        optimizer.step()
    assert watching.bad[0].trace is not None and "log" in str(watching.bad[0].trace.first)


def test_a_batch_that_the_model_refuses() -> None:
    model = nn.Linear(2, 1)
    with quiet(model):
        for _ in range(3):
            with pytest.raises(RuntimeError):
                model(torch.ones(3, 7))


def test_what_cannot_be_looked_at_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monkeypatch.setattr("hnfc.watching.loop.not_finite", lambda *_: 1 / 0)
    with quiet(model, report=said.append) as watching:
        for _ in range(3):
            model(X).sum().backward()
            optimizer.step()
    assert watching.step == 3 and len(said) == 1 and "ZeroDivisionError" in said[0]


def test_a_stop_names_its_watch() -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watching = quiet(model)
    watching.__enter__()
    try:
        (model(X).sum() * math.nan).backward()
        with pytest.raises(StepStopped, match="step 0") as stopped:
            optimizer.step()
    finally:
        watching.__exit__(None, None, None)
    assert stopped.value.watch is watching


def test_a_step_that_a_scaler_leaves_out_first() -> None:
    model = nn.Linear(2, 1)
    scaler = torch.amp.GradScaler("cpu", growth_interval=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with quiet(model, scaler=scaler) as watching:
        for step in range(12):
            optimizer.zero_grad()
            scaler.scale(model(X).sum() * (math.nan if step in (0, 7) else 1.0)).backward()
            scaler.step(optimizer)
            scaler.update()
    assert not watching.bad and watching.step == 12


def test_a_watch_is_used_again_at_the_same_step() -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watching = quiet(model)
    for _ in range(2):
        with watching:
            optimizer.zero_grad()
            (model(X).sum() * math.nan).backward()
            optimizer.step()
    assert len(watching.bad) == 2 and model.weight.isfinite().all()


def test_complex_gradients() -> None:
    model = nn.Linear(2, 1, dtype=torch.complex64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with quiet(model, budget=0.0) as watching:
        for step in range(3):
            model(X.to(torch.complex64)).abs().sum().backward()
            if step == 2:
                assert model.weight.grad is not None
                model.weight.grad[0, 0] = complex(0.0, math.nan)
            optimizer.step()
    assert watching.bad and watching.bad[0].before


def test_parameters_that_come_later() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    with quiet(model) as watching:
        model.append(nn.Linear(2, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(X).sum().backward()
        assert model[1].weight.grad is not None
        model[1].weight.grad[0, 0] = math.nan
        optimizer.step()
    assert "1.weight" in str(watching.bad[0])


def test_a_bad_input_is_not_the_fault_of_the_loss() -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with quiet(model) as watching:
        model(X * math.nan).square().mean().backward()
        optimizer.step()
    assert "has NaN at index [0, 0]" in str(watching.bad[0]) and watching.bad[0].notes == []


def test_gradients_of_another_place_are_not_the_fault_of_the_loss() -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with quiet(model) as watching:
        model(X).square().mean().backward()
        assert model.weight.grad is not None
        model.weight.grad[0, 0] = math.nan  # as the average over ranks does
        optimizer.step()
    assert watching.bad[0].notes == []
