"""Runs a `num` function on arrays: in the model's own precision, in float64, or exactly (ball arithmetic)."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping
from typing import Any, TypeAlias

import numpy as np
from flint import arb
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from hnfc.core.size_arithmetic import compute_size
from hnfc.dialects.facts import NoFormula
from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.base import NumOp
from hnfc.dialects.num.constant import WeightOp
from hnfc.dialects.num.opaque import OpaqueOp
from hnfc.dialects.num.rounding import NUMPY_TYPES
from hnfc.dialects.types import DYNAMIC, ELEMENT_NAMES, FORMATS
from hnfc.dsl.soundness.balls import ArbMath, Balls, ShapeMismatch, Undecided, Unsupported, precision

Array: TypeAlias = "np.ndarray[Any, Any]"
WeightReader: TypeAlias = Callable[[str], Array]
"""Elements of a weight by its name."""
_CONSTANT, _CAST, _BROADCAST = OPERATIONS["constant"], OPERATIONS["cast"], OPERATIONS["broadcast"]
_WORKING = {
    "f16": np.float32,
    "bf16": np.float32,
    "f8E4M3FN": np.float32,
    "f8E5M2": np.float32,
    "f8E4M3FNUZ": np.float32,
    "f8E5M2FNUZ": np.float32,
}
"""Formats that torch computes in float32 and rounds afterwards."""
FOREIGN: list[Callable[[OpaqueOp, Mapping[SSAValue, Array], bool], list[Array] | None]] = []
"""Evaluators of operations that hnfc does not know; `hnfc.backend.opaque_on_torch` adds torch where it is loaded."""
EXACT_BUDGET = 150_000
"""Elementary steps that a reference in ball arithmetic may take; beyond that the reference is float64, and called so."""
EXACT_BITS = (240, 2400)
"""Precisions of ball arithmetic; the second one where the first leaves digits open, as 1 - e^x for the smallest x of float64."""
_BLOCK = 2**20
"""Elements of a matrix that are widened at a time."""


def evaluate(
    block: Block,
    inputs: Mapping[SSAValue, Array],
    weights: WeightReader | None = None,
    *,
    wide: bool = False,
    keep: Collection[SSAValue] | None = None,
    stop: Callable[[], bool] | None = None,
) -> dict[SSAValue, Array]:
    """The array of every value that can be computed; opaque operations and what hangs on them are left out.

    keep: the values that are wanted (None: all); others are dropped once nothing needs them any more.
    wide: all floating-point arithmetic in float64, without rounding to the element types. Operands are widened where they are used,
    and what is only moved is not: a model's weights are there once.
    """
    found: dict[SSAValue, Array] = dict(inputs)
    kept = frozenset(keep or ())
    last = last_uses(block) if keep is not None else {}
    for operation in block.ops:
        if stop is not None and stop():
            break
        compute_into(found, operation, weights, wide)
        for value in (*operation.operands, *operation.results) if keep is not None else ():
            if last.get(value, operation) is operation and value not in kept:
                found.pop(value, None)
    return found


def last_uses(block: Block) -> dict[SSAValue, Operation]:
    """The last operation that needs each value; what is in a list is needed by the users of the list."""
    last: dict[SSAValue, Operation] = {}
    listed: dict[SSAValue, list[SSAValue]] = {}
    for operation in block.ops:
        needed = [value for operand in operation.operands for value in (operand, *listed.get(operand, ()))]
        last.update(dict.fromkeys(needed, operation))
        for result in operation.results:
            if needed and not isinstance(result.type, TensorType) and "list" in str(result.type):
                listed[result] = needed
    return last


def compute_into(found: MutableMapping[SSAValue, Array], operation: Operation, weights: WeightReader | None, wide: bool = False) -> None:
    """Adds the results of one operation, if its operands are there and it can be computed."""
    if isinstance(operation, OpaqueOp):
        size_into(found, operation)
        _foreign_into(found, operation, wide)
        return
    if not isinstance(operation, NumOp) or not operation.results or not isinstance(operation.results[0].type, TensorType):
        return
    if isinstance(operation, WeightOp):
        if weights is not None:
            found[operation.results[0]] = weights(operation.weight_name)
        return
    arrays = [found.get(operand) for operand in operation.operands]
    if any(array is None for array in arrays):
        return
    results = compute(operation, arrays, wide)
    if results is not None:
        found.update(zip(operation.results, results, strict=False))


def _wide_product(a: Array, b: Array) -> Array:
    """a @ b in float64; a large b, as a model's weights are, is widened some columns at a time."""
    a = _widened(a)
    if b.ndim < 2 or b.size <= _BLOCK:
        with np.errstate(all="ignore"):
            return np.asarray(np.matmul(a, _widened(b)))
    width = max(1, _BLOCK * b.shape[-1] // b.size)
    with np.errstate(all="ignore"):
        return np.concatenate([np.matmul(a, _widened(b[..., i : i + width])) for i in range(0, b.shape[-1], width)], axis=-1)


def _foreign_into(found: MutableMapping[SSAValue, Array], operation: OpaqueOp, wide: bool) -> None:
    for evaluator in FOREIGN if operation.results and operation.results[0] not in found else ():
        results = evaluator(operation, found, wide)
        if results is not None:
            found.update(zip(operation.results, results, strict=True))
            return


def size_into(found: MutableMapping[SSAValue, Any], operation: OpaqueOp) -> None:
    if len(operation.results) == 1 and all(operand in found for operand in operation.operands):
        size = compute_size(operation, [found[operand] for operand in operation.operands])
        if size is not None:
            found[operation.results[0]] = size


def compute(operation: NumOp, arrays: list[Array | None], wide: bool = False) -> list[Array] | None:
    """The results of one operation as its element type stores them; None where it has no way to be computed."""
    if operation.FACTS.evaluate is None:
        return None
    elements = [_element_name(result) for result in operation.results]
    target = elements[0] or ""
    floating = target in _WORKING or target in ("f32", "f64")
    working = np.float64 if wide else _WORKING.get(target)
    if isinstance(operation, _CONSTANT):
        array = operation.compute()
        if floating and array.ndim == 0:
            # a Python scalar keeps its digits beside a narrow tensor, as in torch
            array = np.asarray(operation.attributes_as_python()["value"], working or NUMPY_TYPES[target])
        return [array]
    try:
        if operation.FACTS.moves:
            result = operation.compute(*arrays)
            return list(result) if isinstance(result, tuple) else [result]
        if wide and operation.name == "num.matmul":
            return [_wide_product(*(np.asarray(a) for a in arrays))]
        if isinstance(operation, _CAST) and wide and floating:
            return [_widened(np.real(np.asarray(arrays[0])))]
        operands = [np.asarray(a) for a in arrays]
        if working and not isinstance(operation, _CAST):
            # a wider number, as torch takes beside a narrow tensor, may overflow
            with np.errstate(over="ignore"):
                operands = [_raise_to(a, working) for a in operands]
        result = operation.compute(*operands)
    except (NotImplementedError, ValueError, IndexError, MemoryError, TypeError):
        return None
    results = result if isinstance(result, tuple) else (result,)
    if wide:
        return [
            _widened(np.asarray(r)) if e in _WORKING or e in ("f32", "f64") else np.asarray(r)
            for r, e in zip(results, elements, strict=False)
        ]
    with np.errstate(all="ignore"):
        return [np.asarray(r).astype(NUMPY_TYPES[e], copy=False) if e else np.asarray(r) for r, e in zip(results, elements, strict=False)]


def evaluate_exactly(
    block: Block, inputs: Mapping[SSAValue, Array], wanted: Collection[SSAValue], weights: WeightReader | None, *, budget: int
) -> dict[SSAValue, Array]:
    """The true value, over the reals, of each wanted value, as the float64 next to it; NaN where there is none.

    inputs: arrays of arguments, and of any other value that is taken as it is there.
    Only values that the wanted ones need are computed. What would take more than `budget` elementary steps, or has
    an operation without a formula on its way, is left out.
    """
    needed = upstream(wanted, inputs)
    unknown = largest_dynamic(inputs)
    cost = sum(work_of(operation, unknown) for operation in needed)
    if cost > budget:
        return {}
    found: dict[SSAValue, Array] = {}
    remaining = list(wanted)
    for bits in EXACT_BITS:
        exact: dict[SSAValue, Any] = {}
        with precision(bits):
            math = ArbMath()
            for value, array in inputs.items():
                if array.dtype.kind != "c":
                    exact[value] = exact_input(array)
            for operation in block.ops:
                if isinstance(operation, OpaqueOp) and operation in needed:
                    size_into(exact, operation)
                elif operation in needed and isinstance(operation, NumOp):
                    compute_exactly(operation, exact, math, weights)
            remaining = [value for value in remaining if not _rounded_into(found, value, exact.get(value))]
        if not remaining:
            break
    return found


_LEAST = 2.0**-1074
_NEGLIGIBLE = np.frompyfunc(lambda x: isinstance(x, arb) and bool(abs(x) < arb(_LEAST) / 4), 1, 1)
"""True if a ball holds only numbers that float64 rounds to 0, as a sum does whose terms cancel."""


_PYTHON_INTEGERS = np.frompyfunc(lambda x: int(x) if isinstance(x, np.integer) else x, 1, 1)


def _rounded_into(found: dict[SSAValue, Array], value: SSAValue, balls: Any) -> bool:
    """Adds the value in float64, elements that are not determined being NaN; whether more digits would say no more."""
    if not isinstance(balls, Balls):
        return True
    # places of elements come as NumPy's integers, which are no balls
    balls = Balls(np.asarray(_PYTHON_INTEGERS(balls.values), dtype=object))
    known = balls.accurate() | np.asarray(_NEGLIGIBLE(balls.values), dtype=bool)
    found[value] = np.where(known, balls.to_float(math.nan), np.nan)
    return bool(known.all())


def compute_exactly(operation: NumOp, exact: dict[SSAValue, Any], math: ArbMath, weights: WeightReader | None) -> None:
    """Adds the result of one operation over the reals, if its operands are there and it has a formula."""
    if isinstance(operation, WeightOp):
        if weights is not None:
            exact[operation.results[0]] = exact_input(weights(operation.weight_name))
        return
    operands = [exact.get(operand) for operand in operation.operands]
    if any(operand is None for operand in operands) or len(operation.results) != 1:
        return
    try:
        if all(isinstance(operand, np.ndarray | np.integer) for operand in operands) and _element_name(operation.results[0]) not in FORMATS:
            # integers are exact as they are
            result = operation.compute(*operands)
        elif operation.FACTS.real is not None and not isinstance(operation, _BROADCAST):
            balls = [Balls.of(operand) if isinstance(operand, np.ndarray) else operand for operand in operands]
            result = operation.FACTS.real(math, *balls, **operation.attributes_as_python())
            if isinstance(operation, _CAST) and _element_name(operation.results[0]) not in FORMATS:
                result = _truncated(math, result, _element_name(operation.results[0]))
        elif operation.FACTS.evaluate is not None:
            # what only moves elements works on any array; a broadcast too: a sum over it counts every element
            result = Balls(operation.compute(*(o.values if isinstance(o, Balls) else o for o in operands)))
        else:
            return
    except (Undecided, Unsupported, ShapeMismatch, NoFormula, NotImplementedError, TypeError, ValueError, IndexError, AttributeError):
        return
    exact[operation.results[0]] = _filled(result, operation.results[0])


def _filled(result: Any, value: SSAValue) -> Any:
    """The result in the shape of its type: a number that fills a tensor counts as often as it has elements."""
    shape = value.type.get_shape() if isinstance(value.type, TensorType) else (DYNAMIC,)
    if DYNAMIC in shape or not isinstance(result, Balls) or result.shape == shape:
        return result
    if len(result.shape) > len(shape) or any(a not in (1, b) for a, b in zip(result.shape[::-1], shape[::-1], strict=False)):
        return result  # other sizes were given than the types have
    return Balls(np.broadcast_to(result.values, shape))


def _truncated(math: ArbMath, x: Balls, element: str | None) -> Any:
    """A number as an integer, or as whether it is not 0."""
    zero = math.const(0)
    if element == "i1":
        return math.compare("ne", x, zero)
    return math.where(math.compare("lt", x, zero), -math.floor(-x), math.floor(x))


def exact_input(array: Array) -> Any:
    """Floating-point numbers as balls without a radius; integers and booleans, which are exact in NumPy, as they are."""
    return array if array.dtype.kind in "iub" else Balls.of(_widened(array))


def upstream(wanted: Iterable[SSAValue], given: Collection[SSAValue] = ()) -> set[Operation]:
    """The operations that the values are made by, where those in `given` need none."""
    seen: set[Operation] = set()
    stack = list(wanted)
    while stack:
        value = stack.pop()
        if isinstance(value.owner, Operation) and value.owner not in seen and value not in given:
            seen.add(value.owner)
            stack += value.owner.operands
    return seen


def largest_dynamic(inputs: Mapping[SSAValue, Array]) -> int:
    """The largest size of an input on an axis that its type leaves open; 1 where there is none."""
    open_axes = [
        size
        for value, array in inputs.items()
        if isinstance(value.type, TensorType)
        for declared, size in zip(value.type.get_shape(), np.shape(array), strict=False)
        if declared == DYNAMIC
    ]
    return max(open_axes, default=1)


def work_of(operation: Operation, unknown: int) -> int:
    """About how many elementary steps the operation takes, a size that is not known being `unknown`."""
    result = operation.results[0].type if operation.results else None
    if not isinstance(result, TensorType):
        return 0
    sizes = [_elements(t, unknown) for t in (result, *(o.type for o in operation.operands)) if isinstance(t, TensorType)]
    if operation.name in ("num.matmul", "num.attention", "num.conv"):
        shape = result.get_shape()
        rows = int(shape[-2]) if len(shape) > 1 else 1
        return sizes[0] * max(1, sizes[1] // max(1, unknown if rows == DYNAMIC else rows))
    return max(sizes)


def _elements(type_: TensorType[Attribute], unknown: int) -> int:
    count = 1
    for size in type_.get_shape():
        count *= unknown if size == DYNAMIC else max(int(size), 1)
    return count


def _element_name(value: SSAValue) -> str | None:
    return ELEMENT_NAMES.get(value.type.element_type) if isinstance(value.type, TensorType) else None


def _raise_to(array: Array, working: Any) -> Array:
    is_float = array.dtype.kind in "fV" or array.dtype.name.startswith(("bfloat", "float"))
    return array.astype(working) if is_float and array.dtype != working else array


def _widened(array: Array) -> Array:
    return _raise_to(np.asarray(array), np.float64)
