"""A step that goes wrong, as what remedies are tried on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from hnfc.core.errors import ModelError, UsageError
from hnfc.pytorch.losses import Loss
from hnfc.tracing.course import Course, StepChange, Trained
from hnfc.tracing.step import TracedStep

REFUSALS = (ModelError, UsageError, RuntimeError, ValueError, TypeError, KeyError, AttributeError, NotImplementedError)
"""torch.export cannot follow every model, and not every model can be copied or has kernels in a format: it is then no remedy."""

INSIDE = "model"
"""Start of the names of places inside the model, where the step is a module that holds it."""


@dataclass(frozen=True)
class Patient:
    """A model that goes wrong on a sample, and the step in which it did. course: the training that it is a step of, where that is known."""

    model: torch.nn.Module
    sample: Any
    loss: Loss | None
    step: TracedStep
    backward: bool
    course: Course | None = None

    def train(self, change: StepChange) -> Trained | None:
        """Trains on with a change; None where the training is not known, or cannot be followed with it."""
        if self.course is None:
            return None
        try:
            return self.course.train(change)
        except REFUSALS:
            return None

    @property
    def has_loss_beside(self) -> bool:
        """Return whether the loss is computed outside the model."""
        return self.loss is not None or bool(getattr(self.model, "has_loss_beside", False))

    @property
    def what(self) -> str:
        return "the error of the results and gradients" if self.backward else "the error of the results"
