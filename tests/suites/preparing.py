"""Preparations that children of a suite share: one thread, silence, and the rules read once."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch

import hnfc


@contextmanager
def prepared() -> Iterator[None]:
    """Within, torch runs on one thread and warns of nothing, and hnfc has read its rules."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            hnfc.optimize(torch.nn.Tanh(), torch.ones(2))
            yield
    finally:
        torch.set_num_threads(threads)
