"""Report on a model, in words for the terminal and as JSON."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hnfc.dsl import core
from hnfc.dsl.description import rule_line
from hnfc.dsl.soundness import Status, Verdict
from hnfc.pipeline.compiled import Applied, Compiled
from hnfc.pipeline.request import FOUND, RESCALED, WIDE
from hnfc.rewrite.diagnosis import Nearly
from hnfc.rewrite.greedy import NO_GAIN
from hnfc.rewrite.record import NearMiss
from hnfc.validation.measurement import TOLERANCE, Error

_MAX_PLACES = 6
_MAX_NEAR = 8


def text_report(compiled: Compiled, verdicts: Mapping[str, Verdict], withheld: list[str], width: int) -> str:
    """The report: each rule that ran with its places, then totals, what was opaque, what nearly ran."""
    lines: list[str] = []
    verdicts = {**verdicts, **compiled.found.verdicts}
    by_rule: dict[str, list[Applied]] = {}
    for applied in compiled.applied:
        by_rule.setdefault(applied.rule.name, []).append(applied)
    for name, places in by_rule.items():
        lines += [*_rule_section(name, places, verdicts.get(name), compiled.observed, width), ""]
    lines += _totals(compiled, width)
    lines += [f"  {withheld_words(name, verdicts[name])}" for name in withheld]
    lines += _taken_back(compiled, width)
    for note in compiled.notes:
        lines += _wrapped(f"note: {note}", width)
    lines += _near_misses(compiled, width)
    return "\n".join(lines)


def _rule_section(name: str, places: list[Applied], verdict: Verdict | None, observed: bool, width: int) -> list[str]:
    rule = places[0].rule
    count = f"  ({len(places)} places)" if len(places) > 1 else ""
    read = sum(place.backwards for place in places)
    lines = [f"{name}{count}" + (", read from right to left" + (f" at {read} of them" if read < len(places) else "") if read else "")]
    lines += textwrap.wrap(rule.reason, width - 4, initial_indent="    why   ", subsequent_indent="          ")
    if rule.group == FOUND:
        form = rule_line(rule).partition(" where ")[0]
        lines += textwrap.wrap(form, width - 4, initial_indent="    form  ", subsequent_indent="          ")
    lines.append(f"    safe  {proof_words(rule, verdict)}" + given_words(places, observed))
    by_place: dict[str, list[Applied]] = {}
    for applied in places:
        by_place.setdefault(applied.place, []).append(applied)
    shown = list(by_place.items())[:_MAX_PLACES]
    lines += [_place(place, there) for place, there in shown]
    rest = len(places) - sum(len(there) for _, there in shown)
    if rest:
        lines.append(f"          … and {rest} more")
    return lines


def proof_words(rule: core.Rule, verdict: Verdict | None) -> str:
    """Reason why a rule may run."""
    if rule.group == WIDE:
        return "the same operations, and over the reals a number is itself after a cast to a wider type and back (proved)"
    if rule.group == RESCALED:
        return f"each step is an instance of a rule that is proved over the reals: {rule.source}"
    if rule.within is not None:
        return f"an approximation within {float(rule.within):g}"
    return "proved over the reals" if verdict is not None and verdict.proved else "NOT PROVED: it ran because you allowed it"


def given_words(places: Sequence[Applied], observed: bool) -> str:
    """Condition of a rule that was shown where it ran, as the end of a sentence; empty where there is none."""
    given = next((p.given for p in places if p.given), "")
    return f"; {given} {'on the observed inputs' if observed else 'holds here'}" if given else ""


def withheld_words(name: str, verdict: Verdict) -> str:
    """Reason why a rule did not run at all."""
    if verdict.status is Status.VACUOUS:
        return f"rule {name} did not run: no input meets its conditions and gives its left side a value"
    if verdict.proved:
        return f"rule {name} did not run: nothing chooses values for its parameters here (PrecisionOptimizer does where it can)"
    return f"rule {name} did not run: it is not proved (`hnfc check` says why; --allow-unproved {name} lets it run)"


def _place(place: str, there: list[Applied]) -> str:
    """One line for a place in the user's source, which a loop or a module may bring into the model several times."""
    times = f" ×{len(there)}" if len(there) > 1 else ""
    before, after = worst_of([applied.before for applied in there]), worst_of([applied.after for applied in there])
    return f"    at    {place}{times}" + (f"   error {change_words(before, after)}" if before is not None else "")


