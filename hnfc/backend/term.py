"""Formulas of `num` operations written as Python expressions; a number becomes a rank-0 constant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.ir import SSAValue

from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.base import Tensor, as_tensor, element_name


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
        operands = [self.value, *(self._lift(other) for other in others)]
        return EmittedTerm(OPERATIONS[name].make(*operands, **attributes).results[0])

    def _lift(self, other: EmittedTerm | float) -> SSAValue:
        if isinstance(other, EmittedTerm):
            return other.value
        return OPERATIONS["constant"].make(value=float(other), element=self.element, shape=()).results[0]

    def cast(self, element: str) -> EmittedTerm:
        return self if element == self.element else self.of("cast", to=element)

    def where(self, x: EmittedTerm | float, y: EmittedTerm | float) -> EmittedTerm:
        """x where this condition holds, else y; at least one of them is a term."""
        anchor = x if isinstance(x, EmittedTerm) else y
        if not isinstance(anchor, EmittedTerm):
            raise TypeError("expected a term among the two values, but got two numbers")
        left, right = anchor._lift(x), anchor._lift(y)
        return EmittedTerm(OPERATIONS["where"].make(self.value, left, right).results[0])

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
        return EmittedTerm(OPERATIONS["sub"].make(self._lift(other), self.value).results[0])

    def __mul__(self, other: EmittedTerm | float) -> EmittedTerm:
        return self.of("mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other: EmittedTerm | float) -> EmittedTerm:
        return self.of("div", other)

    def __rtruediv__(self, other: float) -> EmittedTerm:
        return EmittedTerm(OPERATIONS["div"].make(self._lift(other), self.value).results[0])
