"""Facts that an operation must state, and the interface in which its meaning is written.

`Facts.real` states the meaning of an operation over the real numbers, once, over `Math`. Every reader of that
formula (the prover, ball arithmetic) brings a `Math` of its own, so they cannot disagree about what is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

from hnfc.dialects.types import ANY, ElementFormat, Kind

Formula: TypeAlias = Callable[..., Any]
"""`formula(m, *operands, **attributes)`: operands are tensors of the back end `m`."""


class Math(Protocol):
    """Primitives over the reals. A tensor of a back end supports `+ - * /` and unary `-` with broadcasting.

    `axes` is an opaque token: a formula hands it on and never looks inside. Conditions are back-end values too.
    """

    def const(self, value: float | Fraction) -> Any: ...

    # elementwise functions; each is partial exactly where the usual real function is
    def exp(self, x: Any) -> Any: ...
    def log(self, x: Any) -> Any: ...
    def sqrt(self, x: Any) -> Any: ...
    def pow(self, x: Any, y: Any) -> Any: ...
    def sin(self, x: Any) -> Any: ...
    def cos(self, x: Any) -> Any: ...
    def atan(self, x: Any) -> Any: ...
    def asin(self, x: Any) -> Any: ...
    def acos(self, x: Any) -> Any: ...
    def atan2(self, y: Any, x: Any) -> Any: ...
    def erf(self, x: Any) -> Any: ...
    def lgamma(self, x: Any) -> Any: ...
    def i0(self, x: Any) -> Any: ...
    def floor(self, x: Any) -> Any: ...
    def abs(self, x: Any) -> Any: ...
    def round_to(self, x: Any, format: Any) -> Any: ...
    def maximum(self, x: Any, y: Any) -> Any: ...
    def minimum(self, x: Any, y: Any) -> Any: ...

    # conditions
    def compare(self, predicate: str, x: Any, y: Any) -> Any: ...
    def logical_and(self, p: Any, q: Any) -> Any: ...
    def logical_or(self, p: Any, q: Any) -> Any: ...
    def logical_not(self, p: Any) -> Any: ...
    def where(self, p: Any, x: Any, y: Any) -> Any: ...
    def weight(self, mask: Any) -> Any:
        """The factor by which a mask changes e^score: 1 where a condition holds and 0 elsewhere, e^mask for numbers."""
        ...

    # reductions over `axes`; the reduced axes stay with size 1
    def sum(self, x: Any, axes: Any) -> Any: ...
    def prod(self, x: Any, axes: Any) -> Any: ...
    def amax(self, x: Any, axes: Any) -> Any: ...
    def amin(self, x: Any, axes: Any) -> Any: ...
    def size(self, x: Any, axes: Any) -> Any: ...

    # contraction and movement
    def matmul(self, a: Any, b: Any) -> Any: ...
    def transpose(self, x: Any, perm: Any) -> Any: ...
    def slice(self, x: Any, axis: Any, start: Any, stop: Any, step: Any) -> Any: ...
    def concat(self, parts: Any, axis: Any) -> Any: ...
    def pad(self, x: Any, axis: Any, low: Any, high: Any, value: Any) -> Any: ...
    def reverse(self, x: Any, axes: Any) -> Any: ...
    def repeat(self, x: Any, axis: Any, size: Any) -> Any: ...
    def gather(self, x: Any, index: Any, axis: Any) -> Any: ...
    def cumsum(self, x: Any, axis: Any) -> Any:
        """The sums of x up to and with each place along the axis."""
        ...

    def lower(self, x: Any) -> Any:
        """x where its last index is at most the one before, and 0 elsewhere."""
        ...

    def index_of(self, x: Any, axes: Any, greatest: bool) -> Any:
        """The first index along the axes, flattened, of the greatest element or of the least."""
        ...

    def conv(self, x: Any, weight: Any, stride: Any, padding: Any, dilation: Any, groups: Any) -> Any: ...


class Elementary(Protocol):
    """Functions that `Facts.gradient` is written in: each is accurate in floating point over its whole domain."""

    def exp(self, x: Any) -> Any: ...
    def sqrt(self, x: Any) -> Any: ...
    def sigmoid(self, x: Any) -> Any: ...
    def erfcx(self, x: Any) -> Any: ...
    def hypot(self, x: Any, y: Any) -> Any: ...
    def abs(self, x: Any) -> Any: ...
    def where(self, p: Any, x: Any, y: Any) -> Any: ...


class StepBuilder(Protocol):
    """Operations of the dialect by name, on values of a back end: `s("sum", x, axes=axes)`. Numbers may be operands."""

    def __call__(self, name: str, *operands: Any, **attributes: Any) -> Any: ...
    def size(self, x: Any, axes: Any) -> Any: ...


class NoFormula(Exception):
    """Raised by a `real` for attributes under which the operation is no formula over `Math`."""


@dataclass(frozen=True)
class Context:
    """Inputs of a range besides the operands' intervals, for reductions and contractions.

    count: how many elements each result combines (inf: not known). format: the element type of the arithmetic, None for integers.
    """

    count: float
    format: ElementFormat | None


UNKNOWN_CONTEXT = Context(math.inf, None)


class Access(Enum):
    """Elements of the operands that one element of the result depends on."""

    ELEMENTWISE = auto()
    """The elements at its own index, after broadcasting."""
    MOVEMENT = auto()
    """One, which it is."""
    LOOKUP = auto()
    """One, which it is, at an index that an operand holds."""
    REDUCTION = auto()
    """All along axes that stay with size 1."""
    SCAN = auto()
    """Some or all along axes, in the shape of the first operand."""
    CONTRACTION = auto()
    """Rows of several operands, or a window of one."""
    SOURCE = auto()
    """None: there is no operand."""
    WALL = auto()
    """Nobody knows."""


class Exactness(Enum):
    """Roundings between the operands and the result."""

    SELECTION = auto()
    """None: the result is an element of an operand."""
    NEGATION = auto()
    """None: the result is an element of the operand, or its negation."""
    EXACT = auto()
    """None: the result is an integer or a truth value."""
    CORRECT = auto()
    """One, which IEEE 754 determines."""
    FUNCTION = auto()
    """The roundings of a library's approximation to a function of the operands."""
    ALGORITHM = auto()
    """Several, which depend on the implementation."""


