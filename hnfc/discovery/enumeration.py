"""Terms by their size, one for each value, and the pairs that seem equal.

As Nandi et al., Rewrite rule inference using equality saturation (OOPSLA 2021), do for scalars: a term whose values at the
points are those of a smaller one is a candidate for a rule, and no larger term is made of it. Points are tensors of two
shapes; the elements of the first are all positive, those of the second of any sign. What agrees on the first alone may hold
under a condition. Values decide what is tried, never what is true.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from hnfc.core.progress import tell
from hnfc.dialects.num import COMMUTATIVE
from hnfc.discovery.operations import AXIS, Operation
from hnfc.dsl import core
from hnfc.dsl.core import Capture, Expr, Literal
from hnfc.dsl.ieee.arithmetic import NotComputed
from hnfc.dsl.ieee.evaluate import Batch, Evaluator, constant
from hnfc.dsl.ieee.moves import aligned
from hnfc.dsl.soundness.array_moves import ShapeMismatch
from hnfc.dsl.soundness.balls import Unsupported
from hnfc.dsl.soundness.typing import Mismatch, Typing

Array = np.ndarray[Any, Any]
FREE = "c"
"""The capture that does not vary along the axis."""
POSITIVE, SIGNED = 0, 1
_SAMPLES, _SIDES = 6, (3, 4)
_NOTHING, _CLOSE = 1e-12, 1e-9
_SEED = 20


@dataclass(frozen=True, eq=False)
class PointedTerm:
    """An expression, its number of operations, its values at the positive points and at those of any sign, and its place in the order."""

    expression: Expr
    size: int
    values: tuple[Array, Array]
    place: int

    @cached_property
    def captures(self) -> frozenset[str]:
        return frozenset(core.captures(self.expression))


@dataclass(frozen=True)
class EqualPair:
    """Two terms that seem equal, the smaller first; `conditional` where they agree at positive points alone."""

    smaller: PointedTerm
    larger: PointedTerm
    conditional: bool

    @property
    def order(self) -> tuple[int, bool, int]:
        """Small and general ones come first."""
        return self.smaller.size + self.larger.size, self.conditional, -len(self.larger.captures)


@dataclass
class Enumeration:
    """Terms of captures, constants and operations, one for each value that was seen.

    most: no more terms than these are looked at. complete: whether there were no more.
    """

    operations: Sequence[Operation]
    captures: Sequence[str]
    constants: Sequence[Literal]
    most: int = 200_000
    looked_at: int = 0
    complete: bool = True
    _of_size: dict[int, list[PointedTerm]] = field(default_factory=lambda: defaultdict(list))
    _known: dict[Any, PointedTerm] = field(default_factory=dict)
    _positive: dict[Any, list[PointedTerm]] = field(default_factory=lambda: defaultdict(list))

    @property
    def values(self) -> int:
        """The number of terms that differ from all others at the points."""
        return len(self._known)

    def candidates(self, size: int) -> list[EqualPair]:
        """Pairs whose larger term has this size. Sizes come one after another, from 0."""
        found = []
        for term in self._terms(size):
            if self.looked_at >= self.most:
                self.complete = False
                break
            self.looked_at += 1
            if self.looked_at % 1000 == 0:
                tell(f"size {size}: {self.looked_at:,} terms, {self.values:,} values …")
            if (pair := self._placed(term)) is not None:
                found.append(pair)
        return found

    def _placed(self, term: PointedTerm) -> EqualPair | None:
        """Keeps a term whose value is new; the pair of it and one that it seems to equal."""
        positive, signed = (_keys(values) for values in term.values)
        for key in itertools.product(positive, signed):
            if (same := self._known.get(key)) is not None:
                return EqualPair(same, term, False) if _agree(same, term, SIGNED) and _agree(same, term, POSITIVE) else None
        near = next((other for key in positive for other in self._positive[key] if _agree(other, term, POSITIVE)), None)
        self._known[positive[0], signed[0]] = term
        self._positive[positive[0]].append(term)
        self._of_size[term.size].append(term)
        return EqualPair(near, term, True) if near is not None else None

    def _terms(self, size: int) -> Iterator[PointedTerm]:
        if size == 0:
            yield from self._leaves()
        else:
            for operation in self.operations:
                for sizes in _splits(size - 1, len(operation.operands)):
                    yield from self._applied(operation, [self._of_size[part] for part in sizes], size)

    def _leaves(self) -> Iterator[PointedTerm]:
        for number in self.constants:
            value = constant(number.value, "f64")
            yield PointedTerm(number, 0, (value, value), self.values)
        for name in self.captures:
            yield PointedTerm(Capture(name), 0, (point(name, POSITIVE, FREE), point(name, SIGNED, FREE)), self.values)

    def _applied(self, operation: Operation, operands: list[list[PointedTerm]], size: int) -> Iterator[PointedTerm]:
        commutes = operation.simple is not None and operation.simple.operation in COMMUTATIVE
        for several in itertools.product(*operands):
            if all(isinstance(term.expression, Literal) for term in several) or (commutes and several[0].place > several[1].place):
                continue
            first = _value(operation, [term.values[POSITIVE] for term in several])
            if first is not None and np.isfinite(first).any():
                second = _value(operation, [term.values[SIGNED] for term in several])
                if second is not None:
                    yield PointedTerm(operation.of(*(term.expression for term in several)), size, (first, second), self.values)


def point(name: str, kind: int, free: str = "") -> Array:
    """Samples of a capture: square matrices, or columns where it is the free one."""
    draw = np.random.default_rng([_SEED, kind, *name.encode()])
    shape = (_SAMPLES, _SIDES[kind], 1 if name == free else _SIDES[kind])
    return draw.uniform(0.2, 2, shape) if kind == POSITIVE else draw.normal(0, 1.5, shape)


def _splits(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """The ways to write a number as that many numbers."""
    if parts == 1:
        yield (total,)
    else:
        for first in range(total + 1):
            yield from ((first, *rest) for rest in _splits(total - first, parts - 1))


def evaluated(expression: Expr, inputs: dict[str, Array], element: str) -> Array | None:
    """The expression in an element type at points, by sample; None where it has no value for these shapes."""
    typing = Typing(dict.fromkeys(inputs, element), element)
    try:
        with np.errstate(all="ignore"):
            return Evaluator(Batch(inputs, {AXIS: (-1,)}, typing)).value(expression)
    except (ShapeMismatch, Unsupported, Mismatch, NotComputed, ValueError):
        return None


def _value(operation: Operation, values: list[Array]) -> Array | None:
    found = evaluated(operation.expression, dict(zip(operation.operands, values, strict=True)), "f64")
    if found is None or found.dtype != np.float64:
        return None
    cleaned = np.where(np.abs(found) < _NOTHING, 0.0, found)
    return cleaned.flat[:1] if np.allclose(cleaned, cleaned.flat[0], rtol=_CLOSE, atol=0) else cleaned


def _keys(values: Array) -> list[Any]:
    """Keys of which two close values share one at least: the first is that of the value itself."""
    finite = np.isfinite(values)
    places = np.arange(1, values.size + 1, dtype=np.float64).reshape(values.shape)
    total = float(np.sum(np.where(finite, values, 0.0) * np.sqrt(places)))
    mask = finite.tobytes() if not finite.all() else b""
    return [(values.shape, mask, f"{total * (1 + shift):.7e}") for shift in (0.0, 4e-8, -4e-8)]


def _agree(one: PointedTerm, other: PointedTerm, kind: int) -> bool:
    a, b = aligned([one.values[kind], other.values[kind]])
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=_CLOSE, atol=_CLOSE, equal_nan=True))
