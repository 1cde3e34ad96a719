"""Every example shows what it says, in an evaluation that shares nothing with the one that found it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from hnfc.dsl.core import Apply, Rule
from hnfc.dsl.ieee import FORMATS_JUDGED, IeeeExample, ieee_verdicts
from hnfc.dsl.ieee.formats import BINARY, number
from hnfc.dsl.ieee.samples import is_pointwise
from hnfc.dsl.rulebook import shipped
from hnfc.dsl.soundness.scan import rule_expressions
from tests.ieee import reference, tensors
from tests.ieee.reading import corpus, rule_of, verdicts
from tests.ieee.tensors import NotHere

# in f64 these are scipy's, which has no wider type to round from
IN_DOUBLE = {"erf", "erfc", "xlogy", "i0", "i0e", "lgamma", "log_ndtr", "gelu"}


def examples(rule: Rule, formats: Iterable[str]) -> Iterable[tuple[str, str, IeeeExample]]:
    for verdict in ieee_verdicts(rule, tuple(formats)):
        for kind, example in verdict.examples.items():
            yield verdict.format, kind, example


def shows(kind: str, left: Any, right: Any) -> bool:
    if isinstance(left, bool | np.bool_):
        return kind == "value" and bool(left != right)
    finite = math.isfinite(left), math.isfinite(right)
    same = (left == right and math.copysign(1, left) == math.copysign(1, right)) or (math.isnan(left) and math.isnan(right))
    return (
        not same
        and {
            "loses": finite == (True, False),
            "gains": finite == (False, True),
            "swallows NaN": math.isnan(left) and not math.isnan(right),
            "NaN to number": math.isnan(left) and finite[1],
            "inf to NaN": (math.isinf(left) and math.isnan(right)) or (math.isnan(left) and math.isinf(right)),
            "loses digits": finite == (True, True) and left != right,
            "value": finite == (True, True) and left != right,
            "signed zero": left == right == 0,
            "nan": finite != (True, True),
            "inf": finite != (True, True),
        }[kind]
    )


def written(text: str, element: str) -> Any:
    return text == "true" if element == "i1" else number(text, BINARY[element])


def check_pointwise(rule: Rule, form: str, kind: str, example: IeeeExample) -> None:
    found = reference.replayed(rule, example, form)
    approximate = form == "f64" and any(isinstance(n, Apply) and n.name in IN_DOUBLE for n in rule_expressions(rule))
    assert shows(kind, *found) or (approximate and kind == "value"), f"{form} {kind} {example}: {found}"
    for value, text in zip(found, (example.left, example.right), strict=True):
        said = written(text, example.element)
        exactly = value == said or (math.isnan(value) and math.isnan(said))
        assert exactly or (approximate and math.isclose(value, said, rel_tol=1e-12)), f"{form} {kind} {example}: {value}"


def check_tensors(rules: Iterable[Rule], form: str, allowed: float) -> None:
    """A sum that NumPy or a BLAS takes in another order, or fused, may show something else, but rarely."""
    replayed, failed = 0, []
    for rule in rules:
        for _, kind, example in examples(rule, (form,)):
            try:
                left, right = tensors.replayed(rule, example)
            except NotHere:
                continue
            replayed += 1
            if not shows(kind, left, right):
                failed.append(f"{rule.name} {kind} {example}: {left} {right}")
    assert replayed > 30
    assert len(failed) <= replayed * allowed, failed


POINTWISE = [rule for rule in shipped().rules if is_pointwise(rule)]
TENSORS = [rule for rule in shipped().rules if not is_pointwise(rule)]


@pytest.mark.parametrize("rule", [rule for rule in corpus("wrong.hnf") if is_pointwise(rule)], ids=lambda r: r.name)
def test_examples_of_the_corpus(rule: Rule) -> None:
    for form, verdict in verdicts(rule).items():
        for kind, example in verdict.examples.items():
            check_pointwise(rule, form, kind, example)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("rule", POINTWISE, ids=lambda r: r.name)
def test_pointwise_examples(rule: Rule) -> None:
    for form, kind, example in examples(rule, ("f16",)):
        check_pointwise(rule, form, kind, example)


def test_tensor_examples() -> None:
    check_tensors(TENSORS[::2], "f16", 0.02)


@pytest.mark.slow
@pytest.mark.parametrize("form", sorted(set(FORMATS_JUDGED) - {"f16"}))
def test_examples_in_all_formats(form: str) -> None:
    for rule in POINTWISE:
        for _, kind, example in examples(rule, (form,)):
            check_pointwise(rule, form, kind, example)
    check_tensors(TENSORS, form, 0.05)


def test_inputs_that_do_not_matter_do_not_matter() -> None:
    rule = rule_of("where(p, a, b / 0) => where(p, a, 1)")
    (verdict,) = ieee_verdicts(rule, ("f16",))
    gain = verdict.examples["gains"]
    assert gain.irrelevant == ("a", "b")
    assert "(a and b do not matter)" in str(gain)
    for a in (0.0, -7.0, 1000.0):
        for b in (0.0, 3.0, -60000.0):
            scalars = reference.Scalars({"p": False, "a": a, "b": b}, {"p": "i1", "a": "f16", "b": "f16"}, "f16")
            assert shows("gains", scalars.value(rule.pattern, "f16"), scalars.value(rule.replacement, "f16"))


def test_examples_are_plain() -> None:
    """Small tensors of short numbers, with as few infinities and NaNs as can be."""
    for rule in corpus("wrong.hnf"):
        for verdict in verdicts(rule).values():
            for kind in ("gains", "loses"):
                example = verdict.examples.get(kind)
                if example is None or (kind == "loses" and verdict.edge is not None and verdict.edge >= 0.5):
                    continue
                values = [v for _, tensor in example.inputs for v in tensor.values]
                assert len(values) <= 3, str(example)
                assert rule.name in ("times_zero", "minus_itself", "times_condition", "condition_times") or not {"inf", "-inf", "nan"} & {
                    *values
                }
