"""Products of matrices that a kernel accumulates onto another term of a sum: the error that this adds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import Operation, SSAValue

from hnfc.analysis.batch_axis import raised
from hnfc.analysis.nodes import TapeNode, running_error
from hnfc.analysis.rounding import contracted, onto
from hnfc.dialects.facts import NoFormula
from hnfc.dialects.interval_arrays import Array, IntervalArray
from hnfc.dialects.num.accumulation import scaled_product_of, terms_of
from hnfc.dialects.num.base import NumOp
from hnfc.dialects.num.convolution import ConvOp
from hnfc.dialects.num.matmul import MatmulOp
from hnfc.dialects.types import ElementFormat


@dataclass
class Products:
    """Matrix products and convolutions that were recorded.

    factors: the largest elements of both operands. terms: the operands of the products of matrices that are not rounded to a narrower
    format.
    """

    factors: dict[Operation, tuple[float, float]] = field(default_factory=dict)
    terms: dict[SSAValue, tuple[IntervalArray, IntervalArray]] = field(default_factory=dict)

    def note(self, operation: Operation, a: TapeNode, b: TapeNode, *, whole: bool) -> None:
        """Adds a product. whole: whether it is one of matrices without a rounding behind it."""
        first, second = (float(np.max(x.value.magnitude, initial=0.0)) for x in (a, b))
        self.factors[operation] = first, second
        if whole and min(len(a.shape), len(b.shape)) > 1:
            self.terms[operation.results[0]] = a.value, b.value

    def onto_sums(self, operation: NumOp, operands: Sequence[TapeNode], result: TapeNode, form: ElementFormat,
                  independent: bool = False) -> Iterator[Array]:  # fmt: skip
        """Errors of a sum of which one operand is a product that a kernel may accumulate onto the other. Raises NoFormula."""
        for value, node, other in zip(operation.operands, operands, operands[::-1], strict=True):
            count = terms_of(value)
            if count == math.inf:
                raise NoFormula("a product of unknown size onto a bias")
            if count:
                bias = -other.value if operation.name == "num.sub" else other.value
                more = self._onto(value, node, bias, result, count, form, independent)
                yield np.full_like(more, np.inf) if self._overflows_scaled(value, count, other, form) else more

    def _onto(self, value: SSAValue, node: TapeNode, bias: IntervalArray, result: TapeNode, count: float, form: ElementFormat,
              independent: bool) -> Array:  # fmt: skip
        """Further error where the bias is one of the terms of the product's sums."""
        whole = self.terms.get(value)
        if whole is None or result.shape != node.shape:
            rank = len(result.shape)
            own = node.noise if isinstance(value.owner, MatmulOp | ConvOp) and node.noise is not None else running_error(node)
            return onto(raised(bias.magnitude, rank), raised(own, rank), count, form)
        together = contracted(result.shape, *whole, bias, form, independent)
        first, second = (0.0 if n.noise is None else n.noise for n in (node, result))
        if independent:
            return np.asarray(np.sqrt(np.maximum(np.square(together) - np.square(first) - np.square(second), 0.0)))
        apart = first + second
        return np.where(np.isfinite(together), np.maximum(together - apart, 0.0) * (1 + 2.0**-48), together)

    def _overflows_scaled(self, value: SSAValue, count: float, other: TapeNode, form: ElementFormat) -> bool:
        """Return whether a kernel that scales an operand before the product, as addmm may, can leave the format on the way."""
        product, factor = scaled_product_of(value)
        assert product is not None
        first, second = self.factors[product]
        scale = max(abs(factor), 1.0)
        sizes = scale * first, scale * second, count * scale * first * second + np.max(other.value.magnitude, initial=0.0)
        return factor != 1 and not max(sizes) * (1 + 4 * (count + 2) * form.unit_roundoff) <= form.largest
