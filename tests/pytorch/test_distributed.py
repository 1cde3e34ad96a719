"""Optimized modules under torch's ways to train on several devices, with one process of gloo."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import distributed, nn

import hnfc


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        e = torch.exp(self.linear(x))
        return x + e / e.sum(-1, keepdim=True)


class Root(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x.pow(2).mean()


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def test_sharded_parameters_are_left_to_the_original(group: None) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    model, x = Root(), torch.randn(4, 8)
    wanted = model(x)
    better = hnfc.optimize(model, x)
    mesh = init_device_mesh("cpu", (1,))
    for block in better.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(better, mesh=mesh)
    with pytest.warns(UserWarning, match="sharded"):
        loss = better(x)
    loss.backward()
    torch.testing.assert_close(loss.detach(), wanted.detach())
    assert better.blocks[0].linear.weight.grad is not None
    distributed.barrier()  # torch waits for ever for a thread that still releases what it sent


def test_data_parallel(group: None) -> None:
    torch.manual_seed(0)
    model, x = Root(), torch.randn(4, 8)
    loss = nn.parallel.DistributedDataParallel(hnfc.optimize(model, x))(x)
    loss.backward()
    torch.testing.assert_close(loss.detach(), model(x).detach())
    assert model.blocks[0].linear.weight.grad.abs().sum() > 0
    distributed.barrier()
