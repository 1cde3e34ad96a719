"""Lemmas on reductions, batches and floors: what they prove, and their wrong neighbours, which no proof may reach.

Neighbours are put to the proof alone, without the search that refutes them beside it.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache

import pytest

from hnfc.dialects.num import OPERATIONS
from hnfc.dsl.core import Apply, Literal, Rule
from hnfc.dsl.rulebook import shipped
from hnfc.dsl.soundness import Status, prove, refute
from hnfc.dsl.soundness.batches import single_matrices
from hnfc.dsl.soundness.formats import explicit_roundings
from hnfc.dsl.soundness.obligations import Obligation, obligations
from hnfc.dsl.soundness.smtlib import to_smt2
from tests.soundness.mutation import mutants
from tests.soundness.reading import corpus, rule_of
from tests.soundness.test_mutants import proves
from tests.soundness.test_smtlib import asked

NORM = "sqrt(sum[k](x * x))"

PROVED = [
    # a maximum that is not positive, of what is not negative
    f"{NORM} => where(max[k](abs(x)) > 0, {NORM}, 0)",
    # a minimum that is not negative
    "sqrt(prod[k](x)) * sqrt(prod[k](x)) => prod[k](abs(x)) where min[k](x) >= 0",
    # a sum that is not positive, of what is not negative
    f"{NORM} => where(sum[k](abs(x)) > 0, {NORM}, 0)",
    "max[k](abs(x)) => where(sum[k](abs(x)) > 0, max[k](abs(x)), 0)",
    "(x - mean[k](x)) * x => 0 where x >= mean[k](x)",
    "(x - mean[k](x)) * x => 0 where x <= mean[k](x)",
    # a product that is not 0
    "log(prod[k](x)) => sum[k](log(x)) where x >= 0",
    "1 / prod[k](x) => 1 / prod[k](x) + 0 * max[k](1 / x)",
    # Cauchy and Schwarz
    "exp(sum[k](x)) => exp(sum[k](x)) + 0 * sqrt(size[k](x) * sum[k](x * x) - sum[k](x) * sum[k](x))",
    # the maximum is below the logarithm of a sum of exponentials
    "sum[k](exp(x)) - x => sum[k](exp(x)) - x + 0 * sqrt(log(sum[k](exp(x))) - x)",
]

VACUOUS = [
    "log(sum[k](x) * sum[k](x) - size[k](x) * sum[k](x * x)) => 1",
    "log(log_softmax[k](x)) => x",
    "sum[k](y * log(log_softmax[k](x))) => 0",
    "log(prod[k](x)) => 1 where x == 0",
]

WRONG = [
    f"{NORM} => where(max[k](x) > 0, {NORM}, 0)",
    f"{NORM} => where(min[k](abs(x)) > 0, {NORM}, 0)",
    f"{NORM} => where(max[k](abs(x - 1)) > 0, {NORM}, 0)",
    f"{NORM} => where(max[k](abs(x)) > 1, {NORM}, 0)",
    f"{NORM} => where(sum[k](x) > 0, {NORM}, 0)",
    f"{NORM} => where(sum[k](x) != 0, {NORM}, 0)",
    "max[k](abs(x)) => where(sum[k](abs(x)) > 1, max[k](abs(x)), 0)",
    "max[k](abs(x)) => where(sum[k](x) > 0, max[k](abs(x)), 0)",
    "max[k](abs(x)) => where(prod[k](abs(x)) > 0, max[k](abs(x)), 0)",
    "(x - mean[k](x)) * x => 0 where x >= min[k](x)",
    "(x - mean[k](x)) * x => 0 where x >= mean[k](-x)",
    "(x - mean[k](x)) * x => 0 where x >= mean[k](x) - 1",
    "(x - mean[k](x)) * x => 0 where 2 * x >= mean[k](x)",
    "(x - mean[k](x)) * x => 0 where max[k](x) >= mean[k](x)",
    "log(prod[k](x)) => sum[k](log(x)) where x >= -1",
    "log(sum[k](x)) => log(sum[k](x)) + 0 * sum[k](log(x)) where x >= 0",
    "log(max[k](x)) => log(max[k](x)) + 0 * sum[k](log(x)) where x >= 0",
    "sqrt(prod[k](x)) * sqrt(prod[k](x)) => prod[k](abs(x)) where max[k](x) >= 0",
    "exp(prod[k](x)) => exp(prod[k](x)) + 0 * max[k](1 / x)",
    "1 / prod[k](x) => 1 / prod[k](x) + 0 * max[k](1 / (x - 1))",
    "exp(sum[k](x)) => exp(sum[k](x)) + 0 * sqrt((size[k](x) - 1) * sum[k](x * x) - sum[k](x) * sum[k](x))",
    "exp(sum[k](x)) => exp(sum[k](x)) + 0 * sqrt(size[k](x) * sum[k](abs(x)) - sum[k](x) * sum[k](x))",
    "exp(sum[k](x)) => exp(sum[k](x)) + 0 * sqrt(size[k](x) * sum[k](x * x) - sum[k](x + 1) * sum[k](x + 1))",
    "exp(sum[k](x)) => exp(sum[k](x)) + 0 * log(size[k](x) * sum[k](x * x) - sum[k](x) * sum[k](x))",
    "sum[k](exp(x)) - x => sum[k](exp(x)) - x + 0 * log(log(sum[k](exp(x))) - x)",
    "sum[k](exp(x)) - x => sum[k](exp(x)) - x + 0 * sqrt(log(sum[k](exp(-x))) - x)",
    "sum[k](exp(x)) - x => sum[k](exp(x)) - x + 0 * sqrt(log(sum[k](exp(x)) / 2) - x)",
    "sum[k](exp(x)) - x => sum[k](exp(x)) - x + 0 * sqrt(log(sum[k](exp(2 * x))) - x)",
    "sum[k](exp(x)) - x => sum[k](exp(x)) - x + 0 * sqrt(log(mean[k](exp(x))) - x)",
]

NOT_VACUOUS = [
    "log(sum[k](x) * sum[k](x) - sum[k](x * x)) => 1",
    "log(size[k](x) * sum[k](x * x) - sum[k](x) * sum[k](x)) => 1",
    "sqrt(sum[k](x) * sum[k](x) - size[k](x) * sum[k](x * x)) => 1",
    "log(x - log(sum[k](exp(y)))) => 1",
    "log(x - log(mean[k](exp(x)))) => 1",
    "sqrt(x - log(sum[k](exp(x)))) => 1",
    "log(prod[k](x)) => 1 where x >= 0",
]


@pytest.mark.parametrize("text", PROVED)
def test_lemmas_prove(text: str) -> None:
    verdict = prove(rule_of(text))
    assert verdict.status is Status.PROVED, verdict.reason


@pytest.mark.parametrize("text", VACUOUS)
def test_lemmas_prove_that_there_is_no_value(text: str) -> None:
    assert prove(rule_of(text)).status is Status.VACUOUS


@pytest.mark.sampled(8)
@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_neighbour_of_a_lemma_is_not_proved(text: str) -> None:
    assert not proves(rule_of(text))


@pytest.mark.parametrize("text", NOT_VACUOUS)
def test_what_has_a_value_is_not_vacuous(text: str) -> None:
    assert not proves(absurd(rule_of(text)))


@pytest.mark.sampled(20)
@pytest.mark.parametrize("rule", [*shipped().rules[::4], *corpus("proved.hnf")[::4]], ids=lambda rule: rule.name)
def test_no_right_rule_is_vacuous(rule: Rule) -> None:
    """Each has an input that gives its left side a value."""
    assert not proves(absurd(rule))


@pytest.mark.slow
def test_no_mutant_with_an_input_is_vacuous() -> None:
    for rule in shipped().rules:
        for what, mutant in mutants(rule):
            if proves(absurd(mutant)):
                assert refute.search(explicit_roundings(mutant), 500, seed=99).vacuous, f"{mutant.name}: {what}"


def absurd(rule: Rule) -> Rule:
    """The rule by whose proof its left side would be shown to have no value."""
    return replace(rule, replacement=Apply(OPERATIONS["add"], (rule.pattern, Literal(Fraction(1)))), both_ways=False)


@cache
def obligations_of(text: str) -> list[Obligation]:
    return obligations(rule_of(text))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", PROVED)
def test_another_solver_confirms_the_steps(text: str) -> None:
    answers = [asked(to_smt2(obligation)) for obligation in obligations_of(text)]
    assert answers and set(answers) == {"unsat"}


def test_the_lemmas_are_cited() -> None:
    cited = {assumption.name for text in PROVED for obligation in obligations_of(text) for assumption in obligation.assumptions}
    lemmas = {"extremum-bounds", "extremum-bounds-below", "term-below-sum", "product-vanishes", "cauchy-schwarz", "log-sum-exp-bounds"}
    assert lemmas <= cited, lemmas - cited


def test_a_question_that_needs_cases_is_none_of_a_contradiction() -> None:
    """The facts are renamed for Z3, and an absolute value among them asks for the sign of what it is of."""
    m = "max(max[k](abs(x)), 1)"
    rule = rule_of(f"x / sqrt(mean[k](x * x) + c) => c / {m} / sqrt(mean[k](x / {m} * (x / {m})) + c / ({m} * {m}))")
    assert not proves(rule)
    assert prove(rule).status is Status.REFUTED


# Floors, groups and numbers ---------------------------------------------------------------------------------------------

GROUPS = "stride=1, padding=0, dilation=1, groups=const r"
AGAIN = "stride=1, padding=0, dilation=1, groups=r"
RANKS = "rank(x) = 4 and rank(w) = 4 and rank(g) = 3 and free[-2, -1](g)"


def test_a_convolution_has_no_more_groups_than_output_channels() -> None:
    scaled = f"conv(x, w, {GROUPS}) * g => conv(x, w * unsqueeze[-1](g), {AGAIN}) where {RANKS}"
    assert proves(rule_of(scaled))
    assert not proves(rule_of(scaled.replace("unsqueeze[-1](g)", "unsqueeze[-1](g * g)")))
    # a kernel with fewer output channels may have too few for the groups
    fewer = f"conv(x, w, {GROUPS}) => conv(x, sum[-4](w), {AGAIN}) where rank(x) = 4 and rank(w) = 4"
    assert not proves(rule_of(fewer))


@pytest.mark.parametrize("text", ["slice[k](const c, 0, 1) => c", "concat[k](x, 1) => x", "reverse[k](x) => x"])
def test_a_number_has_no_axis(text: str) -> None:
    assert prove(rule_of(text)).status is (Status.REFUTED if "reverse" in text else Status.VACUOUS)


def test_a_number_is_no_matrix() -> None:
    assert prove(rule_of("a @ const c => c * a")).status is Status.VACUOUS
    fused = rule_of("softmax[-1](a @ transpose(b) * const s) @ b => attention(a, s, b, scale=s, causal=false)")
    assert not proves(fused)
    assert prove(fused).status is Status.REFUTED
    # but the mask of an attention may be one
    masked = "softmax[-1](a @ transpose(b) * const s + const m) @ b => attention(a, b, b, m, scale=s, causal=false)"
    assert prove(rule_of(masked)).status is Status.PROVED


# Batches ------------------------------------------------------------------------------------------------------------------

DISTANCE = (
    "sum[-1](a * a) + transpose(sum[-1](b * b)) - 2 * (a @ transpose(b)) "
    "=> squeeze[-1](sum[-1](square(unsqueeze[-2](a) - unsqueeze[-3](b))))"
)


@pytest.mark.parametrize("where", ["", " where rank(b) = 2", " where rank(a) = 2", " where rank(a) = 2 and rank(b) = 2"])
def test_what_holds_for_matrices_holds_for_batches(where: str) -> None:
    verdict = prove(rule_of(DISTANCE + where))
    assert verdict.status is Status.PROVED
    assert "every operand of a matmul has rank 2 or more" in verdict.shape_conditions
    assert any("batch" in step for step in verdict.steps) == (where.count("rank") < 2)


ALONE = [
    # true of matrices, and false of batches: the axes of the batches of c and of a @ b come to lie at different places
    "unsqueeze[-3](a @ b) + c @ d => unsqueeze[-3](a @ b + c @ d)",
    # an axis that only a batch has
    "squeeze[-4](unsqueeze[-4](a @ b)) => a @ b",
    "sum[-3](a @ b) => squeeze[-4](unsqueeze[-4](sum[-3](a @ b)))",
    # a tensor that may have fewer than two axes
    "squeeze[-3](unsqueeze[-3](a @ b + c)) => a @ b + c",
]


@pytest.mark.parametrize("text", ALONE)
def test_what_does_not_act_on_each_matrix_alike_is_no_rule_of_batches(text: str) -> None:
    rule = rule_of(text)
    assert single_matrices(rule) is rule
    assert not proves(rule)


def test_a_wrong_rule_of_batches_is_not_proved() -> None:
    assert not proves(rule_of(DISTANCE.replace("unsqueeze[-3](b)", "unsqueeze[-2](b)")))
    assert not proves(rule_of(DISTANCE.replace("- 2", "- 3")))
