"""Formulas of `num` operations written as Python expressions; a number becomes a rank-0 constant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import SSAValue

from hnfc.core.errors import ModelError
from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.base import Tensor, as_tensor, element_name
from hnfc.dialects.types import DYNAMIC


@dataclass(frozen=True)
class EmittedTerm:
    """A value that operations can be applied to: `t + 1`, `t.of("exp")`, `t.of("maximum", 0)`."""

    value: SSAValue

    @property
    def type(self) -> Tensor:
        return as_tensor(self.value.type)

    @property
    def element(self) -> str:
        return element_name(self.type)

    def of(self, name: str, *others: EmittedTerm | float, **attributes: Any) -> EmittedTerm:
        """The operation `name` on this value and others."""
        return apply(name, self, *others, **attributes)

    def cast(self, element: str) -> EmittedTerm:
        return self if element == self.element else self.of("cast", to=element)

    def where(self, x: EmittedTerm | float, y: EmittedTerm | float) -> EmittedTerm:
        """x where this condition holds, else y; at least one of them is a term."""
        return apply("where", self, x, y)

    def compare(self, predicate: str, other: EmittedTerm | float) -> EmittedTerm:
        return self.of("compare", other, predicate=predicate)

    def __neg__(self) -> EmittedTerm:
        return self.of("neg")

    def __add__(self, other: EmittedTerm | float) -> EmittedTerm:
        return self.of("add", other)

    __radd__ = __add__

    def __sub__(self, other: EmittedTerm | float) -> EmittedTerm:
        return self.of("sub", other)

    def __rsub__(self, other: float) -> EmittedTerm:
        return apply("sub", other, self)

    def __mul__(self, other: EmittedTerm | float) -> EmittedTerm:
        return self.of("mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other: EmittedTerm | float) -> EmittedTerm:
        return self.of("div", other)

    def __rtruediv__(self, other: float) -> EmittedTerm:
        return apply("div", other, self)


def apply(name: str, *operands: EmittedTerm | float, **attributes: Any) -> EmittedTerm:
    """The operation on terms and numbers, which have the element type of the last term."""
    element = next(x.element for x in reversed(operands) if isinstance(x, EmittedTerm))

    def value(x: EmittedTerm | float) -> SSAValue:
        return x.value if isinstance(x, EmittedTerm) else OPERATIONS["constant"].make(value=float(x), element=element, shape=()).results[0]

    return EmittedTerm(OPERATIONS[name].make(*map(value, operands), **attributes).results[0])


class EmittedSteps:
    """Steps of an algorithm as terms."""

    def __call__(self, name: str, *operands: EmittedTerm | float, **attributes: Any) -> EmittedTerm:
        return apply(name, *operands, **attributes)

    def size(self, x: EmittedTerm, axes: Sequence[int]) -> float:
        """Raises ModelError where it is not known."""
        sizes = [x.type.get_shape()[axis] for axis in axes]
        if DYNAMIC in sizes:
            raise ModelError(f"expected known sizes along the axes {list(axes)}, but got {x.type}")
        return float(math.prod(sizes))
