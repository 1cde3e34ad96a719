"""Look-ups: elements at indices that an operand holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, TensorType
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from hnfc.dialects.assembly import TYPES
from hnfc.dialects.facts import Access, Exactness, Facts
from hnfc.dialects.interval import Interval
from hnfc.dialects.num.base import NumOp, Tensor
from hnfc.dialects.types import ANY, Kind, TypeMismatch, tensor


def take(table: Any, indices: Any) -> Any:
    return np.take(table, indices, axis=0)


def gather(x: Any, index: Any, axis: int) -> Any:
    """result[i, j, k] = x[i, index[i, j, k], k] for axis 1. Other axes of index may be shorter than those of x."""
    shape = np.shape(index)
    cut = x[tuple(slice(None) if i == axis else slice(0, n) for i, n in enumerate(shape))]
    return np.take_along_axis(cut, index, axis=axis)


def gathered_range(x: Interval, index: Interval, **_: Any) -> Interval:
    return x


def embedded(table: Tensor, indices: Tensor) -> Tensor:
    return tensor(table.element_type, (*indices.get_shape(), *table.get_shape()[1:]))


@irdl_op_definition
class EmbeddingOp(NumOp):
    """table[indices]: the rows of table."""

    name = "num.embedding"
    table = operand_def(TensorType)
    indices = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = f"$table `,` $indices {TYPES}"
    FACTS: ClassVar = Facts(
        access=Access.LOOKUP,
        exactness=Exactness.SELECTION,
        accepts=ANY,
        alike=range(1),
        others=Kind.INTEGER,
        real=None,
        evaluate=take,
        range=gathered_range,
        torch=("aten.embedding",),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        table, indices = operands
        return embedded(table, indices)


@irdl_op_definition
class GatherOp(NumOp):
    """x[…, index[…], …]: element by element along `axis`."""

    name = "num.gather"
    x = operand_def(TensorType)
    index = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    result = result_def(TensorType)
    assembly_format = f"$x `,` $index $axis {TYPES}"
    FACTS: ClassVar = Facts(
        access=Access.LOOKUP,
        exactness=Exactness.SELECTION,
        accepts=ANY,
        alike=range(1),
        others=Kind.INTEGER,
        real=lambda m, x, index, axis: m.gather(x, index, axis),
        evaluate=gather,
        range=gathered_range,
        torch=("aten.gather",),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        x, index = operands
        if len(x.get_shape()) != len(index.get_shape()):
            raise TypeMismatch(f"expected an index of the rank of {x}, but got {index}")
        return tensor(x.element_type, index.get_shape())


@irdl_op_definition
class IndexSelectOp(NumOp):
    """x[…, index, …]: whole slices along `axis`, in the order of the vector index."""

    name = "num.index_select"
    x = operand_def(TensorType)
    index = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    result = result_def(TensorType)
    assembly_format = f"$x `,` $index $axis {TYPES}"
    FACTS: ClassVar = Facts(
        access=Access.LOOKUP,
        exactness=Exactness.SELECTION,
        accepts=ANY,
        alike=range(1),
        others=Kind.INTEGER,
        real=None,
        evaluate=lambda x, index, axis: np.take(x, index, axis=axis),
        range=gathered_range,
        torch=("aten.index_select",),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        x, index = operands
        axis, shape = attributes["axis"], x.get_shape()
        if len(index.get_shape()) != 1 or not 0 <= axis < len(shape):
            raise TypeMismatch(f"expected a vector of indices and an axis below {len(shape)}, but got {index} and {axis}")
        return tensor(x.element_type, (*shape[:axis], index.get_shape()[0], *shape[axis + 1 :]))
