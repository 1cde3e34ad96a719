"""Training on two ranks under `hnfc.watch`, run as a program by each: python -m tests.watching.ranks RANK PORT HOW OUT.json"""

from __future__ import annotations

import json
import math
import os
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import hnfc
import hnfc.tracing

STEPS, FAULTY = 5, 3


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
        self.head = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = x + torch.tanh(block(x))
        return torch.exp(self.head(x))  # overflows on a batch that is too large


def distributed(how: str) -> nn.Module:
    torch.manual_seed(0)
    net = Net()
    if how == "DDP":
        return nn.parallel.DistributedDataParallel(net)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (2,))
    for block in net.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(net, mesh=mesh)


def train(how: str, rank: int, fault: str, watched: bool = True) -> dict[str, Any]:
    """A run in which rank 1 has a bad batch, or both a rate that is no number; in the end the step, the report and the parameters."""
    model = distributed(how)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    made = torch.Generator().manual_seed(rank + 1)

    def loop(loss: Any) -> None:
        for step in range(STEPS):
            x = torch.randn(3, 4, generator=made)
            if step == FAULTY and fault == "batch" and rank == 1:
                x = x * 300
            if step == FAULTY and fault == "rate":
                optimizer.param_groups[0]["lr"] = math.nan
            optimizer.zero_grad()
            loss(lambda z: z.square().mean(), model(x)).backward()
            optimizer.step()

    if not watched:
        loop(lambda function, z: function(z))
        return {"parameters": values(model)}
    with hnfc.watch(model, folder=None, budget=1.0, report=lambda _: None) as watching:
        loop(watching.loss)
    found = watching.bad[0].trace if watching.bad else None
    first = None if found is None or found.first is None else found.first
    return {
        "step": watching.step, "text": str(watching), "parameters": values(model), "operation": "" if first is None else first.operation,
        "source": "" if first is None else first.source, "remedies": [] if first is None else first.remedies,
    }  # fmt: skip


def values(model: nn.Module) -> list[list[float]]:
    whole = (getattr(p, "full_tensor", lambda p=p: p)() for p in model.parameters())
    return [p.detach().reshape(-1).tolist() for p in whole]


def main(rank: int, port: str, how: str, out: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    if how == "DDP":  # remedies take most of the time; with FSDP2 they are tried
        hnfc.tracing.add_remedies = lambda *_: None
    runs = {fault: train(how, rank, fault) for fault in ("none", "batch", "rate")}
    runs["bare"] = train(how, rank, "none", watched=False)
    dist.destroy_process_group()
    with open(out, "w", encoding="utf-8") as file:
        json.dump(runs, file)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
