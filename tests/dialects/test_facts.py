"""Facts of operations beside what their formulas say: domains, symmetry, commutativity, and the element types that the verifier takes."""

from __future__ import annotations

import math
import re
import textwrap
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from flint import arb
from xdsl.ir import Block

from hnfc.dialects.facts import Access, Exactness, Facts, Parity, Result
from hnfc.dialects.num import COMMUTATIVE, OPERATIONS, trigonometry
from hnfc.dialects.num.base import BinaryOp, UnaryOp
from hnfc.dialects.types import ELEMENT_NAMES, TypeMismatch, kind_of, tensor
from hnfc.dsl.soundness.balls import MATH, ArbMath, Balls, apply, precision

PAGE = (Path(__file__).parent.parent.parent / "docs" / "add-an-operation.md").read_text(encoding="utf-8")


def test_the_class_of_the_page_is_complete() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names = dict(vars(trigonometry))
    exec(textwrap.dedent(code), names)
    assert names["Deg2RadOp"].FACTS.evaluate(180.0) == math.pi


def test_the_page_has_every_fact() -> None:
    assert [fact.name for fact in fields(Facts) if f"`{fact.name}`" not in PAGE] == []


PLAIN_SIZES = np.array([1e-300, 1e-160, 1e-20, 0.3, 1.0, 7.0, 30.0, 40.0, 100.0, 750.0, 1200.0, 1e5, 1e160, 1e300])


@pytest.mark.parametrize("name", [
    name for name, cls in OPERATIONS.items()
    if issubclass(cls, UnaryOp | BinaryOp) and cls.FACTS.access is Access.ELEMENTWISE and cls.FACTS.real is not None
    and cls.FACTS.result is Result.SAME and not cls.get_irdl_definition().properties
])  # fmt: skip
def test_an_operation_underflows_if_it_says_so(name: str) -> None:
    """0 as computed, and surely not 0 over the reals, at plain numbers."""
    operation, numbers = OPERATIONS[name], np.concatenate([PLAIN_SIZES, -PLAIN_SIZES])
    operands = [numbers] if issubclass(operation, UnaryOp) else [np.repeat(numbers, len(numbers)), np.tile(numbers, len(numbers))]
    with np.errstate(all="ignore"):
        computed = np.asarray(operation.FACTS.evaluate(*operands))
    if computed.dtype.kind != "f":
        assert not operation.FACTS.underflows
        return
    zeros = np.flatnonzero(computed == 0)
    balls = [Balls(np.array([arb(float(x)) for x in operand[zeros]], object)) for operand in operands]
    with precision(3000):
        exact = list(apply(MATH, operation, balls, {}).values.flat) if len(zeros) else []
    assert any(isinstance(x, arb) and x.is_finite() and not x.contains(0) for x in exact) == operation.FACTS.underflows


def test_a_class_that_lacks_a_fact_is_refused() -> None:
    with pytest.raises(TypeError, match="needs the fact `steps`"):
        replace(OPERATIONS["mean"].FACTS, steps=Facts.steps)
    with pytest.raises(TypeError, match="StrayOp needs FACTS"):
        type("StrayOp", (UnaryOp,), {"name": "num.stray"})


POINTS = (-40.0, -2.5, -1.0, -0.75, 0.0, 0.25, 1.0, 1.5, 3.0, 30.0)
FUNCTIONS = [
    name
    for name, operation in OPERATIONS.items()
    if issubclass(operation, UnaryOp) and operation.FACTS.access is Access.ELEMENTWISE and operation.FACTS.exactness is Exactness.FUNCTION
]


def value(name: str, *operands: float) -> float:
    """The value over the reals; NaN where there is none."""
    with precision(2000):
        balls = OPERATIONS[name].FACTS.real(ArbMath(), *(Balls.of(np.asarray(x)) for x in operands))  # type: ignore[misc]
        return float(balls.to_float(math.nan)) if balls.accurate().all() or not np.isnan(balls.to_float(math.nan)) else math.nan


@pytest.mark.parametrize("name", [*FUNCTIONS, "sqrt", "reciprocal"])
def test_a_function_is_defined_on_its_domain(name: str) -> None:
    domain = OPERATIONS[name].FACTS.domain
    for x in POINTS:
        inside = domain.least <= x <= domain.greatest and not (domain.open and x in (domain.least, domain.greatest))
        inside = inside and not (domain.pole and x == 0)
        if not domain.irregular:
            assert math.isnan(value(name, x)) != inside, f"declare the domain of {name}: at {x} its formula is {value(name, x)}"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_symmetry_is_declared_where_there_is_one(name: str) -> None:
    pairs = [(value(name, x), value(name, -x)) for x in (0.25, 0.5, 0.75)]
    pairs = [pair for pair in pairs if not any(map(math.isnan, pair))]
    odd, even = (bool(pairs) and all(math.isclose(a, sign * b, rel_tol=1e-15) for a, b in pairs) for sign in (-1, 1))
    parity = Parity.ODD if odd else Parity.EVEN if even else Parity.NONE
    assert OPERATIONS[name].FACTS.parity is parity, f"declare parity={parity} in the FACTS of {name}"


@pytest.mark.parametrize("name", [n for n, o in OPERATIONS.items() if issubclass(o, BinaryOp) and n != "compare"])
def test_an_operation_commutes_where_it_says_so(name: str) -> None:
    drawn = np.random.default_rng(0)
    a, b = drawn.uniform(0.1, 3, (2, 50))
    logical = OPERATIONS[name].FACTS.accepts == kind_of(tensor("i1", ()).element_type)
    a, b = (a > 1, b > 1) if logical else (a, b)
    evaluate = OPERATIONS[name].FACTS.evaluate
    assert evaluate is not None
    commutes = np.array_equal(evaluate(a, b), evaluate(b, a))
    assert commutes == (OPERATIONS[name] in COMMUTATIVE), f"{name} commutes: {commutes}, which is the trait Commutative"


def types_of(name: str) -> int:
    return len(OPERATIONS[name].get_irdl_definition().operands)


@pytest.mark.sampled(300)
@pytest.mark.parametrize("name", [n for n, o in OPERATIONS.items() if issubclass(o, UnaryOp | BinaryOp) and not o.FROM_TYPE])
@pytest.mark.parametrize("element", ELEMENT_NAMES.values())
def test_the_verifier_takes_the_kinds_that_are_declared(name: str, element: str) -> None:
    operation = OPERATIONS[name]
    if operation.get_irdl_definition().properties:
        pytest.skip("attributes decide too")
    types = [tensor(element, (2, 3))] * types_of(name)
    values = Block(arg_types=types).args
    if kind_of(types[0].element_type) in operation.FACTS.accepts:
        operation.make(*values).verify()
        return
    with pytest.raises(TypeMismatch, match="expected operand 0 to have elements of"):
        operation.make(*values)


@pytest.mark.parametrize(
    ("name", "elements", "attributes", "message"),
    [
        ("exp", ("si64",), {}, "floating-point"),
        ("where", ("f32", "f32", "f32"), {}, "truth"),
        ("gather", ("f32", "f32"), {"axis": 0}, "integer"),
        ("sum", ("f32",), {"axes": (1, 1)}, "each axis once"),
        ("logical_and", ("si32", "si32"), {}, "truth"),
    ],
)
def test_what_torch_would_reject_is_rejected(name: str, elements: tuple[str, ...], attributes: dict[str, object], message: str) -> None:
    values = Block(arg_types=[tensor(element, (2, 3)) for element in elements]).args
    with pytest.raises(TypeMismatch, match=message):
        OPERATIONS[name].make(*values, **attributes)