class Parity(Enum):
    """Symmetry of a function of one operand."""

    NONE = auto()
    ODD = auto()
    """f(-x) = -f(x)."""
    EVEN = auto()
    """f(-x) = f(x)."""


@dataclass(frozen=True)
class RealDomain:
    """Values of the first operand at which an operation is defined over the reals, whatever the others are."""

    least: float = -math.inf
    greatest: float = math.inf
    open: bool = False
    """True if the least (or the greatest) value itself is not among them."""
    pole: bool = False
    """True if 0 is not among them."""
    irregular: bool = False
    """True if others are not among them either, or it depends on all operands."""


class Storage(Enum):
    """Roundings of kernels for half precision to the element type."""

    END = auto()
    """Of the result, computed in float32."""
    STEPS = auto()
    """Of every step of the operation's algorithm."""
    WHOLE = auto()
    """Of every addition and multiplication."""


class Accumulation(Enum):
    """Error of a result that combines n numbers, to first order in the unit roundoff u.

    Sections are those of Higham: Accuracy and stability of numerical algorithms, 2002.
    """

    NONE = auto()
    """The error that `ulps` states, for a fixed number of operands."""
    SUM = auto()
    """(n - 1)·u·Σ|x|, in any order (section 4.2)."""
    PAIRWISE = auto()
    """⌈log₂ n⌉·u·Σ|x|."""
    COMPENSATED = auto()
    """u·|Σ x| (Neumaier 1974; section 4.3)."""
    PRODUCT = auto()
    """(n - 1)·u·|Π x|."""
    CONTRACTION = auto()
    """n·u·|A||B| (section 3.5)."""


class Result(Enum):
    """Element type of a result."""

    SAME = auto()
    """The type that the operands have in common."""
    TRUTH = auto()
    INDEX = auto()
    ATTRIBUTE = auto()
    """The one that an attribute names."""


Operands: TypeAlias = range
"""Positions of operands."""
NO_OPERANDS = range(0)


def _unstated(*_: Any) -> Any:
    raise NotImplementedError


