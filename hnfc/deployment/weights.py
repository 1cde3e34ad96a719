"""Weights by name as whole numbers, scales and zero points, or as plain tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from hnfc.dialects.formats import Fixed
from hnfc.formats.granular import Along, Granular
from hnfc.formats.packed import PackedTensor
from hnfc.formats.scaled import stored_format

State = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class IntegerMatrix:
    """A matrix as (codes - zeros)·scales. codes: in the shape of the matrix. scales, zeros: one for each group of each row."""

    form: Granular
    codes: torch.Tensor
    scales: torch.Tensor
    zeros: torch.Tensor | None


def integer_matrix(tensor: torch.Tensor) -> IntegerMatrix | None:
    """The integers of a matrix that is stored in them, where groups fill its rows; None for others."""
    if not isinstance(tensor, PackedTensor) or tensor.dim() != 2:
        return None
    form = stored_format(tensor.form)
    if not isinstance(form, Granular) or not isinstance(form.element, Fixed):
        return None
    rows, length, size = form.rows(tensor.shape)
    if (rows != tensor.shape[0] and form.along is not Along.TENSOR) or length % size:
        return None
    codes, scales, zeros = tensor.parts_of(form)
    return IntegerMatrix(form, codes.reshape(tensor.shape), scales, zeros)


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """The numbers that a tensor holds."""
    return tensor.dense() if isinstance(tensor, PackedTensor) else tensor.detach()
