"""Operations on integers, truth values and masks as IREE computes what hnfc writes: as `evaluate` does, which agrees with torch."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from torch_mlir import ir
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from hnfc.backend.execution import result_dtypes
from hnfc.backend.iree import compile_iree, run_iree
from hnfc.backend.on_iree import written
from hnfc.backend.torch_mlir import build
from hnfc.core.errors import ModelError
from hnfc.dialects.types import ELEMENT_NAMES, TypeMismatch
from tests.dialects.building import ELEMENTS, assert_close, doubles, flat, operation, to_numpy, to_torch
from tests.dialects.samples import SAMPLES
from tests.dialects.test_element_types import COMPUTED_BY_PARTS, DTYPES, MASKS, SHAPES, TYPES, UNITS, attended, drawn

pytestmark = pytest.mark.slow


@dataclass
class Case:
    """One call of an operation. expected: what `evaluate` gives, which is what torch gives."""

    name: str
    function: FuncOp
    arrays: list[Any]
    expected: list[Any]


def cases(element: str) -> Iterator[Case]:
    """The calls that torch does in this type, with small numbers and with the extreme ones."""
    for name, samples in SAMPLES.items():
        if name in COMPUTED_BY_PARTS:
            continue
        for sample, extreme in itertools.product(samples, (False, True)):
            if "f" not in (sample.kinds or "f" * len(sample.shapes)) or "accumulate" in sample.attributes:
                continue
            arrays = drawn(sample, element, 0, extreme)
            try:
                module, made = operation(name, arrays, sample.attributes)
                expected = flat(sample.torch(*map(to_torch, arrays)))
            except (TypeMismatch, RuntimeError, TypeError, IndexError, NotImplementedError, ZeroDivisionError, AttributeError):
                continue
            types = [ELEMENT_NAMES.get(result.type.element_type) for result in made.results]  # type: ignore[attr-defined]
            if types != [ELEMENTS.get(to_numpy(x).dtype) for x in expected] or any(kind not in TYPES for kind in types):
                continue
            if any(np.size(a) == 0 for a in arrays):
                continue
            (function,) = module.ops
            yield Case(name, function, arrays, flat(made.compute(*arrays)))  # type: ignore[arg-type]


def compiled(found: list[Case]) -> Iterator[tuple[Case, bytes | str, str, ir.Module | None]]:
    """Each case with code that holds its function, or with what IREE says against it: many functions are compiled at once."""
    for index, case in enumerate(found):
        case.function.sym_name = type(case.function.sym_name)(f"f{index}")
    try:
        module = written(build(ModuleOp([case.function.clone() for case in found])))[0]
        code = compile_iree(module)
    except ModelError as error:
        if len(found) == 1:
            yield found[0], str(error), "", None
            return
        half = len(found) // 2
        yield from compiled(found[:half])
        yield from compiled(found[half:])
        return
    for index, case in enumerate(found):
        yield case, code, f"f{index}", module


REFUSED = {
    "pow": "torch-mlir has no powers of integers",
    "affine": "torch-mlir adds no product of integers",
    "matmul": "torch-mlir has no product of bytes",
    "conv": "torch-mlir convolves no bytes",
}
"""By operation: why IREE does not compile it for integers."""


@pytest.mark.parametrize("element", TYPES)
def test_integers_and_truth_values(element: str) -> None:
    wrong = []
    for case, code, function, module in compiled(list(cases(element))):
        if isinstance(code, str):
            if case.name not in REFUSED:
                wrong.append(f"{case.name}: {code}")
            continue
        assert module is not None
        try:
            got = run_iree(code, function, case.arrays)
        except ModelError as error:
            wrong.append(f"{case.name}: {error}")
            continue
        for a, b, dtype in zip(got, case.expected, result_dtypes(module, function), strict=True):
            a = a.view(dtype) if dtype is not None and a.dtype.itemsize == dtype.itemsize else a
            if a.dtype != np.asarray(b).dtype or not np.array_equal(a, b):
                wrong.append(
                    f"{case.name} {[x.tolist() for x in case.arrays]}: {a.tolist()} ({a.dtype}), {np.asarray(b).tolist()} is right"
                )
    assert not wrong, "\n".join(dict.fromkeys(line[:300] for line in wrong))


@pytest.mark.parametrize("mask", [mask for mask in MASKS if mask in ("i1", "f32", "f16")])
@pytest.mark.parametrize("element", ["f32", "f16"])
def test_masks_of_an_attention(element: str, mask: str) -> None:
    for shape in SHAPES:
        arrays, expected = attended(element, mask, shape, False)
        if mask not in ("i1", "f32", element) or len(shape) < 2 or expected is None:
            continue
        module, made = operation("attention", arrays, {"scale": 0.5, "causal": False})
        (got,) = run_iree(compile_iree(build(module)), "main", arrays)
        wide = [a if a.dtype == np.bool_ else a.astype(np.float64) for a in arrays]
        assert_close(got, doubles(made.compute(*wide)), UNITS[element], 256.0)
    assert element in DTYPES
