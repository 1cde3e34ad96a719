"""Shares of values that are 0, subnormal, saturated or not finite, and their exponents, from at most 1,024 elements of each tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import torch

_SIZE = 1024
"""Elements of a sample."""


@dataclass(frozen=True)
class Shares:
    """Shares of a sample's elements. saturated: as large as the largest number of the type. exponents: counts by floor(log2)."""

    not_finite: float = 0.0
    zeros: float = 0.0
    subnormal: float = 0.0
    saturated: float = 0.0
    exponents: dict[int, int] = field(default_factory=dict)


def sample_of(tensor: torch.Tensor) -> torch.Tensor:
    """At most 1,024 elements at equal distances, copied; no wait for a device. The distance has no factor in common with the length of
    a row, so that all columns come in."""
    length = tensor.numel()
    if length <= _SIZE:
        return tensor.reshape(-1).clone()
    distance = _distance(length, tensor.shape[-1])
    if not tensor.is_contiguous():
        return tensor.reshape(-1)[::distance][:_SIZE].clone()
    return tensor.as_strided((min(_SIZE, -(-length // distance)),), (distance,), tensor.storage_offset()).clone()


@cache
def _distance(length: int, row: int) -> int:
    """Distance between the elements of a sample."""
    distance = length // _SIZE
    while math.gcd(distance, row) != 1:
        distance -= 1
    return distance


def shares_of(samples: Sequence[torch.Tensor]) -> list[Shares]:
    """Shares of each sample. All samples of one type and device are counted together: each device is waited for once."""
    found = [Shares() for _ in samples]
    groups: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for index, sample in enumerate(samples):
        if sample.numel() and sample.is_floating_point():
            groups.setdefault((sample.device, sample.dtype), []).append(index)
    for (_, dtype), indices in groups.items():
        rows = torch.nn.utils.rnn.pad_sequence([samples[i] for i in indices], batch_first=True)
        lengths = [len(samples[i]) for i in indices]
        for index, shares in zip(indices, _of_rows(rows, lengths, torch.finfo(dtype)), strict=True):
            found[index] = shares
    return found


def _of_rows(rows: torch.Tensor, lengths: list[int], info: torch.finfo) -> list[Shares]:
    """Shares of the rows. Behind the length of a row there are zeros, which do not count."""
    size = rows.double().abs()
    finite = size.isfinite()
    counted = [~finite, size == 0, (size > 0) & (size < info.smallest_normal), finite & (size >= info.max)]
    counts = torch.stack([each.sum(1) for each in counted]).tolist()
    inside = finite & (size > 0)
    exponents = torch.where(inside, torch.frexp(torch.where(inside, size, 1.0))[1] - 1, 0)
    low, high = (int(exponents.min()), int(exponents.max())) if rows.numel() else (0, 0)
    slots = torch.where(inside, exponents - low, high - low + 1) + torch.arange(len(rows), device=rows.device)[:, None] * (high - low + 2)
    table = torch.bincount(slots.reshape(-1), minlength=len(rows) * (high - low + 2)).reshape(len(rows), -1).tolist()
    found = []
    for row, length in enumerate(lengths):
        unfinite, zeros, subnormal, saturated = (counts[kind][row] for kind in range(4))
        zeros -= rows.shape[1] - length
        by_exponent = {low + place: count for place, count in enumerate(table[row][:-1]) if count}
        found.append(Shares(unfinite / length, zeros / length, subnormal / length, saturated / length, by_exponent))
    return found
