"""What rounding does to a side never exceeds its first-order bound, but for terms of second order."""

from __future__ import annotations

import numpy as np
import pytest

from hnfc.dialects.types import FORMATS
from hnfc.dsl.error import context_of, rounding_of
from hnfc.dsl.error.analysis import FAULTS
from hnfc.dsl.error.floating import CannotRun, evaluate
from hnfc.dsl.rulebook import shipped
from tests.error.running import DTYPES, errors, in_float64, samples, without_underflow

SECOND_ORDER = {"f32": 1.001, "f16": 1.06}
MOVED_ONLY = 0.0
POINTS = 24


def measured(rule, side, form, points):
    """(elements compared, the largest measured error over the bound)."""
    context = context_of(rule)
    formula, _ = rounding_of(context, side, frozenset())
    unit = FORMATS[form].unit_roundoff
    compared, worst = 0, 0.0
    for sample in samples(rule, context, form, points):
        if not without_underflow(side, sample, form):
            continue
        try:
            found = errors(side, sample, form)
            bound = evaluate(formula.expression, in_float64(sample.inputs), sample.axes)
        except CannotRun:
            continue
        bounds = np.broadcast_to(bound, sample.value.shape).reshape(-1)
        for error, first_order in zip(found, bounds, strict=True):
            if error is None or not np.isfinite(first_order) or unit * first_order > 0.02:
                continue  # so large a bound that terms of second order matter
            compared += 1
            if error > 1e-60:
                worst = max(worst, error / (unit * first_order) if first_order else np.inf)
    return compared, worst


@pytest.mark.slow
@pytest.mark.parametrize("form", DTYPES)
def test_the_bound_holds_for_every_shipped_rule(form, record_property):
    checked, tightest = set(), 0.0
    for rule in shipped().rules:
        context = context_of(rule)
        if context.narrow and form == "f32":
            continue  # a rule for half precision
        for side in (rule.pattern, rule.replacement):
            try:
                compared, worst = measured(rule, side, form, POINTS)
            except FAULTS:
                continue
            assert worst <= SECOND_ORDER[form], f"{rule.name}: {worst:.4g} times the bound"
            tightest = max(tightest, worst)
            if compared >= 8:
                checked.add(rule.name)
    assert len(checked) >= 90, len(checked)
    # a bound that nothing comes near would say nothing
    assert tightest > 0.9
    record_property("shown", f"{form}: {len(checked)} rules, the largest error is {tightest:.3f} of its bound")
