"""What Z3 is told about roots and fractional powers holds."""

from __future__ import annotations

from fractions import Fraction

import pytest
import z3

from hnfc.dsl.soundness import Status, prove
from hnfc.dsl.soundness.proof import Blocked, Proof
from hnfc.dsl.soundness.term import ONE, Proposition, atom, of_atom
from hnfc.dsl.soundness.translation import SolverTranslation
from tests.soundness.reading import rule_of


@pytest.mark.parametrize(
    "text",
    [
        "sqrt(exp(x / 2) + 1) => sqrt(2)",
        "sqrt(1 + sqrt(x)) => sqrt(2)",
        "where(sqrt(exp(x / 2) + 1) > 1e100, x, x + 1) => x + 1",
    ],
)
def test_a_fractional_power_below_a_root_is_no_number(text: str) -> None:
    with pytest.raises(Blocked):
        Proof(rule_of(text)).run()


def test_a_false_rule_that_samples_do_not_refute_is_not_proved() -> None:
    """It fails only for x between 922 and 1000."""
    verdict = prove(rule_of("where(sqrt(exp(x / 2) + 1) > 1e100, x, x + 1) => x + 1\n where x < 1000"))
    assert verdict.status is Status.UNKNOWN


def test_a_root_brings_what_stands_below_it() -> None:
    x = of_atom(atom("cap", "x", ()))
    half = of_atom(atom("exp", x), Fraction(1, 2))
    translation = SolverTranslation(lambda part: f"v{getattr(part, 'id', 0)}")
    root = Proposition(">", of_atom(atom("root", half + ONE), Fraction(1, 2)))
    translation.collect([root])
    assert translation.scales[atom("exp", x)] == 2
    solver = z3.Solver()
    solver.add(translation.cond(root), *(formula for _, formula in translation.roots()))
    assert solver.check() == z3.sat


def test_what_was_not_collected_is_not_translated() -> None:
    half = of_atom(atom("exp", of_atom(atom("cap", "x", ()))), Fraction(1, 2))
    with pytest.raises(ValueError, match="not collected"):
        SolverTranslation(str).cond(Proposition(">", half))
