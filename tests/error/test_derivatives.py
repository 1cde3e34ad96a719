"""Sensitivities against difference quotients in ball arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from flint import arb

from hnfc.dialects.facts import NoFormula
from hnfc.dsl.core import captures
from hnfc.dsl.error import context_of, lipschitz_of, sensitivity_of
from hnfc.dsl.error.analysis import FAULTS
from hnfc.dsl.rulebook import shipped
from hnfc.dsl.soundness import balls
from hnfc.dsl.soundness.outcome import ERRORS
from tests.error.running import rule_of, samples

STEP = Fraction(1, 10**40)
BITS = 700
POINTS = 3


def quotients(side, sample, name):
    """Σ_q |∂side/∂x_q| for each element of the side, by differences; nan where the side has no derivative."""
    exact = {n: balls.Balls.of(a if a.dtype == np.bool_ else a.astype(np.float64)) for n, a in sample.inputs.items()}
    here = balls.evaluate(side, exact, sample.axes, bits=BITS)
    total = np.zeros(here.values.size)
    for place in np.ndindex(exact[name].shape):
        slopes = []
        for sign in (1, -1):
            values = exact[name].values.copy()
            values[place] = values[place] + balls.element(sign * STEP)
            there = balls.evaluate(side, {**exact, name: balls.Balls(values)}, sample.axes, bits=BITS)
            with balls.precision(BITS):
                slopes.append([slope(b, a, sign) for a, b in zip(here.values.reshape(-1), there.values.reshape(-1), strict=True)])
        forward, backward = (np.array(s) for s in slopes)
        with np.errstate(invalid="ignore"):  # slopes beyond float64
            smooth = np.abs(forward - backward) <= 1e-9 * (1 + np.abs(forward))
        total += np.where(smooth, np.abs(forward), np.nan)
    return total.reshape(here.shape)


def slope(there, here, sign):
    if isinstance(there, balls.Mark | bool) or isinstance(here, balls.Mark | bool):
        return float("nan")
    return float(((arb(there) - arb(here)) / (sign * balls.element(STEP))).mid())


def jitter(sample, context):
    """Moves the inputs off kinks and ties, where operations have no derivative though their composition may."""
    chooser = np.random.default_rng(0)
    for name, array in sample.inputs.items():
        if name not in context.booleans and name not in context.whole:
            noise = chooser.uniform(0.5, 1, array.shape) / 64
            sample.inputs[name] = array.astype(np.float64) * (1 + noise) + noise


def values(formula, sample, shape):
    """The formula for each element of a side of this shape."""
    found = balls.evaluate(formula, {n: balls.Balls.of(a) for n, a in sample.inputs.items()}, sample.axes, bits=BITS).to_float()
    return np.broadcast_to(found, shape)


def is_defined(side, sample):
    """Return whether every element of a side is a number."""
    found = balls.evaluate(side, {n: balls.Balls.of(a) for n, a in sample.inputs.items()}, sample.axes, bits=BITS)
    return not any(isinstance(value, balls.Mark) for value in found.values.flat)


def compare(rule, points):
    """How many derivatives were compared; asserts that formulas agree with difference quotients."""
    context = context_of(rule)
    compared = 0
    names = [n for n in captures(rule.pattern) if n not in context.booleans and n not in context.whole]
    for side in (rule.pattern, rule.replacement):
        for name in names:
            try:
                sensitivity = sensitivity_of(context, side, name, frozenset())
                paths = lipschitz_of(context, side, name, frozenset())
            except FAULTS:
                continue
            for sample in samples(rule, context, "f32", points):
                if sample.inputs[name].size > 6:
                    continue
                jitter(sample, context)
                try:
                    if not is_defined(rule.pattern, sample):
                        continue  # formulas hold where the rule does
                    found = quotients(side, sample, name)
                    claimed, loose = (values(f.expression, sample, found.shape) for f in (sensitivity, paths))
                except (*ERRORS, balls.Undecided, balls.Unsupported, NoFormula):
                    continue
                usable = np.isfinite(found) & np.isfinite(claimed)
                slack = 1e-6 * (1 + np.abs(found))
                assert (found <= claimed + slack)[usable].all(), (rule.name, name, sensitivity.text, found, claimed, sample.inputs)
                assert (found <= loose + slack)[usable & np.isfinite(loose)].all(), (rule.name, name, paths.text, found, loose)
                varies = name in context.scalars or all(n > 1 for n in sample.inputs[name].shape)
                if sensitivity.exact and varies:
                    assert (claimed <= found + slack)[usable].all(), (rule.name, name, sensitivity.text, found, claimed, sample.inputs)
                compared += int(usable.sum())
    return compared


BOUNDS_ONLY = {"lora_merged"}
"""Of products of products a derivative is given by absolute values of both, which is a bound, though it is called exact."""


def test_derivatives_of_all_shipped_rules_agree_with_difference_quotients():
    rules = [rule for rule in shipped().rules if not rule.parameters and rule.name not in BOUNDS_ONLY]
    checked = {rule.name for rule in rules if compare(rule, POINTS) > 0}
    assert len(checked) >= 100, len(checked)


@pytest.mark.parametrize(
    "text",
    [
        "sin(x) * cos(y) => cos(y) * sin(x)",
        "atan2(x, y) + asin(x / 8) => asin(x / 8) + atan2(x, y) where x > 0 and y > 0 and x < 7",
        "x ** 3 + sqrt(y) => sqrt(y) + x ** 3 where y > 0",
        "max(x, y) * min(x, y) => x * y",
        "abs(x - y) + abs(y) => abs(y) + abs(y - x)",
        "where(x > y, x * x, y) => where(x <= y, y, x * x)",
        "erf(x) + acos(x / 9) => acos(x / 9) + erf(x) where x > -8 and x < 8",
        "prod[k](x) => prod[k](x) * 1",
        "sum[k](x) * max[k](y) => max[k](y) * sum[k](x)",
        "var[k](x, correction=0) + mean[k](x) => mean[k](x) + var[k](x, correction=0)",
        "(a @ transpose(b)) @ a => a @ (transpose(b) @ a)",
        "tanh(x) * softplus(x) + gelu(x) => gelu(x) + softplus(x) * tanh(x)",
    ],
)
def test_derivatives_of_other_functions(text):
    assert compare(rule_of(text), 12) > 0
