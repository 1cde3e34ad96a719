"""`hnfc.watch` around the Trainer of Lightning."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from hnfc.core.errors import UsageError
from hnfc.watching.loop import Watch

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback


class LightningStep(torch.nn.Module):
    """The training step of a LightningModule as a module: its result is the loss."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any) -> Any:
        self.module.__dict__.update({"log": _nothing, "log_dict": _nothing})  # of a copy: a step made again logs nothing
        step: Any = self.module.training_step
        takes = inspect.signature(step).parameters.values()
        whole = len(takes) >= len(args) or any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in takes)
        output = step(*args if whole else args[:1])
        return output["loss"] if isinstance(output, Mapping) else output


def _nothing(*_: Any, **__: Any) -> None:
    pass


class WatchLightning(Callback):  # type: ignore[misc, unused-ignore]
    """Callback for a Trainer: at the first number that is not finite, training ends without the update of that step.

    options: those of `hnfc.watch`. `watch` is the Watch once training has begun. It takes the loss of `training_step`, which is explained
    as a whole.
    """

    def __init__(self, **options: Any) -> None:
        self._options = {"stop": "skip", **options}
        self.watch: Watch | None = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if not pl_module.automatic_optimization:
            raise UsageError("WatchLightning follows automatic optimization: in a manual one put `with hnfc.watch(model):` around the loop")
        self.watch = Watch(LightningStep(pl_module), **self._options)
        self.watch.__enter__()

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if self.watch is not None:
            self.watch.begin_call(batch, batch_idx)

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: torch.Tensor) -> None:
        if self.watch is not None:
            self.watch.end_call(loss)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        if self.watch is not None:
            self.watch.end_call(None)
            if self.watch.bad and self._options["stop"] is not False:
                trainer.should_stop = True

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if self.watch is not None and stage == "fit":
            self.watch.__exit__(None, None, None)
