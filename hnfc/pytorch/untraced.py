"""Python that torch.jit.trace does not record: what decides between graphs is no part of one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def _paused() -> Iterator[None]:
    state = torch._C._get_tracing_state()
    torch._C._set_tracing_state(None)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch._C._set_tracing_state(state)  # type: ignore[attr-defined]


def untraced() -> contextlib.AbstractContextManager[None]:
    """A time in which sizes of tensors are numbers, and nothing is recorded, also while torch.jit.trace runs."""
    if torch.compiler.is_dynamo_compiling() or torch._C._get_tracing_state() is None:
        return contextlib.nullcontext()
    return _paused()
