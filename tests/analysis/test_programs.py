"""Programs of FPCore: what is read, what is refused, and bounds that are close to what is attained and never below it."""

from __future__ import annotations

import random

import numpy as np
import pytest
from flint import arb

from hnfc.analysis.branch_and_bound import BoundLimits, maximum
from hnfc.analysis.programs import CORRECT, bound_program
from hnfc.analysis.taylor import STANDARD, NotAnalyzed
from hnfc.core.errors import ModelError
from hnfc.core.interpreter import evaluate
from hnfc.dsl.soundness.balls import precision
from hnfc.frontend.fpcore import FPCoreProgram, programs
from hnfc.frontend.fpcore_forms import number
from tests.rewrite.random_graphs import exactly

DOPPLER = """
; the speed of a moving source
(FPCore (u v T)
  :name "doppler" :precision binary64
  :pre (and (<= -100 u 100) (<= 20 v 20000) (<= -30 T 50))
  (let ([t1 (+ 331.4 (* 0.6 T))]) (/ (* (- t1) v) (* (+ t1 u) (+ t1 u)))))
"""


def one(text: str) -> FPCoreProgram:
    (program,) = programs(text, "test.fpcore")
    return program


def body(expression: str, pre: str = "(and (<= 1 x 2) (<= 1 y 2))", precision_: str = "binary64") -> FPCoreProgram:
    return one(f"(FPCore (x y) :precision {precision_} :pre {pre} {expression})")


def measured(program: FPCoreProgram, points: int, seed: int = 0) -> float:
    """The largest error that random points of the box, often its corners, show."""
    generator = random.Random(seed)
    worst = 0.0
    with precision(300):
        for _ in range(points):
            inputs = {}
            for name, value in program.arguments.items():
                lo, hi = program.ranges[name]
                at = generator.choice((lo, hi, generator.uniform(lo, hi), generator.uniform(lo, hi)))
                inputs[value] = np.asarray(at, np.float64 if value.type.element_type.bitwidth == 64 else np.float32)
            computed = evaluate(program.block, inputs)
            if not all(bool(computed[c]) for c in program.conditions):
                continue
            true = exactly(program.block, inputs)[program.result].values.reshape(-1)[0]
            error = abs(arb(float(computed[program.result])) - arb(true))
            worst = max(worst, float(error.upper()))
    return worst


@pytest.mark.parametrize("expression", [
    "(/ (- x y) (+ x y))", "(- (* x x) (* y y))", "(sqrt (+ (* x x) (* y y)))", "(exp (- x y))", "(- (log x) (log y))", "(* 0.1 (+ x y))",
    "(sin (* x y))", "(atan2 x y)", "(fmax x (* 2 y))", "(if (< x y) (* x x) (- y 1/3))", "(fma x y (- x))", "(hypot x y)", "(pow x 3)",
    "(let ([z (+ x y)]) (- z (floor x)))", "(let* ([z (+ x 1)] [w (* z z)]) (/ w z))", "(+ x y 1e-3 PI)", "(tanh (- x y))",
    "(! :precision binary32 (+ x y))", "(cast (! :precision binary32 (* x y)))", "(expm1 (- x 1))", "(log1p (- x 1))", "(erf x)",
])  # fmt: skip
def test_bounds_hold_and_are_close(expression: str) -> None:
    program, words = body(expression), set(expression.replace("(", " ").split())
    # NumPy's functions are not rounded correctly
    model = STANDARD if {"exp", "log", "sin", "atan2", "tanh", "expm1", "log1p", "erf", "pow"} & words else CORRECT
    found = bound_program(program, BoundLimits(seconds=1.0), model).maximum
    seen = measured(program, 100)
    assert seen <= found.bound
    assert found.attained <= found.bound < np.inf
    if not {"if", "floor", "pow"} & words:
        assert seen >= found.bound / 30, "the bound is far from what happens"


def test_the_doppler_program() -> None:
    """FPTaylor's certified bound is 9.9e-14 for the same program."""
    program = one(DOPPLER)
    assert program.name == "doppler" and program.ranges["v"] == (20.0, 20000.0)
    found = bound_program(program).maximum
    assert 5e-14 < found.bound < 1.1e-13
    assert measured(program, 200) <= found.bound


def test_the_precision_of_the_context() -> None:
    wide, narrow = (bound_program(body("(+ x y)", precision_=p)).maximum.bound for p in ("binary64", "binary32"))
    assert narrow / wide == pytest.approx(2.0**29, rel=1e-6)


