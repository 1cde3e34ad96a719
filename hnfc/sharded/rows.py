"""Matrices by pieces of rows, so that never all of one is dense or converted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from hnfc.formats.packed import PackedTensor, packed

PIECE = 1 << 18
"""Elements of a weight that are converted at once: as numbers of 64 bits they lie in a cache of a processor."""


def row_pieces(shape: Sequence[int]) -> list[slice]:
    """Rows of a matrix in pieces of about PIECE elements, each of a multiple of 64 rows but the last."""
    rows = max(PIECE // max(math.prod(shape[1:]), 1) // 64 * 64, 64)
    return [slice(first, min(first + rows, shape[0])) for first in range(0, shape[0], rows)]


@dataclass(frozen=True)
class PackedRows:
    """A matrix in a format, as pieces of rows."""

    pieces: tuple[PackedTensor, ...]


class RowPacker:
    """Pieces of rows of a matrix in a format by rows or groups. Parts of a kind lie in one block of memory, so that no heap breaks up."""

    def __init__(self, weight: torch.Tensor, form: str) -> None:
        self.weight, self.form = weight, form
        self.pieces: list[PackedTensor] = []
        self._blocks: dict[str, torch.Tensor] = {}
        self._ends: dict[str, int] = {}

    def add(self, rows: slice) -> PackedTensor:
        """The next rows."""
        made = packed(self.weight[rows], self.form)
        codes, scales = self._kept("codes", made.codes, made.shape[0]), self._kept("scales", made.scales, made.shape[0])
        assert codes is not None
        zeros = self._kept("zeros", made.zeros, made.shape[0])
        self.pieces.append(PackedTensor(codes, scales, made.step, self.form, made.shape, made.dtype, zeros))
        return self.pieces[-1]

    def _kept(self, kind: str, part: torch.Tensor | None, rows: int) -> torch.Tensor | None:
        if part is None:
            return None
        if kind not in self._blocks:
            self._blocks[kind] = part.new_empty((math.ceil(len(part) * len(self.weight) / rows), *part.shape[1:]))
        end = self._ends.get(kind, 0)
        self._ends[kind] = end + len(part)
        return self._blocks[kind][end : end + len(part)].copy_(part)
