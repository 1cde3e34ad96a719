"""Both sides of a rule on random inputs: in a format, and exactly."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb

from hnfc.dialects.facts import NoFormula
from hnfc.dialects.types import FORMATS
from hnfc.dsl.core import Expr, Rule
from hnfc.dsl.elaborate import Elaborator
from hnfc.dsl.error.floating import CannotRun, evaluate
from hnfc.dsl.error.side import RuleContext
from hnfc.dsl.parser import parse
from hnfc.dsl.soundness import balls
from hnfc.dsl.soundness.elements import is_accurate
from hnfc.dsl.soundness.outcome import ERRORS, holds
from hnfc.dsl.soundness.sampling import Sampler

DTYPES = {"f32": np.float32, "f16": np.float16}
SMALLEST_NORMAL = {"f32": 2.0**-126, "f16": 2.0**-14}


def rule_of(text: str) -> Rule:
    """The rule of `left => right` and further clauses."""
    return Elaborator(parse(f"rule r {text}", "test.hnf")).rules()[0]


@dataclass
class Sample:
    """Inputs in a format, the axes, and the exact value of the left side there."""

    inputs: dict[str, Any]
    axes: dict[str, tuple[int, ...]]
    value: balls.Balls


def samples(rule: Rule, context: RuleContext, form: str, count: int, seed: int = 0, bits: int = 600) -> Iterator[Sample]:
    """Points of the prover's sampler, most numbers scaled a little so that they need rounding, that meet the conditions."""
    chooser = random.Random(f"{rule.name}/{seed}")
    sampler = Sampler(rule, chooser)
    for _ in range(count):
        point = sampler.point()
        inputs: dict[str, Any] = {}
        for name, array in point.inputs.items():
            if name in context.booleans:
                inputs[name] = np.array(array.tolist(), bool).reshape(array.shape)
                continue
            exact = name in context.whole or name in context.scalars
            scaled = [float(v) * (1 if exact else chooser.choice([1, 1, 0.7, 1.3, 0.123])) for v in array.reshape(-1)]
            with np.errstate(over="ignore"):
                inputs[name] = np.array(scaled).reshape(array.shape).astype(np.float64 if exact else DTYPES[form])
        tensors = {name: balls.Balls.of(a if a.dtype == np.bool_ else a.astype(np.float64)) for name, a in inputs.items()}
        try:
            if holds(rule.where, point, tensors) is True:
                yield Sample(inputs, point.axes, balls.evaluate(rule.pattern, tensors, point.axes, bits=bits))
        except (*ERRORS, balls.Unsupported, NoFormula):
            continue


def in_float64(inputs: dict[str, Any]) -> dict[str, Any]:
    return {name: a if a.dtype == np.bool_ else a.astype(np.float64) for name, a in inputs.items()}


def without_underflow(side: Expr, sample: Sample, form: str) -> bool:
    """Return whether nothing on the way to the value is smaller than the normal numbers of the format: the model speaks of no others."""
    from hnfc.dsl.core import Apply, walk

    for node in walk(side):
        if isinstance(node, Apply):
            try:
                found = np.abs(evaluate(node, in_float64(sample.inputs), sample.axes).astype(np.float64))
            except CannotRun:
                return False
            if (((found > 0) & (found < 4 * SMALLEST_NORMAL[form])) | (found > FORMATS[form].largest / 4)).any():
                return False
    return True


def errors(side: Expr, sample: Sample, form: str) -> list[float | None]:
    """|computed - exact| for each element; None where one of them is no number, or is not known to as many digits. Raises CannotRun."""
    computed = evaluate(side, sample.inputs, sample.axes, DTYPES[form])
    if computed.dtype != DTYPES[form] or computed.shape != sample.value.shape:
        raise CannotRun("another type or shape")
    pairs = zip(computed.reshape(-1).tolist(), sample.value.values.reshape(-1).tolist(), strict=True)
    return [float(abs(arb(float(got)) - arb(exact)).mid()) if np.isfinite(got) and _is_known(exact) else None for got, exact in pairs]


def _is_known(value: Any) -> bool:
    return not isinstance(value, balls.Mark | bool) and is_accurate(arb(value))


def fraction(value: float) -> Fraction:
    return Fraction(value)
