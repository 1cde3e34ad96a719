"""Operations on numbers of their whole range, in every format and in many sizes: what torch computes, against what is certified.

torch's kernels take other paths for few elements than for many, and for single rows than for several; a trial draws both numbers.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from flint import arb
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, SSAValue

from hnfc.analysis.certified import Bounds, certified
from hnfc.analysis.ranges import Ranges, interval_of_array
from hnfc.dialects.interval import Interval
from hnfc.dialects.interval_arrays import IntervalArray
from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.base import as_tensor, element_name
from hnfc.dialects.num.rounding import NUMPY_TYPES
from hnfc.dialects.types import FORMATS, tensor
from hnfc.dsl.soundness.balls import UNDECIDED, UNDEFINED, precision
from tests.dialects.building import ELEMENTS, to_numpy, to_torch
from tests.dialects.samples import SAMPLES, Sample
from tests.rewrite.random_graphs import exactly

FORMS = ("f32", "f64", "f16", "bf16")
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64)
EDGES = (0.0, 1.0, 2.0, 0.5, 8.0, 9.0, 10.0, 11.0, 16.0, 17.3, 20.0, 36.0, 87.3, 88.0, 88.72, 88.73, 88.8, 89.0, 103.9, 104.0, 1.5707964,
         3.1415927, 709.7, 709.78, 709.9, 710.4, 745.1, 746.0, 1e-3, 1e-8, 1e4, 1e5, 6e4, 65504.0)  # fmt: skip
"""Numbers near which kernels change their formula or overflow."""


def numbers(generator: np.random.Generator, shape: tuple[int, ...], element: str, domain: tuple[float, float]) -> Any:
    """Numbers of a format: of its whole range, of everyday sizes, near edges, or of the usual domain, all of one kind."""
    form, kind = FORMATS[element], int(generator.integers(0, 7))
    sign = generator.choice([-1.0, 1.0], shape) if generator.random() < 0.6 else np.full(shape, generator.choice([-1.0, 1.0]))
    match kind:
        case 0:
            least, most = np.log2(form.tiny), np.log2(form.largest)
            wide = np.exp2(generator.uniform(least, most, shape)) * sign
        case 1:
            wide = np.exp2(generator.uniform(-12, 12, shape)) * sign
        case 2:
            edge = generator.choice(np.array(EDGES), shape)
            wide = edge * (1 + generator.normal(size=shape) * 2.0 ** generator.integers(-24, -4)) * sign
        case 3:
            wide = generator.choice(np.array([0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-3]), shape)
        case 4:
            wide = generator.normal(size=shape) * 2.0 ** generator.integers(-6, 7)
        case _:
            wide = generator.uniform(*domain, shape)
    with np.errstate(all="ignore"):
        return np.asarray(np.clip(wide, -form.largest, form.largest)).astype(NUMPY_TYPES[element])


def block_of(name: str, arrays: Sequence[Any], attributes: dict[str, Any]) -> Block:
    block = Block(arg_types=[tensor(ELEMENTS[np.asarray(a).dtype], np.shape(a)) for a in arrays])
    made = OPERATIONS[name].make(*block.args, **attributes)
    block.add_ops([made, ReturnOp(*made.results)])
    return block


def shaped(name: str, sample: Sample, rows: int, count: int) -> tuple[tuple[int, ...], ...]:
    """The shapes of a sample's operands with `count` elements in each of `rows` rows, where its attributes allow that."""
    if sample.shapes in (((3, 5),), ((3, 5), (3, 5))) and name not in ("reshape", "slice", "pad", "concat"):
        return tuple((rows, count) for _ in sample.shapes)
    if sample.shapes == ((3, 5), (5,)) and name != "matmul":
        return ((rows, count), (count,))
    if name == "matmul" and sample.shapes == ((3, 5), (5, 4)):
        return ((rows, count), (count, 1 + count % 5))
    if name == "affine":
        return ((rows, count), (count, 1 + count % 5), (1 + count % 5,))
    if name in ("rms_norm",) or (name == "layer_norm" and len(sample.shapes) == 1 and count == count):
        return ((rows, count), *((count,) for _ in sample.shapes[1:]))
    if name == "layer_norm":
        return ((2, rows, count), (count,), (count,))
    return sample.shapes


