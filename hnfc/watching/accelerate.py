"""`hnfc.watch` around a loop of accelerate."""

from __future__ import annotations

from typing import Any

import torch

from hnfc.watching.loop import Watch


def watch_accelerator(accelerator: Any, model: torch.nn.Module, optimizer: torch.optim.Optimizer | None = None, **options: Any) -> Watch:
    """The context of `hnfc.watch` for a model and an optimizer from `accelerator.prepare`, with the accelerator's gradient scaler."""
    return Watch(model, optimizer, scaler=accelerator.scaler, **options)
