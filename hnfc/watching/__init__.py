"""`hnfc.watch`: a training loop, stopped at the first number that goes wrong, with the reason; `hnfc.replay`: that step again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import torch

from hnfc.core.arguments import check_kind
from hnfc.core.errors import UsageError
from hnfc.watching.followers import JSONLines, TensorBoard
from hnfc.watching.history import History, ObservedStep, ObservedValue
from hnfc.watching.live import LiveTable
from hnfc.watching.loop import StepStopped, Watch
from hnfc.watching.record import Bad, BadStep
from hnfc.watching.replaying import Replay, replay
from hnfc.watching.series import ExponentSeries, Forecast

__all__ = [
    "Bad", "BadStep", "ExponentSeries", "Forecast", "History", "JSONLines", "LiveTable", "ObservedStep", "ObservedValue", "Replay",
    "StepStopped", "TensorBoard", "Watch", "replay", "watch",
]  # fmt: skip


def watch(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer | None = None, *, scaler: Any = None, folder: str | None = "hnfc-watch",
    stop: bool | Literal["skip"] = True, budget: float = 0.05, jump: float | None = None,
    report: Callable[[str], None] | None = None, checkpoint: str | Path | None = None, to: Sequence[Callable[[ObservedStep], None]] = (),
    rewind: int = 2**28,
) -> Watch:  # fmt: skip
    """A context manager around a training loop of the model, which changes nothing in its results.

    Once a step, when an optimizer is about to change the model's parameters, all losses and gradients of the step are looked at, and the
    parameters afterwards. Where one is not finite, the step is traced again beside float64 (see `hnfc.trace`), saved to `folder` (None:
    nowhere), and reported; then the loop ends behind the `with` statement (stop=False: goes on; "skip": goes on without the update of that
    step, whose gradients are dropped).

    optimizer: the one whose steps count (None: all that change parameters of the model). scaler: the gradient scaler of the loop, if it has
    one: the steps that it leaves out are no fault, unless it leaves out 8 in a row. budget: the share of the loop's time that may go to
    looks at the sizes of values, which say what grows, and foretell when it overflows. jump: a loss so many times as large as the
    median of the last 20 counts as a fault. report: takes the words (default: stderr). checkpoint: a file of safetensors; what is equal
    to its tensors is not saved again. to: functions that get the numbers of each look:
    `LiveTable()`, `JSONLines(file)`, `TensorBoard(folder)` of `hnfc.watching`, or your own. rewind: bytes that two earlier states of model
    and optimizer may take, from which clipping, a smaller rate and other remedies of the optimizer are tried; 0 keeps none.

    Raises UsageError for what is no module, for a budget that is no share, and for a checkpoint that cannot be read.
    """
    check_kind(model, torch.nn.Module, "hnfc.watch")
    if not 0 <= budget <= 1:
        raise UsageError(f"budget is a share of the loop's time, from 0 to 1, not {budget}")
    if checkpoint is not None and not Path(checkpoint).is_file():
        raise UsageError(f"checkpoint is a file of safetensors, and there is none at {checkpoint}")
    return Watch(
        model,
        optimizer,
        scaler=scaler,
        folder=folder,
        stop=stop,
        budget=budget,
        jump=jump,
        report=report,
        checkpoint=checkpoint,
        to=to,
        rewind=rewind,
    )
