"""An assignment is run: where errors of values do not add up as independent ones, the target is made stricter, or it is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from hnfc.precision.assignment import Assignment, Refusal, Relaxation, Wishes, assign
from hnfc.precision.sites import Sites

_ROUNDS = 6
_TOLERANCE = 1.1
"""A measured error so little above the target is taken for it: an estimate is no sharper."""


def assign_what_holds(sites: Sites, wishes: Wishes, measure: Callable[[Assignment], float]) -> Assignment | Refusal:
    """The cheapest formats found whose error on the samples, as `measure` gives it (absolute, infinite for NaN), is within the target.

    A target that is missed is made stricter by as much; where NaN comes out, no number may vanish any more.
    """
    outcome = assign(sites, wishes)
    limit = wishes.limit(sites)
    margin, strict, worst = 1.0, False, 0.0
    for attempt in range(_ROUNDS):
        if isinstance(outcome, Refusal):
            return replace(outcome, reasons=(_missed(worst, limit), *outcome.reasons)) if worst else outcome
        measured = measure(outcome)
        if measured <= limit * _TOLERANCE:
            return replace(outcome, measured=measured)
        worst = measured
        if attempt + 1 == _ROUNDS or (math.isinf(measured) and strict):
            break
        if math.isinf(measured):
            strict = True
        else:
            margin *= max(0.8 * limit / measured, 1e-3)
        outcome = assign(sites, wishes, margin, strict)
    scale = sites.rms if wishes.relative and sites.rms else 1.0
    changes = [Relaxation(f"raise the target to {worst / scale:.2g}", "this was measured")] if math.isfinite(worst) else []
    changes.append(Relaxation("allow wider formats", "values that the estimates leave narrow are then wide"))
    return Refusal((_missed(worst, limit),), (), {}, tuple(changes))


def _missed(measured: float, limit: float) -> str:
    what = f"off by {measured:.3g}" if math.isfinite(measured) else "not finite"
    return f"run on the samples in the formats that the estimates allow, the outputs are {what}, and {limit:.3g} is allowed"
