"""Sizes of what an optimizer does: its moments, and the updates of parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch

from hnfc.watching.history import History
from hnfc.watching.samples import sample_of
from hnfc.watching.series import largest_of, numbers_of


@torch.no_grad()
def note_optimizer(
    history: History, step: int, optimizer: torch.optim.Optimizer, names: Mapping[int, str], before: Mapping[int, torch.Tensor]
) -> None:
    """Notes the moments of the parameters that have names, and the updates of those of which there is a sample from before."""
    found = list(_found(optimizer, names, before))
    sizes = numbers_of(largest_of([tensor for *_, tensor in found]))
    for (kind, title, module, tensor), size in zip(found, sizes, strict=True):
        history.note(step, title, kind, module, size, tensor)


def _found(
    optimizer: torch.optim.Optimizer, names: Mapping[int, str], before: Mapping[int, torch.Tensor]
) -> Iterator[tuple[str, str, str, torch.Tensor]]:
    for group in optimizer.param_groups:
        for p in group["params"]:
            name = names.get(id(p), "")
            module = name.rpartition(".")[0]
            if not name or not p.numel():
                continue
            old = before.get(id(p))
            now = sample_of(dense(p.detach()))
            if old is not None and old.shape == now.shape:
                yield "update", f"update of {name}", module, now - old
            for key, value in optimizer.state.get(p, {}).items():
                if isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim() and value.numel():
                    yield "moment", f"{key} of {name}", module, dense(value.detach())


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """The part of a tensor that lies here, dense."""
    inside: torch.Tensor = getattr(tensor, "_local_tensor", tensor)
    return inside.coalesce().values() if inside.layout is torch.sparse_coo else inside