def worst_of(errors: Sequence[Error | None]) -> Error | None:
    """The largest error of several places."""
    return max((error for error in errors if error is not None), key=lambda error: (error.not_finite, error.relative), default=None)


def change_words(before: Error | None, after: Error | None) -> str:
    """An error before and after, as `before → after`."""
    return f"{before} → {after if after is not None else 'part of a later rewrite'}"


_REFERENCES = {"exact": "the values over the reals", "float64": "float64 arithmetic", "none": "nothing (too large to run)"}


def _totals(compiled: Compiled, width: int) -> list[str]:
    count = len(compiled.applied)
    lines = [f"{count} rewrite{'s' if count != 1 else ''} in {compiled.operations} operations" if count else "nothing to rewrite"]
    if compiled.mended_gradients:
        lines.append(f"  {counted(compiled.mended_gradients, 'gradient')} mended: an infinite derivative no longer meets a factor 0")
    if compiled.samples:
        lines += _wrapped(measured_words(compiled), width)
        lines += [
            f"  {output.name}: error {change_words(output.before, output.after)}"
            for output in compiled.outputs
            if output.before is not None
        ]
        if any(output.before is None for output in compiled.outputs):
            lines.append("  an output could not be computed on the samples: an operation on its way is not known, or has no evaluation")
        if count or compiled.rolled_back:
            lines += _wrapped(f"tolerance of each output: {TOLERANCE}", width)
    elif count:
        lines += _wrapped(f"errors were not measured: {compiled.unmeasured}", width)
    if compiled.opaque:
        names = ", ".join(f"{name} ×{n}" if n > 1 else name for name, n in sorted(compiled.opaque.items()))
        lines += _wrapped(f"not known to hnfc, carried through: {names}", width)
    return lines


def measured_words(compiled: Compiled) -> str:
    """Origin of the outputs' numbers."""
    samples, reference = counted(compiled.samples, "sample"), _REFERENCES[compiled.reference]
    if not compiled.runner:
        return f"measured in hnfc's own evaluation on {samples} against {reference}"
    places = "; errors at places are those of hnfc's own evaluation" if compiled.applied else ""
    return f"measured as {compiled.runner} runs it on {samples} against {reference}{places}"


def _taken_back(compiled: Compiled, width: int) -> list[str]:
    """The rules that were taken back, and why."""
    names = compiled.rolled_back
    lines = []
    if names:
        verb = "was" if len(names) == 1 else "were"
        lines = _wrapped(f"rule{'s' if len(names) > 1 else ''} {', '.join(names)} {verb} taken back", width)
    for reason in dict.fromkeys(compiled.withdrawn):
        lines += textwrap.wrap(reason, width - 2, initial_indent="    ", subsequent_indent="      ")
    return lines


def counted(count: int, noun: str) -> str:
    """A number of things."""
    return f"{count} {noun}{'s' if count != 1 else ''}"


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width - 2, initial_indent="  ", subsequent_indent="    ")


def _near_misses(compiled: Compiled, width: int) -> list[str]:
    misses = Counter((m.rule.name, m.reason) for m in telling(compiled))
    places = {(m.rule.name, m.reason): m.place for m in reversed(compiled.near_misses)}
    if not misses:
        return []
    lines = ["", "fitted, but did not run:"]
    for (name, reason), count in list(misses.items())[:_MAX_NEAR]:
        where = places[name, reason] + (f" and {count - 1} more" if count > 1 else "")
        lines += textwrap.wrap(f"{name} at {where}: {reason}", width - 2, initial_indent="  ", subsequent_indent="      ")
    if len(misses) > _MAX_NEAR:
        lines.append(f"  … and {len(misses) - _MAX_NEAR} more kinds")
    return lines


