"""The search for a counterexample: both sides in ball arithmetic on small tensors of special values.

A counterexample is certain: the inputs are exact rationals that meet `where`, the left side is defined, and the right side is
undefined or its ball is disjoint from the left's. It is then minimised.
"""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from flint import arb, fmpq

from hnfc.dialects.facts import NoFormula
from hnfc.dsl.core import AllOf, Property, Rule, conjuncts
from hnfc.dsl.soundness import balls
from hnfc.dsl.soundness.balls import Unsupported
from hnfc.dsl.soundness.elements import DEFAULT_PRECISION
from hnfc.dsl.soundness.formats import explicit_roundings
from hnfc.dsl.soundness.integers import variants
from hnfc.dsl.soundness.minimise import minimised
from hnfc.dsl.soundness.outcome import PointOutcome, difference, outcome
from hnfc.dsl.soundness.sampling import F, Point, Sampler
from hnfc.dsl.soundness.scan import EXPLICIT, VALUES
from hnfc.dsl.soundness.verdict import Counterexample, Tensor

ENOUGH, PATIENCE, STUBBORN = 20, 6, 20
"""A search for n samples that agree ends after STUBBORN·n points, or before that if ENOUGH agreed: the prover's after PATIENCE·n."""

FIRST, RARE = 4000, 0.25
"""Number of points, and share of them with a value of the left side, below which most further points are drawn near those."""

MAX_FITTING = 50

UNCONDITIONED = 200
"""So many points without conditions show whether the right side ever has a type."""


@dataclass
class RefutationSearch:
    """Findings of the search: samples that agreed, a witness for the preconditions, and perhaps a counterexample."""

    agreed: int = 0
    tried: int = 0
    vacuous: bool = True
    witness: Point | None = None
    counterexample: Counterexample | None = None
    point: Point | None = None
    largest: float = 0.0
    unsupported: str = ""
    untyped: int = 0


def search(
    rule: Rule, samples: int, seed: int = 0, bits: int = DEFAULT_PRECISION, patience: int = STUBBORN, deadline: float = math.inf
) -> RefutationSearch:
    """Tries to break the rule; a `<=>` rule is read in both directions. Raises TimeoutError beyond the deadline."""
    sampler = Sampler(rule, random.Random(f"{rule.name}/{seed}"), any_rank=True)
    result = RefutationSearch()
    untyped: tuple[Point, bool] | None = None
    fitting: list[Point] = []
    with balls.precision(bits):
        for round_ in range(STUBBORN * samples):
            if result.agreed >= samples or (round_ >= patience * samples and result.agreed >= ENOUGH):
                break
            if time.monotonic() > deadline:
                raise TimeoutError
            rare = result.tried >= FIRST and result.agreed < RARE * result.tried
            point = sampler.near(sampler.random.choice(fitting)) if rare and fitting and round_ % 8 > 1 else sampler.point()
            flipped = rule.both_ways and round_ % 2 == 1
            result.tried += 1
            try:
                found = outcome(rule, point, flipped)
            except (Unsupported, NoFormula) as error:
                result.unsupported = str(error)
                return result
            if found is None or not found.defined:
                continue
            if not found.typed:
                result.untyped += 1
                untyped = untyped or (point, flipped)
                continue
            result.vacuous = False
            if result.witness is None:
                result.witness = point
            if found.index is not None:
                if rule.within is not None:
                    gap = difference(found)
                    result.largest = max(result.largest, gap)
                    if gap <= float(rule.within):
                        result.agreed += 1
                        continue
                point = minimised(rule, point, flipped)
                again = outcome(rule, point, flipped)
                assert again is not None and again.index is not None
                result.point = point
                result.counterexample = described(point, again, flipped)
                return result
            result.agreed += found.agreed
            if found.agreed:
                fitting = [*fitting[-MAX_FITTING:], point]
        if untyped is not None and not result.agreed and result.untyped >= ENOUGH and not _ever_typed(rule, sampler):
            # wherever the left side has a type, the right side has none, whatever the conditions
            point, flipped = untyped
            found = outcome(rule, point, flipped)
            assert found is not None
            result.point, result.counterexample = point, described(point, found, flipped)
    return result


def _ever_typed(rule: Rule, sampler: Sampler) -> bool:
    """Return whether the right side has a type anywhere: conditions that leave no such shape do not make a rule wrong."""
    free = replace(rule, where=AllOf(tuple(part for part in conjuncts(rule.where) if isinstance(part, Property) and part.name == VALUES)))
    own = Sampler(free, sampler.random, any_rank=True)
    for _ in range(UNCONDITIONED if free.where != rule.where else 0):
        found = outcome(free, own.point())
        if found is not None and found.defined and found.typed:
            return True
    return False


def described(point: Point, found: PointOutcome, flipped: bool) -> Counterexample:
    assert found.index is not None
    del flipped
    x = found.left.values[found.index]
    left, right = show(x), "no type"
    if found.typed:
        y = found.right.values[found.index]
        digits = next((d for d in range(FEW_DIGITS, MOST_DIGITS) if show(x, d) != show(y, d)), MOST_DIGITS)
        left, right = show(x, digits), show(y, digits)
    return Counterexample(tensors_of(point), tuple(sorted(point.axes.items())), tuple(found.index), left, right)


def tensors_of(point: Point) -> tuple[tuple[str, Tensor], ...]:
    return tuple(
        (name, Tensor(tuple(a.shape), tuple(_text(v) for v in a.reshape(-1).tolist()))) for name, a in sorted(point.inputs.items())
    )


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


FEW_DIGITS, MOST_DIGITS = 8, 60
"""So many digits of a number are shown, and so many where fewer do not show that two differ."""


def show(x: Any, digits: int = FEW_DIGITS) -> str:
    """An element in a few digits."""
    if isinstance(x, balls.Mark | bool):
        return str(x.value if isinstance(x, balls.Mark) else x).lower()
    if isinstance(x, fmpq):
        return str(x) if len(str(x)) < 16 else str(arb(x).str(digits, radius=False))
    return "0" if x.contains(0) and abs(x) < arb(10) ** -30 else str(x.str(digits, radius=False))


def replayed(rule: Rule, example: Counterexample) -> bool:
    """Return whether the counterexample as written breaks the rule (in either direction of a `<=>` rule)."""

    def number(text: str) -> Any:
        return text == "true" if text in ("true", "false") else F(text)

    inputs = {}
    for name, tensor in example.inputs:
        array = np.empty(tensor.shape, dtype=object)
        array[...] = np.array([number(v) for v in tensor.values], dtype=object).reshape(tensor.shape)
        inputs[name] = array
    point = Point(inputs, {name: tuple(axes) for name, axes in example.axes})
    with balls.precision(2 * DEFAULT_PRECISION):
        found = [
            outcome(explicit_roundings(choice), point, flipped)
            for choice in ([rule] if EXPLICIT in conjuncts(rule.where) else variants(rule))
            for flipped in ((False, True) if rule.both_ways else (False,))
        ]
    return any(f is not None and f.index is not None for f in found)


__all__ = ["Point", "RefutationSearch", "Sampler", "replace", "replayed", "search"]
