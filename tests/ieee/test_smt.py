"""What Z3 is asked is what is computed: its functions on numbers, and the forms that sums and products are brought to."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import z3

from hnfc.dialects.num import OPERATIONS
from hnfc.dsl.ieee import smt
from hnfc.dsl.ieee.arithmetic import pointwise
from hnfc.dsl.ieee.evaluate import Batch
from hnfc.dsl.ieee.formats import BINARY
from hnfc.dsl.ieee.values import core, patterns
from hnfc.dsl.soundness.typing import Typing, element_types
from tests.ieee.reading import rule_of

ENCODED = ["f16", "bf16", "f32", "f64"]
FUNCTIONS = sorted(smt.ENCODED - {"compare", "cast", "where"})
COUNTS = {"fma": 3, **dict.fromkeys(("add", "sub", "mul", "div", "maximum", "minimum"), 2)}


def draws(form: str, count: int, size: int) -> list[np.ndarray]:
    random = np.random.default_rng(1)
    pool = core(BINARY[form], rule_of("x + 0 => x"))
    return [np.concatenate([random.choice(pool, size), patterns(BINARY[form], size, random)]) for _ in range(count)]


def same(x: float, y: float) -> bool:
    return (x == y and math.copysign(1, x) == math.copysign(1, y)) or (math.isnan(x) and math.isnan(y))


@pytest.mark.parametrize("form", ENCODED)
@pytest.mark.parametrize("name", [n for n in FUNCTIONS if not n.startswith("logical_")])
def test_functions_agree_with_the_evaluation(name: str, form: str) -> None:
    operands = draws(form, COUNTS.get(name, 1), 12)
    with np.errstate(all="ignore"):
        expected = pointwise(OPERATIONS[name], form, operands, {})
    sort = smt.sort(form)
    for want, *numbers in zip(expected.tolist(), *(x.tolist() for x in operands), strict=True):
        found = z3.simplify(smt._FUNCTIONS[name](*(smt.value_of(x, sort) for x in numbers)))
        if isinstance(want, bool):
            assert z3.is_true(found) == want, numbers
        else:
            assert same(smt.float_of(found, BINARY[form]), want), (numbers, found, want)


@pytest.mark.parametrize("form", ENCODED)
def test_numbers_survive_the_way_to_z3_and_back(form: str) -> None:
    for x in draws(form, 1, 40)[0].tolist():
        assert same(smt.float_of(smt.value_of(x, smt.sort(form)), BINARY[form]), x)


@pytest.mark.parametrize("predicate", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons_agree_with_the_evaluation(predicate: str) -> None:
    x, y = draws("f16", 2, 40)
    expected = pointwise(OPERATIONS["compare"], "f16", [x, y], {"predicate": predicate})
    for want, a, b in zip(expected.tolist(), x.tolist(), y.tolist(), strict=True):
        found = z3.simplify(smt._COMPARISONS[predicate](*(smt.value_of(v, smt.sort("f16")) for v in (a, b))))
        assert z3.is_true(found) == want, (a, b)


SMALL = z3.FPSort(3, 4)
A, B = z3.FP("a", SMALL), z3.FP("b", SMALL)
ROUND = z3.RNE()


def numeral(x: float) -> Any:
    return smt.value_of(x, SMALL)


@pytest.mark.parametrize(
    ("ours", "plain"),
    [
        (smt.added(A, B), z3.fpAdd(ROUND, A, B)),
        (smt.added(B, A), z3.fpAdd(ROUND, A, B)),
        (smt.added(A, A), z3.fpAdd(ROUND, A, A)),
        (smt.multiplied(B, A), z3.fpMul(ROUND, A, B)),
        (smt.multiplied(z3.fpNeg(A), B), z3.fpMul(ROUND, z3.fpNeg(A), B)),
        (smt.multiplied(z3.fpNeg(A), z3.fpNeg(B)), z3.fpMul(ROUND, z3.fpNeg(A), z3.fpNeg(B))),
        (smt.multiplied(z3.fpAbs(A), z3.fpAbs(A)), z3.fpMul(ROUND, z3.fpAbs(A), z3.fpAbs(A))),
        (smt.multiplied(numeral(1), A), z3.fpMul(ROUND, numeral(1), A)),
        (smt.multiplied(z3.fpNeg(A), numeral(1)), z3.fpMul(ROUND, z3.fpNeg(A), numeral(1))),
        (smt.divided(z3.fpNeg(A), B), z3.fpDiv(ROUND, z3.fpNeg(A), B)),
        (smt.divided(A, numeral(2)), z3.fpDiv(ROUND, A, numeral(2))),
        (smt.divided(A, z3.fpNeg(numeral(0.5))), z3.fpDiv(ROUND, A, z3.fpNeg(numeral(0.5)))),
        (smt.divided(A, numeral(3)), z3.fpDiv(ROUND, A, numeral(3))),
        (smt.divided(A, numeral(0.0625)), z3.fpDiv(ROUND, A, numeral(0.0625))),
        (smt.divided(A, numeral(0)), z3.fpDiv(ROUND, A, numeral(0))),
    ],
)
def test_forms_of_sums_and_products_are_the_same_numbers(ours: Any, plain: Any) -> None:
    solver = z3.Solver()
    solver.add(z3.Not(ours == plain))
    assert solver.check() == z3.unsat


def question(text: str, form: str) -> smt.SmtQuery:
    rule = rule_of(text)
    elements = element_types(rule, form)
    assert elements is not None
    return smt.SmtQuery(rule, Typing(elements, form), form)


def test_a_wrong_claim_has_a_model() -> None:
    found = question("a + b => a - b", "f16").breaks("same", ())
    assert isinstance(found, Batch)
    assert set(found.inputs) == {"a", "b"}


def test_unknown_numbers_give_proofs_and_no_models() -> None:
    """exp(x) is any number: -(-exp(x)) is it again; exp(x) + 0 may differ from exp(x), and no input is made up for that."""
    assert question("-(-exp(x)) => exp(x) * 1", "f32").breaks("same", ()) is False
    assert question("exp(x) + 0 => 1 * exp(x)", "f32").breaks("same", ()) is None


def test_what_z3_does_not_support_is_left_open() -> None:
    """It adds no numbers of f8E5M2; that is not to be taken for a question that was too hard."""
    assert question("a + b + c => c + b + a", "f8E5M2").breaks("same", ()) is None


def test_e4m3_is_not_encoded() -> None:
    with pytest.raises(smt.NotEncoded):
        question("a + b => b + a", "f8E4M3FN")
