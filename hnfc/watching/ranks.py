"""Ranks of a run on several processes."""

from __future__ import annotations

import math

import torch

from hnfc.watching.record import Bad


def anywhere(found: bool) -> bool:
    """Return whether any of the ranks found something: all must leave the loop together."""
    flag = torch.tensor(float(found))
    torch.distributed.all_reduce(flag, torch.distributed.ReduceOp.MAX)
    return bool(flag)


def with_other_ranks(bad: list[Bad], kind: str, together: bool) -> list[Bad]:
    """The findings of this rank; where only another one has some, one that says so. together: all ranks call it."""
    if together and anywhere(bool(bad)) and not bad:
        return [Bad(kind, "of another rank", math.nan)]
    return bad


def of_rank() -> str:
    """The end of a name that this rank has for itself; empty in a run of one process."""
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    return f"-rank{torch.distributed.get_rank()}" if distributed else ""