def test_conditions_leave_out_parts() -> None:
    loose = bound_program(body("(/ 1 (- x y))", "(and (<= 1 x 2) (<= 1 y 2))"), BoundLimits(seconds=1.0, parts=4000)).maximum.bound
    apart = bound_program(body("(/ 1 (- x y))", "(and (<= 1 x 2) (<= 1 y 2) (<= 0.5 (- x y)))"), BoundLimits(seconds=2.0)).maximum.bound
    assert loose == np.inf and apart < 1e-14


def test_a_program_without_arguments() -> None:
    assert 0 < bound_program(one("(FPCore () (sqrt 2))")).maximum.bound < 3e-16


@pytest.mark.parametrize(("text", "problem"), [
    ("(FPCore (x) (+ x", "never closed"), ("(FPCore (x) (frob x))", "frob is not supported"),
    ("(FPCore (x) (+ x z))", "nothing is called z"),
    ("(FPCore (x) (sqrt x x))", "sqrt takes 1 operand"), ("(FPCore (x) :precision binary80 x)", "binary80"), ("hello", "expected (FPCore"),
    ("(FPCore (x x) x)", "given twice"), ("(FPCore (x) (while (< x 1) ([x 0 x]) x))", "loops"), ("(FPCore (x) )", "expected"),
    ("\n\n(FPCore (x) (let ([y]) x))", "test.fpcore:3"), (")", "closing"), ("(" * 500, "deep"), ("(FPCore (x) (if x 1 2))", "condition"),
])  # fmt: skip
def test_what_is_refused_says_where_and_why(text: str, problem: str) -> None:
    with pytest.raises(ModelError, match=problem.replace("(", r"\(")):
        list(programs(text, "test.fpcore"))


CALLS = """
(FPCore square (x) (* x x))
(FPCore modulus (re im) :name "of a complex number" (sqrt (+ (square re) (square im))))
(FPCore narrow (x) :precision binary32 (+ x 0.1))
(FPCore (x y) (- (modulus x (+ y 1)) (narrow (square y))))
"""


def value(program: FPCoreProgram, *numbers: float) -> float:
    inputs = dict(zip(program.arguments.values(), map(np.float64, numbers), strict=True))
    return float(evaluate(program.block, inputs)[program.result])


def test_a_call_computes_what_the_program_before_it_does() -> None:
    *_, program = programs(CALLS)
    assert value(program, 3.0, 1.5) == np.sqrt(3.0 * 3.0 + 2.5 * 2.5) - float(np.float32(np.float32(2.25) + np.float32(0.1)))


@pytest.mark.parametrize(("text", "problem"), [
    ("(FPCore f (x) x) (FPCore (x) (f x x))", "f takes 1 operand, but got 2"),
    ("(FPCore (x) (g x)) (FPCore g (x) x)", "g is not supported"),
    ("(FPCore f (x) (f x))", "f is not supported"),
])  # fmt: skip
def test_calls_that_are_refused(text: str, problem: str) -> None:
    with pytest.raises(ModelError, match=problem):
        list(programs(text))


def test_what_a_program_is_called_is_no_operation() -> None:
    """A program named exp does not change what exp means, in the forms that `-O accuracy` writes either."""
    first, second = programs("(FPCore exp (x) (+ x 1)) (FPCore (x) (exp x))")
    assert value(second, 0.0) == 1.0 and value(first, 5.0) == 6.0


def test_calls_of_calls_are_built_once() -> None:
    text = "(FPCore f0 (x) (+ x 1))" + "".join(f"(FPCore f{i} (x) (* (f{i - 1} x) (f{i - 1} x)))" for i in range(1, 200))
    assert len(list(list(programs(text))[-1].block.ops)) < 210


def test_an_argument_without_a_range_is_named() -> None:
    with pytest.raises(NotAnalyzed, match="argument y"):
        bound_program(body("(+ x y)", "(<= 1 x 2)"))


def test_numbers() -> None:
    assert number("1/3") == number("2/6") and number("0x1p-2") == number("0.25") and number("(") is None
    assert number(["digits", "3", "2", "10"]) == 300 and number("1e999999999") is None


def test_the_maximum_of_a_known_function() -> None:
    """x·(1 - x) on [0, 1] has its maximum ¼ inside; naive bounds of parts are above it until they are small."""

    def evaluate_parts(lo: np.ndarray, hi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return (hi * (1 - lo))[:, 0], np.ones(len(lo), bool)

    found = maximum(evaluate_parts, [0.0], [1.0], BoundLimits(tolerance=0.001))
    assert 0.25 <= found.bound <= 0.2505 and found.attained <= 0.25