def telling(compiled: Compiled) -> list[NearMiss]:
    """Near misses that somebody may do something about."""
    fired = {(a.rule.name, a.place) for a in compiled.applied}
    return [m for m in compiled.near_misses if (m.rule.name, m.place) not in fired and not _is_quiet(m.reason)]


_CAUSES = {"where": "its condition", "when": "its use", "types": "shapes or types", "gain": "its cost"}


def why_not(compiled: Compiled, name: str, places: list[Nearly], width: int) -> str:
    """Locations at which a rule ran, fitted without running, or nearly fitted, with counts."""
    counted = compiled.statistics.get(name)
    numbers = "was tried nowhere: no place has its kind of root"
    if counted:
        by = ", ".join(f"{_CAUSES[cause]} {count}×" for cause, count in counted.blocked.items())
        numbers = f"tried {counted.tried}×, fitted {counted.matched}×, ran {counted.applied}×" + (f", kept from it by {by}" if by else "")
        numbers += f"; {1000 * counted.seconds:.2g} ms"
    lines = ["", f"{name}: {numbers}"]
    misses = Counter((m.place, m.reason) for m in compiled.near_misses if m.rule.name == name)
    for (place, reason), count in misses.items():
        times = f" ({count}×)" if count > 1 else ""
        lines += textwrap.wrap(f"{place}{times}: it fits, but {reason}", width - 2, initial_indent="  ", subsequent_indent="      ")
    for near in places:
        text = f"{near.place}: {near.found} of {near.size} parts are there; {near.missing}"
        lines += textwrap.wrap(text, width - 2, initial_indent="  ", subsequent_indent="      ")
    if not misses and not places and not (counted and counted.applied):
        lines.append("  nothing in the model looks like its left side (`hnfc rules` shows it)")
    return "\n".join(lines)


def _is_quiet(reason: str) -> bool:
    """Return whether there is nothing to do about it: the rule is not for this place, its trouble is not there, or it would only cost."""
    looked_for = reason.startswith("not needed") and "no samples" not in reason
    return reason == NO_GAIN or reason.startswith("does not hold") or looked_for


def json_report(compiled: Compiled, verdicts: Mapping[str, Verdict]) -> str:
    return json.dumps(report_data(compiled, verdicts), indent=1, ensure_ascii=False) + "\n"


def report_data(compiled: Compiled, verdicts: Mapping[str, Verdict]) -> dict[str, Any]:
    """Report as JSON values."""
    verdicts = {**verdicts, **compiled.found.verdicts}
    return {
        "operations": compiled.operations,
        "samples": compiled.samples,
        "reference": compiled.reference,
        "measured_on": compiled.runner or "hnfc's own evaluation",
        "tolerance": TOLERANCE,
        "rewrites": [
            {
                "rule": a.rule.name, "group": a.rule.group, "place": a.place, "reason": a.rule.reason,
                "source": a.rule.source, "given": a.given, "read": "right to left" if a.backwards else "left to right",
                "verdict": verdicts[a.rule.name].status.value, "error_before": _error(a.before), "error_after": _error(a.after),
            }
            for a in compiled.applied
        ],
        "outputs": [{"name": o.name, "error_before": _error(o.before), "error_after": _error(o.after)} for o in compiled.outputs],
        "near_misses": [{"rule": m.rule.name, "place": m.place, "reason": m.reason} for m in compiled.near_misses],
        "rules": {name: counted.data() for name, counted in compiled.statistics.items()},
        "opaque": compiled.opaque,
        "taken_back": compiled.rolled_back,
        "taken_back_because": compiled.withdrawn,
        "mended_gradients": compiled.mended_gradients,
        "notes": compiled.notes,
    }  # fmt: skip


def _error(error: Error | None) -> dict[str, Any] | None:
    if error is None:
        return None
    return {"not_finite": error.not_finite, "undefined": error.undefined, "relative": error.relative, "elements": error.elements}
