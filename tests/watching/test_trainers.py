"""Callbacks for trainers, each with the real package: a bad batch ends training, is explained, and leaves the parameters as they were."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import hnfc
from hnfc.watching import LiveTable, Watch

BAD = 3
"""The batch at which a run goes wrong."""


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, 1))


def batches(bad: bool = True) -> list[tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(1)
    found = [(torch.randn(6, 4), torch.rand(6, 1) + 0.5) for _ in range(6)]
    if bad:
        found[BAD][1][2] = -100.0  # whose logarithm is NaN
    return found


def log_error(z: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (z - torch.log(y)).pow(2).mean()


def checked(watch: Watch | None, model: nn.Module, line: str) -> None:
    assert watch is not None and [bad.step for bad in watch.bad] == [BAD]
    bad = watch.bad[0]
    assert bad.before and bad.trace is not None and bad.trace.first is not None and bad.trace.first.operation == "log", str(bad)
    assert line in str(bad)
    assert all(p.isfinite().all() for p in model.parameters())
    assert not torch.nn.modules.module._has_any_global_hook() and not model._forward_hooks


# Lightning

warnings.filterwarnings("ignore", module="(pytorch_)?lightning")


def lit(criterion: Any, *, only_batch: bool = False, as_dict: bool = False) -> Any:
    lightning = pytest.importorskip("pytorch_lightning", reason="pip install pytorch-lightning")

    class Lit(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = net()

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), 1e-2)

        def _loss(self, batch: Any) -> Any:
            x, y = batch
            loss = criterion(self.net(x), y)
            self.log("loss", loss)
            return {"more": loss.detach(), "loss": loss} if as_dict else loss

        if only_batch:

            def training_step(self, batch: Any) -> Any:
                return self._loss(batch)
        else:

            def training_step(self, batch: Any, batch_idx: int) -> Any:
                return self._loss(batch)

    return Lit()


def fitted(model: Any, data: Any, callbacks: Any, **options: Any) -> Any:
    import pytorch_lightning as lightning

    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, callbacks=callbacks, **options,
    )  # fmt: skip
    torch.manual_seed(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=None))
    return trainer


@pytest.mark.parametrize(("only_batch", "as_dict"), [(False, False), (True, True)])
def test_lightning(only_batch: bool, as_dict: bool, tmp_path: Path) -> None:
    model = lit(log_error, only_batch=only_batch, as_dict=as_dict)
    from hnfc.watching.lightning import WatchLightning

    watching = WatchLightning(folder=str(tmp_path), budget=1.0, report=lambda _: None)
    trainer = fitted(model, batches(), [watching])
    checked(watching.watch, model, "test_trainers.py")
    assert trainer.global_step == BAD + 1 and (tmp_path / f"step-{BAD}" / "step.json").exists()
    assert watching.watch is not None
    assert any(name.startswith("tanh in module.net.1") for name in watching.watch.series)
    assert not [name for name in watching.watch.series if "hnfc/watching" in name]


@pytest.mark.parametrize("accumulate", [1, 2])
def test_lightning_trains_as_without(accumulate: int) -> None:
    bare, seen = lit(nn.functional.mse_loss), lit(nn.functional.mse_loss)
    from hnfc.watching.lightning import WatchLightning

    watching = WatchLightning(folder=None, budget=1.0)
    fitted(bare, batches(False), [], accumulate_grad_batches=accumulate)
    fitted(seen, batches(False), [watching], accumulate_grad_batches=accumulate)
    assert all(torch.equal(a, b) for a, b in zip(bare.parameters(), seen.parameters(), strict=True))
    assert watching.watch is not None and watching.watch.step == 6 // accumulate and not watching.watch.bad


# transformers


class WithLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = net()

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        z = self.net(x)
        return {"loss": log_error(z, labels), "logits": z}


def trained(model: nn.Module, bad: bool, callbacks: Any, folder: Path, **options: Any) -> Any:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate", reason="pip install accelerate")
    rows = [{"x": x, "labels": y} for xs, ys in batches(bad) for x, y in zip(xs, ys, strict=True)]
    settings = transformers.TrainingArguments(
        str(folder), per_device_train_batch_size=6, num_train_epochs=1, use_cpu=True, report_to=[], save_strategy="no", seed=3,
        learning_rate=1e-2, disable_tqdm=True, logging_strategy="no", dataloader_pin_memory=False, **options,
    )  # fmt: skip

    class InOrder(transformers.Trainer):  # type: ignore[misc, name-defined]
        def _get_train_sampler(self, *_: Any) -> Any:
            return torch.utils.data.SequentialSampler(rows)

    trainer = InOrder(model=model, args=settings, train_dataset=rows, callbacks=callbacks)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.train()
    return trainer


@pytest.mark.parametrize("bf16", [False, True])
def test_transformers(tmp_path: Path, bf16: bool) -> None:
    pytest.importorskip("transformers")
    from hnfc.watching.huggingface import WatchTrainer

    model = WithLoss()
    watching = WatchTrainer(folder=str(tmp_path / "bad"), report=lambda _: None)
    trained(model, True, [watching], tmp_path, bf16=bf16)
    checked(watching.watch, model, "test_trainers.py")
    again = hnfc.replay(tmp_path / "bad" / f"step-{BAD}", WithLoss)
    assert again.trace().first is not None


def test_transformers_trains_as_without(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from hnfc.watching.huggingface import WatchTrainer

    bare, seen, watching = WithLoss(), WithLoss(), WatchTrainer(folder=None, budget=1.0, to=[LiveTable()])
    trained(bare, False, [], tmp_path)
    trained(seen, False, [watching], tmp_path)
    assert all(torch.equal(a, b) for a, b in zip(bare.parameters(), seen.parameters(), strict=True))
    assert watching.watch is not None and watching.watch.step == 6 and watching.watch.history.losses


# accelerate


def test_accelerate() -> None:
    accelerate = pytest.importorskip("accelerate", reason="pip install accelerate")
    from hnfc.watching.accelerate import watch_accelerator

    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = WithLoss()
    prepared, optimizer = accelerator.prepare(model, torch.optim.Adam(model.parameters(), 1e-2))
    said: list[str] = []
    with watch_accelerator(accelerator, prepared, optimizer, folder=None, report=said.append) as watching:
        for x, y in batches():
            with accelerator.accumulate(prepared):
                accelerator.backward(prepared(x, y)["loss"])
                optimizer.step()
                optimizer.zero_grad()
    assert [bad.step for bad in watching.bad] == [BAD // 2] and "log" in said[0]
    assert all(p.isfinite().all() for p in model.parameters())
