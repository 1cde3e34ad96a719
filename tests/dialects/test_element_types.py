"""Operations on integers, truth values and masks: what rules mean by them, `evaluate`, and torch agree."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from hnfc.dialects.facts import NoFormula
from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.rounding import NUMPY_TYPES
from hnfc.dialects.types import ELEMENT_NAMES, TypeMismatch, tensor
from hnfc.dsl.core import Apply, Capture, Rule
from hnfc.dsl.soundness.array_moves import ShapeMismatch
from hnfc.dsl.soundness.balls import Balls, evaluate
from hnfc.dsl.soundness.formats import explicit_roundings
from tests.dialects.building import ELEMENTS, assert_close, doubles, flat, operation, to_numpy, to_torch
from tests.dialects.reference import Reference, lift
from tests.dialects.samples import SAMPLES, Sample

TYPES = ("si8", "ui8", "si16", "si32", "si64", "i1")
DTYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16}
UNITS = {"f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-11}
COMPUTED_BY_PARTS = {"cbrt", "kahan_sum", "pairwise_sum", "two_sum"}
"""Operations that torch does not have."""

CASES = [
    pytest.param(name, sample, id=f"{name}-{i}")
    for name, samples in SAMPLES.items()
    for i, sample in enumerate(samples)
    if "f" in (sample.kinds or "f" * len(sample.shapes)) and name not in COMPUTED_BY_PARTS
]


def drawn(sample: Sample, element: str, seed: int, extreme: bool) -> list[Any]:
    """The operands of the sample with numbers of the element type in the place of floating-point ones."""
    choose = np.random.default_rng(seed)
    kind = NUMPY_TYPES[element]

    def numbers(shape: tuple[int, ...]) -> Any:
        if element == "i1":
            return choose.random(shape) < 0.5
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
        if extreme:
            return choose.choice(np.array([low, low + 1, high, high - 1, 1, 2], kind), shape)
        return choose.integers(0 if low == 0 else -5, 6, shape).astype(kind)

    kinds = sample.kinds or "f" * len(sample.shapes)
    return [numbers(a.shape) if k == "f" else a for a, k in zip(sample.operands(seed), kinds, strict=True)]


def meaning(name: str, arrays: list[Any], attributes: dict[str, Any]) -> Any:
    """Meaning of the operation on these operands, in a rule. Raises NoFormula where it means nothing."""
    captures = tuple(Capture(f"x{i}", (ELEMENTS[np.asarray(a).dtype],)) for i, a in enumerate(arrays))
    pattern = Apply(OPERATIONS[name], captures, tuple(attributes.items()))
    rule = explicit_roundings(Rule("r", "t", "", "", pattern, pattern))
    return evaluate(rule.pattern, {c.name: Balls.of(a) for c, a in zip(captures, arrays, strict=True)}, {}).to_float()


@pytest.mark.sampled(150)
@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize(("name", "sample"), CASES)
def test_integers_and_truth_values(name: str, sample: Sample, element: str) -> None:
    compared = 0
    for seed, extreme in itertools.product((0, 1), (False, True)):
        arrays = drawn(sample, element, seed, extreme)
        try:
            _, made = operation(name, arrays, sample.attributes)
            expected = flat(sample.torch(*map(to_torch, arrays)))
        except (TypeMismatch, RuntimeError, TypeError, IndexError, NotImplementedError, ZeroDivisionError, AttributeError):
            continue
        types = [ELEMENT_NAMES.get(result.type.element_type) for result in made.results]  # type: ignore[attr-defined]
        same = types == [ELEMENTS.get(to_numpy(x).dtype) for x in expected]
        if "accumulate" in sample.attributes or not same or any(kind not in TYPES for kind in types):
            continue  # torch computes it in another type, and an import does not give this operation
        got = flat(made.compute(*arrays))
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(a), to_numpy(b))
            assert np.asarray(a).dtype == to_numpy(b).dtype
        compared += 1
        if OPERATIONS[name].FACTS.real is None or not sample.real:
            continue
        try:
            meant = meaning(name, arrays, sample.attributes)
        except (NoFormula, ShapeMismatch):
            continue
        np.testing.assert_array_equal(np.broadcast_to(meant, np.shape(got[0])), doubles(got[0]))
    if not compared:
        pytest.skip("torch has no such operation in this type")


# masks of an attention

MASKS = ("i1", "f64", "f32", "f16", "bf16", "si8", "si64", "ui8")
SHAPES = ((4, 5), (1, 5), (4, 1), (1, 1), (5,), (), (2, 1, 4, 5), (1, 3, 1, 5), (3, 4, 5))


def attended(element: str, mask: str, shape: tuple[int, ...], hidden: bool) -> tuple[list[Any], Any]:
    """Operands with a mask, and torch's result; None where torch takes no such mask. hidden: some query sees no key."""
    choose = np.random.default_rng(len(shape))
    kind = NUMPY_TYPES[element]
    arrays = [choose.standard_normal(s).astype(kind) for s in ((2, 3, 4, 8), (2, 3, 5, 8), (2, 3, 5, 6))]
    if mask == "i1":
        values = np.asarray(choose.random(shape) < 0.6)
        if not hidden:
            values = values | (np.arange(shape[-1]) == 0) if shape else np.asarray(True)
    else:
        values = choose.integers(0, 2, shape).astype(NUMPY_TYPES[mask])
    q, k, v, m = map(to_torch, [*arrays, values])
    try:
        return [*arrays, values], F.scaled_dot_product_attention(q, k, v, attn_mask=m, scale=0.5)
    except (RuntimeError, IndexError):
        return [*arrays, values], None


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("element", DTYPES)
def test_masks_of_an_attention(element: str, mask: str, shape: tuple[int, ...]) -> None:
    arrays, expected = attended(element, mask, shape, False)
    types = [tensor(ELEMENTS[a.dtype], a.shape) for a in arrays]
    attributes: dict[str, Any] = {"scale": 0.5, "causal": False}
    if mask not in ("i1", "f32", element) or len(shape) < 2:
        assert expected is None
        with pytest.raises(TypeMismatch, match="mask"):
            OPERATIONS["attention"].infer(types, attributes)
        return
    OPERATIONS["attention"].infer(types, attributes)
    if expected is None:
        pytest.skip("torch does not broadcast this mask")
    wide = [a if a.dtype == np.bool_ else a.astype(np.float64) for a in arrays]
    _, made = operation("attention", wide, attributes)
    got, exact = made.compute(*wide), OPERATIONS["attention"].FACTS.real(Reference, *map(lift, wide), **attributes)  # type: ignore[misc]
    assert_close(got, doubles(exact), 2.0**-53, 256.0)
    assert_close(got, doubles(to_numpy(expected)), UNITS[element], 256.0)


@pytest.mark.parametrize("element", ["f64", "f32"])
def test_a_query_that_sees_no_key(element: str) -> None:
    """0 in torch and in `evaluate`; undefined over the reals."""
    arrays, expected = attended(element, "i1", (4, 5), True)
    arrays[3][1] = False
    q, k, v, m = map(to_torch, arrays)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=m, scale=0.5)
    _, made = operation("attention", arrays, {"scale": 0.5, "causal": False})
    got = made.compute(*arrays)
    assert not got[..., 1, :].any()
    assert_close(got, to_numpy(expected), UNITS[element], 256.0)
