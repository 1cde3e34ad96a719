"""The bits that a model's sites need and may have, as difference constraints; and the cycle that refutes them.

Three systems: bits of significand, bits of range (the least e with all numbers below 2^e), and bits of range below 1 (the e of the smallest
number, 2^-e). Each follows from the constraints on sites and pairs, so that a cycle refutes these. Formats are more than their bits: where
there is no cycle, there may still be no format.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import accumulate

from hnfc.formats.granular import WITH_SCALES
from hnfc.formats.scaled import is_plain, largest, smallest, stored_format
from hnfc.precision.certificates import GROUND, Cycle
from hnfc.precision.problem import AssignmentProblem
from hnfc.precision.targets import Allowance
from hnfc.precision.values import PrecisionSite
from hnfc.sheaf.difference import Conflict, DifferenceConstraint, at_least, at_most, least_solution, within
from hnfc.sheaf.graph import Node

SIGNIFICAND, RANGE, BELOW = "bits of significand", "bits of range", "bits of range below 1"


def cycle_of(problem: AssignmentProblem, released: frozenset[str] = frozenset()) -> Cycle | None:
    """A cycle that refutes the problem without the released pins, the one that is short of most bits of significand, or of range, or of
    range below 1: of the first of these that has one."""
    for measure, constraints in SYSTEMS.items():
        system = constraints(problem, released)
        found = least_solution(system)
        if isinstance(found, Conflict):
            cycle = _shortened(system, found)
            edges = tuple((_named(d.x), _named(d.y), -d.bound) for d in cycle)
            return Cycle(measure, edges, tuple(d.reason for d in cycle))
    return None


def _shortened(system: Sequence[DifferenceConstraint], found: Conflict) -> list[DifferenceConstraint]:
    """As many bits short with fewer edges: up to the first site that has as little, from the last before it that needs as much."""
    start, *path = found.cycle[:-1]
    caps = {d.x: d for d in sorted(system, key=lambda d: -d.bound) if d.y is None}
    needs: dict[Node, DifferenceConstraint] = {}
    for d in system:
        # of constraints that ask for as much the first is told
        if d.x is None and (d.y not in needs or d.bound < needs[d.y].bound):
            needs[d.y] = d
    values = list(accumulate((-d.bound for d in path), initial=-start.bound))
    nodes = [start.y, *(d.y for d in path)]
    end = next(i for i, node in enumerate(nodes) if node in caps and values[i] - caps[node].bound == found.gap)
    first = max(i for i in range(end + 1) if nodes[i] in needs and -needs[nodes[i]].bound == values[i])
    lower = start if first == 0 else needs[nodes[first]]
    return [lower, *path[first:end], caps[nodes[end]]]


def significand(problem: AssignmentProblem, released: frozenset[str] = frozenset()) -> list[DifferenceConstraint]:
    """p counts bits of significand. A site needs as many as alone keep its rounding within each limit, and has what its formats have."""
    found: list[DifferenceConstraint] = []
    for site in problem.sites.sites:
        found.append(at_least(site.name, 0, f"{where(site)} has some bits"))
        for allowance in problem.allowances:
            if (bits := bits_needed(problem, site, allowance)) is not None:
                found.append(at_least(site.name, bits, _needs(problem, site, allowance, bits)))
        if forms := problem.candidates(site, site.name not in released):
            least, best = min(forms, key=precision), max(forms, key=precision)
            found.append(at_least(site.name, precision(least), _has(problem, site, least, released, "coarsest")))
            found.append(at_most(site.name, precision(best), _has(problem, site, best, released, "best")))
    return [*found, *_equalities(problem)]


def exponents(problem: AssignmentProblem, released: frozenset[str] = frozenset()) -> list[DifferenceConstraint]:
    """p counts bits of range. A site needs as many as hold the largest of its elements, and has what its formats have."""
    found: list[DifferenceConstraint] = []
    for site in problem.sites.sites:
        found.append(_floor(site, extent, "range"))
        pin = problem.pins.get(site.name) if site.name not in released else None
        if (bits := range_needed(problem, site, pin is not None)) is not None:
            found.append(at_least(site.name, bits, f"{where(site)} reaches {site.magnitude:.4g}, and needs {bits} bits of range"))
        if forms := [problem.pinned(site, pin[0])] if pin else problem.allowed(site):
            least, best = min(forms, key=largest), max(forms, key=largest)
            found.append(at_least(site.name, extent(least), _ends(site, least, pin, "narrowest")))
            found.append(at_most(site.name, extent(best), _ends(site, best, pin, "widest")))
    return [*found, *_equalities(problem)]


def depths(problem: AssignmentProblem, released: frozenset[str] = frozenset()) -> list[DifferenceConstraint]:
    """p counts bits of range below 1. A site of which no element may become 0 needs as many as keep the least of them from it."""
    found: list[DifferenceConstraint] = []
    for site in problem.sites.sites:
        found.append(_floor(site, depth, "range below 1"))
        pin = problem.pins.get(site.name) if site.name not in released else None
        if (bits := depth_needed(problem, site)) is not None:
            small = f"{site.least:.3g}" if site.least else "no element"
            why = f"since {small} may {'not ' if site.least else ''}become 0"
            found.append(at_least(site.name, bits, f"{where(site)} {minds(site)}, and needs {bits} {BELOW}, {why}"))
        if forms := [pin[0]] if pin else problem.allowed(site):
            least, best = max(forms, key=smallest), min(forms, key=smallest)
            found.append(at_least(site.name, depth(least), _begins(site, least, pin, "coarsest near 0")))
            found.append(at_most(site.name, depth(best), _begins(site, best, pin, "finest near 0")))
    return [*found, *_equalities(problem)]


SYSTEMS: dict[str, Callable[[AssignmentProblem, frozenset[str]], list[DifferenceConstraint]]] = {
    SIGNIFICAND: significand, RANGE: exponents, BELOW: depths,
}  # fmt: skip


def _floor(site: PrecisionSite, bits: Callable[[str], int], what: str) -> DifferenceConstraint:
    """Lower bound of a site even where it has no format: the solver needs every node bounded."""
    return at_least(site.name, min(0, *map(bits, site.moved)), f"{where(site)} has some {what}")


def bits_needed(problem: AssignmentProblem, site: PrecisionSite, allowance: Allowance) -> int | None:
    """The least bits of significand with which a rounding of this site alone keeps a limit: as estimated, but more than those of every
    format that was tried and is too coarse, and no more than those of one that is not. None where nothing is too coarse."""
    limit = problem.limit(allowance)
    moved = {form: by for form, by in site.effect(allowance.output).moved.items() if math.isfinite(by)}
    good = [precision(form) for form, by in moved.items() if by <= limit]
    bad = [precision(form) for form, by in moved.items() if by > limit]
    return _between(site.bits_for(limit, allowance.output), good, bad)


def range_needed(problem: AssignmentProblem, site: PrecisionSite, is_pinned: bool) -> int | None:
    """The same for range; what has its format from a pin needs no headroom."""
    room: Callable[[str], float] = (lambda _: 1.0) if is_pinned else problem.room
    good: list[int] = []
    bad: list[int] = []
    for form in filter(problem.is_wanted, site.moved):
        beyond = site.size_in(form) * room(form) > largest(form)
        overflows = beyond or (not math.isfinite(site.moved[form]) and form not in site.vanishing)
        (bad if overflows else good).append(extent(form))
    return _between(math.frexp(site.magnitude * (1.0 if is_pinned else problem.requirements.headroom))[1], good, bad)


def depth_needed(problem: AssignmentProblem, site: PrecisionSite) -> int | None:
    """The same for range below 1: the least e with which 2^-e is what the least element is rounded to, rather than to 0."""
    good: list[int] = []
    bad: list[int] = []
    for form in site.moved:
        if problem.vanishes(site, form):
            # in a block it depends on the largest element what becomes 0
            bad += [] if isinstance(stored_format(form), WITH_SCALES) else [depth(form)]
        elif form not in site.vanishing or math.isfinite(site.moved[form]):
            good.append(depth(form))
    mantissa, exponent = math.frexp(site.least)
    return _between(-exponent + (mantissa == 0.5), good, bad)


def _between(estimate: int, good: Collection[int], bad: Collection[int]) -> int | None:
    enough = min(good, default=10**6)
    too_few = max((bits for bits in bad if bits < enough), default=None)
    return None if too_few is None else min(max(estimate, too_few + 1), enough)


def precision(form: str) -> int:
    return stored_format(form).precision


def extent(form: str) -> int:
    """The least e with all numbers of the format below 2^e."""
    return math.frexp(largest(form))[1]


def depth(form: str) -> int:
    """The e of the smallest number above 0, which is 2^-e."""
    return 1 - math.frexp(smallest(form))[1]


def where(site: PrecisionSite) -> str:
    place = site.place if site.place != site.name else ""
    backward = "in the backward pass" if site.backward else ""
    details = ", ".join(filter(None, (place, backward)))
    return f"{site.name} ({details})" if details else site.name


def _needs(problem: AssignmentProblem, site: PrecisionSite, allowance: Allowance, bits: int) -> str:
    moves = f"it reaches {site.magnitude:.4g} and moves {allowance.name} by {site.effect(allowance.output).sensitivity:.3g}·u"
    return f"{where(site)} needs {bits} bits of significand, since {moves}, which may be off by {problem.limit(allowance):.3g}"


def _ends(site: PrecisionSite, form: str, pin: tuple[str, str] | None, which: str) -> str:
    ends = f"{form}, which {pin[1]} asks for," if pin else f"the {which} format allowed, {form},"
    return f"{where(site)} has {extent(form)} bits of range: {ends} ends at {largest(form):.5g}"


def _begins(site: PrecisionSite, form: str, pin: tuple[str, str] | None, which: str) -> str:
    begins = f"{form}, which {pin[1]} asks for," if pin else f"the format allowed that is {which}, {form},"
    return f"{where(site)} has {depth(form)} {BELOW}: {begins} begins at {smallest(form):.3g}"


def minds(site: PrecisionSite) -> str:
    """Reason why a small element matters."""
    if any(form in site.vanishing and math.isfinite(by) for form, by in site.moved.items()):
        return "may be why outputs are not finite"
    return "is a constant" if site.operation in ("constant", "weight") else "is a divisor, or under a logarithm or a root"


def _has(problem: AssignmentProblem, site: PrecisionSite, form: str, released: frozenset[str], which: str) -> str:
    bits = precision(form)
    pin = problem.pins.get(site.name) if site.name not in released else None
    if pin:
        return f"{where(site)} has {bits} bits of significand, since {pin[1]} asks for {pin[0]}"
    finer = [form for form in problem.allowed(site) if precision(form) > bits and is_plain(form)]
    small = bool(finer) and all(problem.vanishes(site, form) for form in finer)
    why = "it has elements that become 0 in others" if small else f"it reaches {site.magnitude:.4g}"
    unfit = f" that hold it, since {why}" if finer else ""
    return f"{where(site)} has {bits} bits of significand in the {which} of the formats allowed{unfit}: {form}"


def _equalities(problem: AssignmentProblem) -> Iterator[DifferenceConstraint]:
    for u, v in problem.pairs:
        yield from within(u, v, 0, f"no cast is allowed between {u} and {v}")


def _named(node: object) -> str:
    return GROUND if node is None else str(node)
