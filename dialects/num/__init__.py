"""The `num` dialect: pure tensor mathematics. `OPERATIONS` is where every other part finds an operation."""

from xdsl.ir import Dialect
from xdsl.traits import Commutative

from hnfc.dialects.num import (
    activation,
    arithmetic,
    attention,
    binary_functions,
    comparison,
    compensated,
    constant,
    convolution,
    elementary,
    extremes,
    lookup,
    matmul,
    movement,
    normalization,
    opaque,
    reduction,
    rounding,
    softmax,
    special,
    trigonometry,
)
from hnfc.dialects.num.base import NumOp
from hnfc.dialects.torch import TorchType
from hnfc.dialects.types import IntsAttr

_MODULES = (
    elementary, trigonometry, special, activation, arithmetic, binary_functions, rounding, comparison, reduction, extremes, softmax,
    normalization, attention, compensated, matmul, convolution, lookup, movement, constant, opaque,
)  # fmt: skip

OPERATIONS: dict[str, type[NumOp]] = {
    operation.name.removeprefix("num."): operation
    for module in _MODULES
    for operation in vars(module).values()
    if isinstance(operation, type)
    and issubclass(operation, NumOp)
    and operation.__module__ == module.__name__
    and "name" in vars(operation)
}
"""Every operation by its name without the `num.` in front."""

COMPUTING: frozenset[type] = frozenset(OPERATIONS.values()) - {opaque.OpaqueOp}
"""The classes of operations that hnfc knows. `type(op) in COMPUTING` is ten times as fast as isinstance on abstract classes."""

COMMUTATIVE: frozenset[type] = frozenset(operation for operation in OPERATIONS.values() if operation.has_trait(Commutative))
"""The classes whose two operands may change places: the result is the same to the last bit."""

NUM = Dialect("num", list(OPERATIONS.values()), [IntsAttr, TorchType])

__all__ = ["COMMUTATIVE", "COMPUTING", "NUM", "OPERATIONS", "NumOp"]
