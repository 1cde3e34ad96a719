"""The verdict on a rule: search and proof together."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeAlias

from hnfc.dialects.facts import Access, NoFormula
from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.types import FORMATS
from hnfc.dsl import core
from hnfc.dsl.core import Apply, Capture, Free, Literal, Rule, SameSize, conjuncts
from hnfc.dsl.rule_depth import of_rule
from hnfc.dsl.soundness import refute
from hnfc.dsl.soundness.axis_classes import Unrelated
from hnfc.dsl.soundness.batches import single_matrices
from hnfc.dsl.soundness.element_types import FLOAT, ElementTypes
from hnfc.dsl.soundness.formats import explicit_roundings
from hnfc.dsl.soundness.integers import variants
from hnfc.dsl.soundness.limits import Work
from hnfc.dsl.soundness.outcome import floating_properties
from hnfc.dsl.soundness.precondition_inference import inferred_precondition
from hnfc.dsl.soundness.proof import Blocked, Proof
from hnfc.dsl.soundness.refute import PATIENCE
from hnfc.dsl.soundness.scan import of_matrices, rule_expressions, scalar_captures, used_axes
from hnfc.dsl.soundness.typing import Mismatch, Typing, element_types
from hnfc.dsl.soundness.uninterpreted import abstracted
from hnfc.dsl.soundness.verdict import DEFAULT_TIMEOUT_MS, Status, Verdict

Done: TypeAlias = "Callable[..., Verdict]"
"""Makes the verdict of its parts and of the time that it took."""

SAMPLES = 160
LONGER = 4
"""Factor on the number of samples where there is no proof."""


def verdict(rule: Rule, timeout_ms: int = DEFAULT_TIMEOUT_MS, samples: int = SAMPLES, *, advise: bool = True) -> Verdict:
    """The verdict for every element type that the rule allows its captures: PROVED where it is proved for each.

    It depends on counts only, and is UNKNOWN beyond the timeout, which is a guard.
    """
    return of_rule(rule, _of_types, rule, timeout_ms, samples, advise)


def _of_types(rule: Rule, timeout_ms: int, samples: int, advise: bool) -> Verdict:
    try:
        choices = variants(rule)
    except NoFormula as error:
        return Verdict(Status.UNKNOWN, str(error))
    except RecursionError:
        return Verdict(Status.UNKNOWN, "the rule is nested too deeply")
    if not choices:
        return Verdict(Status.VACUOUS, "no element type meets the conditions")
    deadline = time.monotonic() + timeout_ms / 1000
    found = [_guarded(choice, deadline, samples, advise=advise) for choice in choices]
    return found[0] if len(found) == 1 else _of_all(found)


def _of_all(found: list[Verdict]) -> Verdict:
    """The verdict on a rule whose element types were judged one by one: the worst of them."""
    order = (Status.REFUTED, Status.UNKNOWN, Status.PROVED, Status.VACUOUS)
    worst = min(found, key=lambda verdict: order.index(verdict.status))
    conditions = tuple(dict.fromkeys(condition for verdict in found for condition in verdict.shape_conditions))
    return replace(worst, shape_conditions=conditions, seconds=round(sum(verdict.seconds for verdict in found), 4))


def _guarded(rule: Rule, deadline: float, samples: int, *, advise: bool) -> Verdict:
    start = time.monotonic()
    try:
        return _verdict(rule, deadline, samples, advise=advise)
    except TimeoutError:
        return Verdict(Status.UNKNOWN, OUT_OF_TIME, seconds=round(time.monotonic() - start, 4))


OUT_OF_TIME = "out of time"


def _verdict(rule: Rule, deadline: float, samples: int, *, advise: bool) -> Verdict:
    """Search and proof together: PROVED only if the proof closes and the search has not broken the rule.

    advise: look for a condition that would make a refuted rule right.
    """
    start = time.monotonic()

    def done(**parts: Any) -> Verdict:
        return Verdict(seconds=round(time.monotonic() - start, 4), **parts)

    formats = typed_formats(rule)
    try:
        concrete = rule = explicit_roundings(rule)
    except NoFormula as error:
        return done(status=Status.UNKNOWN, reason=str(error))
    batched = single_matrices(concrete) is not concrete
    opaque = False
    try:
        found = refute.search(concrete, samples, patience=PATIENCE, deadline=deadline)
        if found.counterexample is None:
            rule, opaque = abstracted(rule)
            if found.unsupported:
                concrete = rule
                found = refute.search(rule, samples, patience=PATIENCE, deadline=deadline)
    except (NoFormula, Unrelated) as error:
        # there will be no proof
        more = refute.search(concrete, LONGER * samples, seed=1, patience=PATIENCE, deadline=deadline)
        if more.counterexample is not None:
            return _refuted(concrete, more, False, done, deadline, advise)
        return done(status=Status.UNKNOWN, reason=str(error), samples=more.agreed)
    except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        return done(status=Status.UNKNOWN, reason=f"a formula cannot be evaluated: {type(error).__name__}: {error}")
    opaque_names = sorted({n.name.split("#")[0] for n in rule_expressions(rule) if isinstance(n, Capture) and "#" in n.name})
    opaque = opaque and concrete == rule
    if found.counterexample is not None:
        return _refuted(concrete, found, opaque, done, deadline, advise)
    proof = Proof(rule, Work(deadline=deadline))
    blocked = ""
    if rule.within is None:
        try:
            proof.run()
        except Blocked as error:
            blocked = str(error)
    else:
        blocked = f"a bound on |left - right| is not proved; measured at most {found.largest:.3g} (stated {float(rule.within):.3g})"
    more = refute.search(concrete, samples * (1 if not blocked else LONGER), seed=1, patience=PATIENCE, deadline=deadline)
    if more.counterexample is not None:
        return _refuted(concrete, more, opaque, done, deadline, advise)
    agreed = found.agreed + more.agreed
    point = found.witness or more.witness
    witness = refute.tensors_of(point) if point else ()
    if point is None and (found.untyped or more.untyped):
        return done(status=Status.UNKNOWN, reason="no shapes were found that meet the conditions and for which both sides have a type")
    if point is None:
        return _without_input(rule, deadline, done)
    if blocked and opaque_names:
        unknown = ", ".join(opaque_names)
        blocked += f" (nothing is known of {unknown}; a change of rank has a meaning once the ranks of all tensors are stated)"
    if blocked and (found.untyped or more.untyped):
        blocked += "; and there are shapes for which only the left side has a type"
    if blocked:
        return done(status=Status.UNKNOWN, reason=blocked, samples=agreed, witness=witness, steps=tuple(proof.steps))
    if not agreed:
        return done(
            status=Status.UNKNOWN, reason="proved, but no sample could confirm it", samples=0, witness=witness, steps=tuple(proof.steps)
        )
    if formats == ():
        return done(status=Status.UNKNOWN, reason="there is no format for which both sides have an element type", samples=agreed)
    reason, steps, conditions = _headline(proof), tuple(proof.steps), shape_conditions(rule)
    if batched:
        steps += ("for single matrices, and every operation acts alike on each matrix of a batch",)
    if reduces(rule):
        if proof.holds_for_empty():
            steps += ("and where an axis that is reduced has no elements",)
        else:
            conditions += (NONEMPTY,)
    if found.untyped or more.untyped:
        conditions += (FITTING,)
    if formats is not None:
        conditions += (f"the element type is {' or '.join(formats)}",)
    return done(status=Status.PROVED, reason=reason, samples=agreed, witness=witness, steps=steps, shape_conditions=conditions)


def _without_input(rule: Rule, deadline: float, done: Done) -> Verdict:
    """The verdict on a rule for which no input was found: VACUOUS where it is proved that there is none.

    That a side has no value is proved where it would equal itself plus one.
    """
    steps: tuple[str, ...] = ()
    conditions = shape_conditions(rule)
    for side in (rule.pattern, rule.replacement) if rule.both_ways else (rule.pattern,):
        proof = Proof(
            replace(rule, pattern=side, replacement=Apply(OPERATIONS["add"], (side, Literal(Fraction(1)))), both_ways=False),
            Work(deadline=deadline),
        )
        try:
            proof.run()
        except Blocked:
            return done(status=Status.UNKNOWN, reason="no input was found that meets the conditions and for which the left side is defined")
        steps += tuple(proof.steps)
        if reduces(rule) and not proof.holds_for_empty():
            conditions = (*shape_conditions(rule), NONEMPTY)
    why = "no input meets the conditions and gives the left side a value"
    return done(status=Status.VACUOUS, reason=why, steps=steps, shape_conditions=conditions)


def _headline(proof: Proof) -> str:
    return proof.steps[0] if len(proof.steps) == 1 else f"by {len(proof.steps)} cases"


def _refuted(rule: Rule, found: refute.RefutationSearch, opaque: bool, done: Done, deadline: float, advise: bool) -> Verdict:
    example = found.counterexample
    assert example is not None
    if not refute.replayed(rule, example):
        return done(status=Status.UNKNOWN, reason="a counterexample did not replay", samples=found.agreed)
    if floating_properties(rule.where):
        why = f"its condition is one on floating point; without it, it fails: {example}"
        return done(status=Status.UNKNOWN, reason=why, samples=found.agreed)
    if opaque:
        why = f"it fails if an operation without a formula may be any function: {example}"
        return done(status=Status.UNKNOWN, reason=why, samples=found.agreed)
    if rule.within is not None:
        why = f"the sides differ by more than {float(rule.within):.3g}"
        return done(status=Status.REFUTED, reason=why, counterexample=example, samples=found.agreed)
    why = {
        "undefined": "the right side is undefined where the left is not",
        "no type": "the right side has no type for shapes for which the left has one",
    }.get(example.right, "its two sides differ")
    advice = ""
    if advise:
        # the rule is wrong in any case
        with contextlib.suppress(TimeoutError):
            advice = inferred_precondition(rule, proves, deadline)
    return done(status=Status.REFUTED, reason=why, counterexample=example, samples=found.agreed, help=advice)


def shape_conditions(rule: Rule) -> tuple[str, ...]:
    """Assumptions of the proof on shapes; the caller that applies the rule checks them.

    A proof about `matmul` is one about matrices: NumPy's promotion of vectors moves axes, which the denotation does not follow.
    """
    nodes = rule_expressions(rule)
    found = []
    if any(isinstance(n, Apply) and n.name in ("matmul", "attention") for n in nodes):
        found.append("every operand of a matmul has rank 2 or more")
    if any(of_matrices(n) and n.name == "transpose" for n in nodes if isinstance(n, Apply)):
        found.append("every operand of a transpose has rank 2 or more")
    if used_axes(rule) and any(isinstance(n, Literal) or (isinstance(n, Capture) and n.const) for n in nodes):
        found.append("no constant has a larger shape than what it is combined with")
    for condition in conjuncts(rule.where):
        match condition:
            case Free(Capture(name), axes):
                found.append(f"free[{', '.join(map(str, axes))}]({name})")
            case SameSize(Capture(x), Capture(y), (core.ALL,)):
                found.append(f"shape({x}) == shape({y})")
            case SameSize(Capture(x), Capture(y), axes):
                at = ", ".join(map(str, axes))
                found.append(f"size[{at}]({x}) == size[{at}]({y})")
    return tuple(found)


def typed_formats(rule: Rule) -> tuple[str, ...] | None:
    """The formats in which each side has an element type; None where those are all that the rule allows its captures."""
    allowed = {form: types for form in FORMATS if (types := element_types(rule, form)) is not None}
    others: dict[str, Any] = {name: kind for name, kind in ElementTypes(rule).captures.items() if kind != FLOAT}
    # a number takes the type of what it stands beside
    others |= dict.fromkeys(scalar_captures(rule))
    fitting = tuple(form for form, types in allowed.items() if _fits(rule, Typing({**types, **others}, form)))
    return None if len(fitting) == len(allowed) else fitting


def _fits(rule: Rule, typing: Typing) -> bool:
    try:
        for side in (rule.pattern, rule.replacement):
            typing.of(side)
    except Mismatch:
        return False
    return True


NONEMPTY = "every axis that is reduced has an element"
FITTING = "the shapes that the right side combines fit"
"""There are shapes for which the left side has a type and the right side has none; whoever applies the rule sees it in the types."""


def reduces(rule: Rule) -> bool:
    return any(
        isinstance(n, Apply) and (n.facts.access is Access.CONTRACTION or "axes" in dict(n.attributes))
        for n in rule_expressions(rule)
    )


def proves(rule: Rule, work: Work) -> bool:
    """Return whether the rule is proved within the work, and no search broke it."""
    found = refute.search(rule, 60, seed=2, patience=PATIENCE, deadline=work.deadline)
    if found.counterexample is not None or not found.agreed:
        return False
    try:
        Proof(rule, work).run()
    except Blocked:
        return False
    return True
