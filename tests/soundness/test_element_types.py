"""Rules about integers, truth values and formats: captures are numbers of their type, and arithmetic is that of the type."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
from flint import fmpq

from hnfc.dialects.num.rounding import cast
from hnfc.dialects.types import FLOATS
from hnfc.dsl.soundness import Status, prove, replayed
from hnfc.dsl.soundness.element_roundings import is_number_of, nearest
from hnfc.dsl.soundness.elements import UNDEFINED
from hnfc.dsl.soundness.formats import explicit_roundings
from hnfc.dsl.soundness.judge import verdict
from hnfc.dsl.soundness.sampling import Sampler
from tests.soundness.reading import rule_of

PROVED = [
    "floor((a : si32)) => a",
    "ceil((a : ui8)) => a",
    "round((a : si64)) => trunc(a)",
    "floor(x) => x where dtype(x) = si8",
    "(a : si8) + 1 - 1 => a",
    "-(-(a : si8)) => a",
    "(a : si32) * (b + c) => a * b + a * c",
    "(a : si8) * 16 * 16 => a * 0",
    "(a : si32) + const c - c => a",
    "where((a : ui8) >= 0, x, y) => x",
    "where(abs((a : ui8)) >= 0, x, y) => x",
    "where((a : si8) <= 127, x, y) => x",
    "where((a : si8) + 1 - 1 == a, x, y) => x",
    "cast(cast((a : ui8), f16), f32) => cast(a, f32)",
    "cast(cast((a : si16), f32), si16) => a",
    "cast(cast((a : si8), si32), si8) => a",
    "cast(cast(x, f16), f32) => x where dtype(x) = f16",
    "cast(cast((x : f32), si32), f32) => trunc(x)",
    "cast((m : i1), f32) * 2 => cast(m, f32) + cast(m, f32)",
    "cast((x : f32), i1) => x != 0",
    "relu(cast((a : si32), f64)) => cast(relu(a), f64)",
    "round_to(round_to(x, f16), f16) => round_to(x, f16)",
    "attention(q, k, v, (m : i1), scale=const s, causal=false) => attention(q, k, v, m and m, scale=s, causal=false)",
    "attention(q, k, v, m, scale=const s, causal=false) => attention(q, k, v, m + 0, scale=s, causal=false)",
]

REFUTED = [
    "where((a : si8) + 1 > a, x, y) => x",
    "where((a : ui8) - 1 < a, x, y) => x",
    "where(a + 1 > a, x, y) => x where dtype(a) = si16",
    "where(a + 1 > a, x, y) => x where dtype(a) = si16 or dtype(a) = f32",
    "where((a : si32 | f32) + 1 > a, x, y) => x",
    "where((a : si32) + const c > a, x, y) => x where c > 0",
    "where(abs((a : si8)) >= 0, x, y) => x",
    "where((a : si32) * a >= 0, x, y) => x",
    "where(-(a : si64) < 0, x, y) => where(a > 0, x, y)",
    "cast(cast((a : si32), f32), si32) => a",
    "cast(cast((a : si32), si8), si32) => a",
    "cast(cast((x : f32), si32), f32) => floor(x)",
    "cast(cast((x : f32), i1), f32) => x",
    "cast((a : si32), f64) + cast((b : si32), f64) => cast(a + b, f64)",
    "where(round_to(x, f16) > 0, 1, 0) => where(x > 0, 1, 0)",
    "where(round_to(x, f8E5M2) != 0, 1, 0) => where(x != 0, 1, 0)",
    "round_to(2 * x, f16) => 2 * round_to(x, f16)",
    "x * 0 => round_to(x, f16) * 0",
    "where(round_to(x, f8E4M3FN) < 400, y, z) => where(x < 1000, y, z)",
    "attention(q, k, v, (m : i1), scale=const s, causal=false) => attention(q, k, v, cast(m, f32), scale=s, causal=false)",
    "(x : f32) * 2 => cast(x, f16) + x",
]

UNDECIDED = [
    "(a : si32) / b => a * (1 / b)",
    "exp((a : si32)) => exp(a) * 1",
    "(a : si8) + 300 => a + 44",
    "sum[k]((a : si8)) + 1 => 1 + sum[k](a)",
    "(m : i1) * m => m",
    "where((a : si8) < 128, x, y) => x",
]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("text", PROVED)
def test_what_holds_in_the_type_is_proved(text: str) -> None:
    assert prove(rule_of(text)).proved


@pytest.mark.parametrize("text", REFUTED)
def test_what_fails_in_the_type_is_refuted(text: str) -> None:
    rule = rule_of(text)
    found = verdict(rule, advise=False)
    assert found.status is Status.REFUTED and found.counterexample is not None
    assert replayed(rule, found.counterexample)


@pytest.mark.parametrize("text", UNDECIDED)
def test_integers_without_a_meaning_have_no_verdict(text: str) -> None:
    assert prove(rule_of(text)).status is Status.UNKNOWN


def test_types_that_exclude_each_other_are_vacuous() -> None:
    for where in ("dtype(x) = f16 and dtype(x) = f32", "dtype(x) = f16 and not dtype(x) = f16"):
        assert prove(rule_of(f"exp(x) * 0 => x * 0 where {where}")).status is Status.VACUOUS


@pytest.mark.parametrize("element", ["f16", "bf16", "f8E5M2", "f8E4M3FN", "si8", "ui8", "si64"])
def test_samples_are_numbers_of_the_type(element: str) -> None:
    sampler = Sampler(explicit_roundings(rule_of(f"relu(relu(x)) => relu(x) where dtype(x) = {element}")), random.Random(0))
    drawn = [v for _ in range(50) for v in sampler.point().inputs["x"].reshape(-1).tolist()]
    assert drawn and all(is_number_of(Fraction(v), element) for v in drawn)


@pytest.mark.parametrize("form", [name for name in FLOATS if name != "f64"])
def test_a_rounding_is_that_of_the_format_in_its_range(form: str) -> None:
    choose = random.Random(0)
    for _ in range(500):
        x = choose.uniform(-1, 1) * 2.0 ** choose.randint(-160, 130)
        with np.errstate(all="ignore"):
            expected = float(cast(np.float64(x), form))
        got = nearest(FLOATS[form])(fmpq(*x.as_integer_ratio()))
        assert not np.isfinite(expected) if got is UNDEFINED else int(got.p) / int(got.q) == expected
