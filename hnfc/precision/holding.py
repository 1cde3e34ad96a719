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


def assign_what_holds(
    sites: Sites, wishes: Wishes, measure: Callable[[Assignment], float], bound: Callable[[Assignment], float] | None = None
) -> Assignment | Refusal:
    """The cheapest formats found whose error on the samples, as `measure` gives it (absolute, infinite for NaN), is within the target.

    A target that is missed is made stricter by as much; where NaN comes out, no number may vanish any more. bound: what the error is
    proved not to be above, which is held to the target as well.
    """
    outcome = assign(sites, wishes)
    limit = wishes.limit(sites)
    margin, strict, worst = 1.0, False, 0.0
    for attempt in range(_ROUNDS):
        if isinstance(outcome, Refusal):
            return replace(outcome, reasons=(_missed(worst, limit), *outcome.reasons)) if worst else outcome
        measured = measure(outcome)
        if measured <= limit * _TOLERANCE:
            proved = None if bound is None else bound(outcome)
            if proved is None or proved <= limit:
                return replace(outcome, measured=measured, certified=proved)
            if math.isinf(proved) or attempt + 1 == _ROUNDS:
                return _unproved(proved, measured, sites, wishes)
            margin *= max(0.8 * limit / proved, 1e-3)
            outcome = assign(sites, wishes, margin, strict)
            if isinstance(outcome, Refusal):
                return _unproved(proved, measured, sites, wishes)
            continue
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


def _unproved(proved: float, measured: float, sites: Sites, wishes: Wishes) -> Refusal:
    scale = sites.rms if wishes.relative and sites.rms else 1.0
    known = f"that the outputs are off by at most {proved:.3g}" if math.isfinite(proved) else "nothing: an operation has no bound here"
    reason = f"in the widest formats that were tried what is proved is {known}, and {wishes.limit(sites):.3g} is allowed"
    changes = [Relaxation(f"raise the target to {proved / scale:.2g}", "this is proved")] if math.isfinite(proved) else []
    changes.append(Relaxation("do without a proof", f"on the samples the outputs were off by {measured:.3g}"))
    return Refusal((reason,), (), {}, tuple(changes))


def _missed(measured: float, limit: float) -> str:
    what = f"off by {measured:.3g}" if math.isfinite(measured) else "not finite"
    return f"run on the samples in the formats that the estimates allow, the outputs are {what}, and {limit:.3g} is allowed"