def problems(bounds: Bounds, interval: Interval | None, got: Any, exact: Sequence[Any]) -> Counter[str]:
    """Violations of the claims about one value, given torch's results and the true ones."""
    counts: Counter[str] = Counter()
    floats = np.asarray(got).astype(np.float64).reshape(-1)
    errors = np.full(floats.shape, bounds.error) if bounds.errors is None else np.broadcast_to(bounds.errors, np.shape(got)).reshape(-1)
    nan = np.isnan(floats)
    if nan.any() and not bounds.nan:
        counts["a NaN that is not said"] += 1
    if (~nan & ~((floats >= bounds.low) & (floats <= bounds.high))).any():
        worst = floats[~nan & ~((floats >= bounds.low) & (floats <= bounds.high))][0]
        counts[f"{worst!r} outside [{bounds.low!r}, {bounds.high!r}]"] += 1
    if interval is not None:
        below = (floats < interval.lo) | ((floats == 0) & np.signbit(floats) & (interval.lo == 0) & (not interval.minus))
        if (below | (floats > interval.hi) | (nan & (not interval.nan))).any():
            worst = floats[below | (floats > interval.hi) | (nan & (not interval.nan))][0]
            counts[f"interval: {worst!r} outside {interval}"] += 1
    for value, true, limit in zip(floats.tolist(), exact, errors.tolist(), strict=True):
        if not np.isfinite(limit) or true is UNDECIDED or true is None:
            counts["no bound"] += 1
            continue
        counts["checked"] += 1
        if true is UNDEFINED or not np.isfinite(value):
            counts[f"a bound of {limit:.3g} where the value is {true} and {value} is computed"] += 1
        elif isinstance(true, bool):
            counts["a wrong truth"] += bool(value) != true and limit == 0
        elif abs(arb(value) - arb(true)) > arb(limit):
            counts[f"an error of {(arb(value) - arb(true)).str(5)} beyond {limit:.5g} at {arb(true).str(8)}"] += 1
    return counts


def trial(name: str, sample: Sample, seed: int, element: str | None = None) -> Counter[str]:
    """One operation on one draw of operands, which are known, or anything in the interval of what was drawn."""
    choose = random.Random(f"{name} {seed}")
    generator = np.random.default_rng(seed)
    element = element or choose.choice(FORMS)
    count, rows = choose.choice(SIZES), choose.choice((1, 1, 2, 3, 4, 8))
    arrays: list[Any] = []
    for i, shape in enumerate(shaped(name, sample, rows, count)):
        kind = sample.kinds[i] if sample.kinds else "f"
        domain = sample.domain[i] if isinstance(sample.domain, list) else sample.domain
        made = numbers(generator, shape, element, domain) if kind == "f" else (
            generator.random(shape) < 0.5 if kind == "b" else generator.integers(0, sample.limit, shape))  # fmt: skip
        arrays.append(np.asarray(made))
    block = block_of(name, arrays, sample.attributes)
    result = block.last_op.operands[0]  # type: ignore[union-attr]
    if element_name(as_tensor(result.type)) not in FORMATS:
        return Counter()
    try:
        with torch.no_grad():
            got = to_numpy(sample.torch(*(to_torch(a) for a in arrays)))
    except (NotImplementedError, RuntimeError):
        return Counter()  # torch has no kernel for this format
    wide = choose.random() < 0.35
    boxes = {v: box(a, wide) for v, a in zip(block.args, arrays, strict=True)}
    found = certified(block, boxes, per="element").bounds.get(result)
    interval = Ranges({v: interval_of_array(a) for v, a in zip(block.args, arrays, strict=True)}).of(result)
    with precision(200):
        exact = exactly(block, dict(zip(block.args, arrays, strict=True))).get(result)
        true = [UNDECIDED] * got.size if exact is None else exact.values.reshape(-1).tolist()
        if found is None:
            found = Bounds(-np.inf, np.inf, np.inf, np.inf, np.inf, np.inf, nan=True)
        counts = problems(found, interval, got, true)
    return Counter({k if k in ("checked", "no bound") else f"{name} {element} {got.shape}: {k}": n for k, n in counts.items() if n})


def box(array: Any, wide: bool) -> IntervalArray:
    """The elements, or for each the interval of all of them."""
    values = np.asarray(array).astype(np.float64)[None]
    if not wide or not values.size or np.asarray(array).dtype.kind in "iub":
        return IntervalArray.of(values)
    return IntervalArray(np.full(values.shape, values.min()), np.full(values.shape, values.max()))


OTHER_IN_TORCH = frozenset(("fma", "cbrt", "kahan_sum", "pairwise_sum", "two_sum"))
"""torch has nothing that rounds as these do."""
SWEPT = tuple(name for name in SAMPLES if name not in OTHER_IN_TORCH)


def swept(seeds: Sequence[int], names: Sequence[str] = SWEPT) -> Counter[str]:
    """Trials of every sample of every operation for each seed."""
    counts: Counter[str] = Counter()
    for name in names:
        for sample in SAMPLES[name]:
            if sample.shapes and not any(0 in shape for shape in sample.shapes):
                for seed in seeds:
                    counts += trial(name, sample, seed)
                    counts["programs"] += 1
    return counts


def wrong(counts: Counter[str]) -> dict[str, int]:
    return {k: n for k, n in counts.items() if k not in ("checked", "no bound", "programs")}


def values_of(block: Block) -> list[SSAValue]:
    return [value for operation in block.ops for value in operation.results]
