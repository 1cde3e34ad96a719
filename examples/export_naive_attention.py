"""Writes naive_attention.mlir: an attention whose softmax has no shift, exported from PyTorch by torch-mlir.

    python examples/export_naive_attention.py > examples/naive_attention.mlir

Needs torch and torch-mlir; hnfc itself needs no torch to compile the file.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch_mlir import fx


class NaiveAttention(torch.nn.Module):
    """softmax(QKᵀ/√d)·V as it is written in textbooks: exp overflows once a score passes 88."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        weights = torch.exp(scores)
        return weights / weights.sum(-1, keepdim=True) @ v


if __name__ == "__main__":
    inputs = [torch.zeros(1, 2, 8, 16) for _ in range(3)]
    module = fx.export_and_import(NaiveAttention(), *inputs, output_type="raw", func_name="main")
    here = str(Path(__file__).parent) + "/"
    print(module.operation.get_asm(enable_debug_info=True).replace(here, ""), end="")