@dataclass(frozen=True)
class Facts:
    """Everything that hnfc knows of an operation besides its types. A fact is given or the operation does not import.

    access: the elements of the operands that one of the result depends on.
    exactness: the roundings between operands and result.
    accepts: the kinds of elements that the operands may have which share one type.
    alike: these operands; all where it is not given. others: the kinds of the rest: conditions, masks, indices.
    result: the element type of the result.
    modular: whether integer arithmetic gives the result modulo any number, whatever wrapped before.
    domain: the values of the first operand at which it is defined. divisor: whether the last operand must not be 0.
    parity: its symmetry, if it has one operand.
    storage: when kernels for half precision round to it.
    underflows: whether the result may be 0 as computed where it is not over the reals, on plain numbers.
    curvature: how much it bends, `curvature(*arrays)`, an array or a number. None: the second derivatives by single operands.
    real: its meaning over the reals, or None where that is no formula over `Math` (the prover then treats it as an unknown function).
    evaluate: how floating point computes it: `evaluate(*arrays, **attributes)` on NumPy arrays in the working precision.
    range: `range(*intervals, **attributes)`: an interval that holds every value of the result, before its last rounding
        to the element type (`NumOp.transfer` adds that).
    torch: the names of the torch operations that mean exactly this (the first is what is written on export).
    accumulation: the error of combining many numbers. scales: operands that are exact factors where they are powers of two.
    addends: operands beside which nothing is rounded where they are 0.
    ulps: how many units of roundoff an implementation may be off by, relative to the result. Not given: 0 if nothing is rounded, 1 if
        correctly, else 8.
    derivative: of a function that rises wherever it is defined, its slope as `derivative(m, x, y)`, y being the result: a formula in
        which x or y occurs once, so that intervals of it are tight. None: the derivative follows from `real`.
    stray: `stray(form, *operands)`: how far an implementation may be off besides, absolutely, on operands with the ends `lo` and `hi`, in
        the format that it computes in: thresholds beyond which a kernel leaves a term out, and infinity where it may give NaN.
    early: a result beyond the largest number divided by this may be infinite.
    stray_half: an absolute error of the kernels for half precision besides.
    roundings: how often a kernel rounds to the format of its result where that is narrower than what it computes in.
    contextual: whether `range` also takes `context=` (a Context); without one it assumes nothing of sizes and formats.
    steps: the algorithm of `evaluate` in other operations, `steps(s, *operands, **attributes)` over `StepBuilder`: errors are bounded step
        by step, and an operation that torch lacks is exported as its steps. None, also for some attributes: it is a step itself.
    gradient: the partial derivatives by the operands, `gradient(m, *operands)`, over `Elementary`; accurate wherever the operation is,
        and 0 or a subgradient at kinks. None: the derivative that torch has for the operation is accurate.
    """

    access: Access
    exactness: Exactness
    accepts: Kind
    real: Formula | None
    evaluate: Callable[..., Any] | None
    range: Callable[..., Any]
    torch: tuple[str, ...]
    ulps: float = math.nan
    contextual: bool = False
    derivative: Formula | None = None
    steps: Formula | None = _unstated
    gradient: Formula | None = None
    stray: Callable[..., Any] | None = None
    stray_half: float = 0.0
    early: float = 1.0
    roundings: int = 1
    alike: Operands = range(2**31)
    others: Kind = ANY
    result: Result = Result.SAME
    modular: bool = False
    domain: RealDomain = RealDomain()
    parity: Parity = Parity.NONE
    divisor: bool = False
    underflows: bool = False
    storage: Storage = Storage.END
    curvature: Callable[..., Any] | None = None
    accumulation: Accumulation = Accumulation.NONE
    scales: Operands = NO_OPERANDS
    addends: Operands = NO_OPERANDS

    def __post_init__(self) -> None:
        if math.isnan(self.ulps):
            object.__setattr__(self, "ulps", 0.0 if self.exact else 1.0 if self.exactness is Exactness.CORRECT else 8.0)
        if self.steps is _unstated:
            if self.exactness is Exactness.ALGORITHM and self.accumulation is Accumulation.NONE and self.real is not None:
                raise TypeError(
                    "an operation of several roundings needs the fact `steps`, its algorithm in other operations, "
                    "or `accumulation`, the error of combining many numbers"
                )
            object.__setattr__(self, "steps", None)

    @property
    def exact(self) -> bool:
        """True if nothing is rounded."""
        return self.exactness in (Exactness.SELECTION, Exactness.NEGATION, Exactness.EXACT)

    @property
    def moves(self) -> bool:
        """True if the result holds the elements of an operand in another order, or some of them."""
        return self.access in (Access.MOVEMENT, Access.LOOKUP)

    @property
    def ignores_wrapping(self) -> bool:
        """True if the operation gives of integers what it gives of real numbers: nothing wraps, nothing is cut off."""
        return self.moves or self.access is Access.SOURCE or self.exactness in (Exactness.SELECTION, Exactness.EXACT)
