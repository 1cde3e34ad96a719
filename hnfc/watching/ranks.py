"""Ranks of a run on several processes."""

from __future__ import annotations

import torch


def anywhere(found: bool) -> bool:
    """Return whether any of the ranks found something: all must leave the loop together."""
    flag = torch.tensor(float(found))
    torch.distributed.all_reduce(flag, torch.distributed.ReduceOp.MAX)
    return bool(flag)


def of_rank() -> str:
    """The end of a name that this rank has for itself; empty in a run of one process."""
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    return f"-rank{torch.distributed.get_rank()}" if distributed else ""
