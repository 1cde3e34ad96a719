"""The cheapest format for every site so that the estimated error of the outputs stays below a target; or why there is none.

Rounding errors of different values are taken to be independent, so that their squares add up to the square of the output's error: a
budget over all nodes. Pins, formats that overflow and casts that are not allowed are constraints on one node or two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from hnfc.dsl.rulebook import shipped_targets
from hnfc.dsl.targets import Target
from hnfc.errors import UsageError
from hnfc.precision.formats import format_named
from hnfc.precision.knapsack import cheapest_choice
from hnfc.precision.policy import Policy
from hnfc.precision.scaled import largest, split, stored_format
from hnfc.precision.sites import Site, Sites
from hnfc.sheaf.graph import Graph, Node
from hnfc.sheaf.ilp import Budget, cheapest
from hnfc.sheaf.system import System, Value

_OWN = "fp32"
_EXACT = 2000
"""Up to so many groups of sites HiGHS proves the optimum; beyond, the knapsack's bound says how close it is."""


@dataclass(frozen=True)
class Wishes:
    """What an assignment must meet. target: of the error of the outputs, relative to their root mean square, or absolute.

    pins: formats by patterns of names of sites, modules or operations, as a shell matches them. uncast: pairs of such patterns between
    whose sites no cast is allowed where one feeds the other. memory: bytes at most, of all sites together.
    """

    target: float = 1e-3
    relative: bool = True
    formats: tuple[str, ...] = ("bf16", "fp16", "fp32")
    pins: Mapping[str, str] = field(default_factory=dict)
    uncast: Sequence[tuple[str, str]] = ()
    memory: float = math.inf
    policy: Policy | None = None
    headroom: float = 2.0
    """By how much a value may become larger than on the samples before it overflows."""
    scaling: bool = True
    """Whether a value that overflows may be stored with a scale that is a power of two."""
    target_machine: Target | None = None
    """Formats that it has no rate for are not chosen."""
    least: str = "bytes"
    """What is minimized: `bytes`, or `time` on the machine, as `time_of` models it."""

    def limit(self, sites: Sites) -> float:
        """The largest absolute error that is allowed."""
        return self.target * sites.rms if self.relative else self.target


@dataclass(frozen=True)
class Assignment:
    """A format for every site by its name. error: the estimated root mean square error of the outputs."""

    formats: Mapping[str, str]
    error: float
    limit: float
    size: float
    """Bytes of all sites."""
    bound: float
    """No assignment takes fewer bytes (seconds, where time is minimized); what this one takes for models of up to 2,000 sites, and a
    little less for larger ones."""
    seconds: float | None = None
    """The modelled time on the machine, where one is named."""
    measured: float | None = None
    """What the error on the samples is when the model runs in these formats."""
    certified: float | None = None
    """What the error is proved not to be above, where a proof was asked for."""


@dataclass(frozen=True)
class Solution:
    """Formats, the bytes of all sites, and a number of bytes or seconds that no other assignment is below."""

    formats: Mapping[str, str]
    size: float
    bound: float
    seconds: float | None = None


@dataclass(frozen=True)
class Relaxation:
    """One change that makes the wishes possible, and what it costs."""

    change: str
    cost: str


@dataclass(frozen=True)
class Refusal:
    """Why no assignment meets the wishes, in the reader's words: the worst sites, at most five, and the wishes that they run into.

    Of pins only those are named without which there would be an assignment. nodes: the sites that the reasons speak of.
    needed: for a site the bits of significand that it needs, and what its format has.
    """

    reasons: tuple[str, ...]
    nodes: tuple[str, ...]
    needed: Mapping[str, tuple[int, int]]
    relaxations: tuple[Relaxation, ...]


def machine_of(name: str | None, least: str) -> tuple[Target | None, str]:
    """The shipped machine of that name, and what is minimized. Raises UsageError where there is none, or time has nothing to run on."""
    machine = shipped_targets().target(name) if name is not None else None
    if name is not None and machine is None:
        raise UsageError(f"there is no target `{name}`; there are {', '.join(shipped_targets().names())}")
    if least not in ("bytes", "time"):
        raise UsageError(f"what is minimized is bytes or time, not `{least}`")
    if least == "time" and machine is None:
        raise UsageError("time is modelled on a target, such as h100: name one")
    return machine, least


def bytes_of(site: Site, form: str) -> float:
    return site.elements * stored_format(form).stored_bits / 8


def time_of(site: Site, form: str, machine: Target) -> float:
    """Seconds on the machine: what the site's own operations take in the format, and the bytes that are written once and read by each
    user, one after the other. What overlaps takes less: an estimate to compare formats by, from above but for casts."""
    stored = stored_format(form)
    rate = machine.rate(stored.dtype or form, matrix=site.matrix)
    return site.work / rate + bytes_of(site, form) * (1 + site.reads) / machine.bandwidth


def assign(sites: Sites, wishes: Wishes, margin: float = 1.0, strict: bool = False) -> Assignment | Refusal:
    """The assignment of fewest bytes, or of least time, proved or with a bound of how few there could be; or the reasons why there is none.

    margin: the part of the target that estimates may use up. strict: whether no value that is not 0 may become 0.
    Raises UsageError for a pin that names nothing, and HnfError for an unknown format.
    """
    for form in (*wishes.formats, *wishes.pins.values()):
        format_named(form)
    problem = _Problem(sites, wishes, margin, strict)
    found = problem.solve()
    return problem.refusal() if found is None else problem.assignment(found)


class _Problem:
    def __init__(self, sites: Sites, wishes: Wishes, margin: float = 1.0, strict: bool = False) -> None:
        self.sites, self.wishes, self.limit, self.strict = sites, wishes, wishes.limit(sites) * margin, strict
        self.pins = {site.name: found for site in sites.sites if (found := _pinned(site, wishes)) is not None}
        for pattern in wishes.pins:
            if not any(_matches(site, pattern) for site in sites.sites):
                raise UsageError(f"the pin `{pattern}` matches no site; hnfc precision lists them with --all")
        by_name = {site.name: site for site in sites.sites}
        self.pairs = [(u, v) for u, v in sites.edges if wishes.uncast and _uncast(by_name[u], by_name[v], wishes.uncast)]
        self.groups = _groups(sites, self.pairs)

    def candidates(self, site: Site, pinned: bool = True) -> list[str]:
        """The formats that a site may have: its pin, or those in which it does not overflow."""
        pin = self.pins.get(site.name) if pinned else None
        if pin:
            return [pin[0]]
        scaled = [form for form in site.moved if split(form)[1] and split(form)[0] in self.wishes.formats] if self.wishes.scaling else []
        return [form for form in (*self.wishes.formats, *scaled) if self.fits(site, form) and self._runs(form)]

    def _runs(self, form: str) -> bool:
        machine = self.wishes.target_machine
        return machine is None or machine.runs(stored_format(form).dtype or form)

    def fits(self, site: Site, form: str) -> bool:
        if self.strict and form in site.vanishing:
            return False
        # what fits the model's own format needs no room there: masks are often its lowest number
        room = self.wishes.headroom if largest(form) < largest(_OWN) else 1.0
        return math.isfinite(site.moved[form]) and site.magnitude * room <= largest(form)

    def affordable(self, site: Site, pinned: bool) -> list[str]:
        """Those candidates that do not use up the budget by themselves."""
        return [form for form in self.candidates(site, pinned) if self.square(site, form) <= self.limit**2]

    def square(self, site: Site, form: str) -> float:
        moved = site.moved[form]
        return moved * moved

    def solve(self, released: frozenset[str] = frozenset(), cast: bool = False) -> Solution | None:
        """The cheapest formats; `released` pins do not count, and with `cast` every cast is allowed."""
        groups = [[site] for site in self.sites.sites] if cast else self.groups
        forms = [self._common(group, released) for group in groups]
        if not all(forms):
            return None
        scale = self.limit * self.limit or math.ulp(0.0)
        choices = list(zip(groups, forms, strict=True))
        size = [[math.fsum(bytes_of(site, form) for site in group) for form in found] for group, found in choices]
        square = [[math.fsum(self.square(site, form) for site in group) / scale for form in found] for group, found in choices]
        seconds = self._seconds(choices)
        price, unit = (size, 1.0) if self.wishes.least == "bytes" else (seconds, 1e-12)
        # of formats that cost as much the more accurate one: all errors together weigh a thousandth of a byte, or of a picosecond
        cost = [[b / unit + e / 1000 for b, e in zip(*row, strict=True)] for row in zip(price, square, strict=True)]
        if math.fsum(map(min, square)) > 1:
            return None
        memory = size if self.wishes.least != "bytes" and self.wishes.memory < math.inf else None
        if len(groups) <= _EXACT or memory is not None:
            places = self._exactly(cost, square, memory)
            bound = math.nan
        else:
            found_choice = cheapest_choice(cost, square, 1.0)
            places, bound = (None, math.nan) if found_choice is None else (found_choice.places, found_choice.bound)
            if found_choice is not None and found_choice.bound <= self.wishes.memory < found_choice.cost:
                # too close to tell without the optimum
                places, bound = self._exactly(cost, square), math.nan
        if places is None:
            return None
        chosen = {site.name: forms[i][places[i]] for i, group in enumerate(groups) for site in group}
        total, spent = (math.fsum(row[place] for row, place in zip(rows, places, strict=True)) for rows in (size, seconds))
        least = (total if self.wishes.least == "bytes" else spent) if math.isnan(bound) else bound * unit
        # where bytes are minimized, a budget of them holds for the cheapest assignment or for none
        return Solution(chosen, total, least, spent if self.wishes.target_machine else None) if total <= self.wishes.memory else None

    def _seconds(self, choices: Sequence[tuple[Sequence[Site], Sequence[str]]]) -> list[list[float]]:
        machine = self.wishes.target_machine
        if machine is None:
            return [[0.0] * len(forms) for _, forms in choices]
        return [[math.fsum(time_of(site, form, machine) for site in group) for form in forms] for group, forms in choices]

    def _common(self, group: Sequence[Site], released: frozenset[str]) -> list[str]:
        """The formats that all sites of a group can have."""
        first, *others = (self.affordable(site, site.name not in released) for site in group)
        return [form for form in first if all(form in other for other in others)]

    def _exactly(self, cost: list[list[float]], square: list[list[float]], size: list[list[float]] | None = None) -> tuple[int, ...] | None:
        domains: dict[Node, Sequence[Value]] = {i: tuple(range(len(row))) for i, row in enumerate(cost)}
        budget = Budget("the error of the outputs", {i: dict(enumerate(row)) for i, row in enumerate(square)}, 1.0)
        memory = [] if size is None else [Budget("memory", {i: dict(enumerate(row)) for i, row in enumerate(size)}, self.wishes.memory)]
        found = cheapest(System(domains), {i: dict(enumerate(row)) for i, row in enumerate(cost)}, (budget, *memory))
        return None if found is None else tuple(int(str(found[i])) for i in range(len(cost)))

    def assignment(self, found: Solution) -> Assignment:
        error = math.sqrt(math.fsum(self.square(site, found.formats[site.name]) for site in self.sites.sites))
        return Assignment(found.formats, error, self.limit, found.size, found.bound, found.seconds)

    # why not

    def refusal(self) -> Refusal:
        """By deletion: pins are released one after the other as long as there is no assignment without them."""
        groups: dict[str, list[str]] = {}
        for name, (_, pattern) in self.pins.items():
            groups.setdefault(pattern, []).append(name)
        released: frozenset[str] = frozenset()
        kept: list[str] = []
        for pattern, names in groups.items():
            without = released | frozenset(names)
            if self.solve(without) is None:
                released = without
            else:
                kept.append(pattern)
        casts_matter = bool(self.pairs) and self.solve(released, cast=True) is not None
        memory_matters = self.wishes.memory < math.inf and _Problem(self.sites, _without_memory(self.wishes)).solve(released) is not None
        culprits = self._culprits(released)
        reasons = [self._reason(site) for site in culprits]
        best = self._least_error(released)
        reasons.append(
            f"the outputs may be off by {self.limit:.3g}, and with the best formats allowed they are off by {best:.3g}"
            if best > self.limit else f"the outputs may be off by {self.limit:.3g}"
        )  # fmt: skip
        if casts_matter:
            reasons += [f"no cast is allowed between {u} and {v}" for u, v in self.pairs if {u, v} & {s.name for s in culprits}][:3]
        if memory_matters:
            reasons.append(f"all values together may take {self.wishes.memory:.4g} bytes")
        return Refusal(
            tuple(reasons), tuple(site.name for site in culprits),
            {site.name: (site.bits_for(self._share()), self._best(site)) for site in culprits},
            tuple(self._relaxations(kept, groups, released, best, casts_matter, memory_matters)),
        )  # fmt: skip

    def _share(self) -> float:
        """What a site may move the outputs by if all have equal parts of the budget."""
        return self.limit / math.sqrt(max(len(self.sites.sites), 1))

    def _best(self, site: Site) -> int:
        return max((stored_format(form).precision for form in self.candidates(site)), default=0)

    def _culprits(self, released: frozenset[str]) -> list[Site]:
        """The sites that use up the budget although they have the best format that they may have, the worst first, at most five."""
        by_error = sorted(self.sites.sites, key=lambda site: -self._least(site, released))
        found: list[Site] = []
        rest = math.fsum(self._least(site, released) for site in by_error)
        for site in by_error[:5]:
            square = self._least(site, released)
            if square == 0 or (rest <= self.limit**2 and found):
                break
            found.append(site)
            rest = rest - square if math.isfinite(square) else math.fsum(self._least(s, released) for s in by_error[len(found) :])
        return found

    def _least(self, site: Site, released: frozenset[str]) -> float:
        return min((self.square(site, form) for form in self.candidates(site, site.name not in released)), default=math.inf)

    def _least_error(self, released: frozenset[str]) -> float:
        return math.sqrt(math.fsum(self._least(site, released) for site in self.sites.sites))

    def _reason(self, site: Site) -> str:
        pin = self.pins.get(site.name)
        where = f"{site.name} ({site.place})" if site.place not in (site.name, "") else site.name
        if pin and _vanishes(site, pin[0]):
            return f"{where} {_too_small(site, pin[0])}, which {pin[1]} asks for"
        if pin and not math.isfinite(site.moved[pin[0]]):
            return (
                f"{where} reaches {site.magnitude:.4g}, and {pin[0]}, which {pin[1]} asks for, ends at {format_named(pin[0]).largest:.5g}"
            )
        if not self.candidates(site):
            widest = max(self.wishes.formats, key=lambda form: format_named(form).largest)
            if _vanishes(site, widest):
                return f"{where} {_too_small(site, widest)}, the widest format allowed"
            return (
                f"{where} reaches {site.magnitude:.4g}, and the widest format allowed, {widest}, ends at {format_named(widest).largest:.5g}"
            )
        needs, has = site.bits_for(self._share()), self._best(site)
        held = f"{pin[1]} gives it {pin[0]}, which has {has}" if pin else f"the best format allowed has {has}"
        short = f": {needs - has} bits short" if needs > has else ""
        return f"{where} needs {needs} bits of significand, since it moves the outputs by {site.sensitivity:.3g}·u; {held}{short}"

    def _relaxations(
        self, kept: list[str], groups: Mapping[str, list[str]], released: frozenset[str], best: float, casts: bool, memory: bool
    ) -> Iterable[Relaxation]:
        for pattern in kept:
            found = self.solve(released | frozenset(groups[pattern]))
            if found is not None:
                wider = sorted({found.formats[name] for name in groups[pattern]})
                extra = found.size - math.fsum(
                    bytes_of(s, self.pins[s.name][0] if s.name in self.pins else found.formats[s.name]) for s in self.sites.sites
                )
                yield Relaxation(f"release {pattern}", f"its sites take {', '.join(wider)}; {extra:+,.0f} bytes")
        if casts:
            yield Relaxation("allow the casts", "each costs a pass over its value")
        if memory:
            yield Relaxation("allow more memory", f"{self._needed_memory(released):,.0f} bytes are enough")
        if math.isfinite(best) and best > self.limit:
            scale = self.sites.rms if self.wishes.relative and self.sites.rms else 1.0
            yield Relaxation(f"raise the target to {best / scale * 1.01:.2g}", "the outputs are off by as much")
        wider_formats = [f for f in ("fp32", "fp64") if f not in self.wishes.formats and f in self.sites.sites[0].moved]
        for form in wider_formats:
            yield Relaxation(f"allow {form}", "for the sites that need it")

    def _needed_memory(self, released: frozenset[str]) -> float:
        free = _Problem(self.sites, _without_memory(self.wishes))
        found = free.solve(released)
        return math.inf if found is None else found.size


def _vanishes(site: Site, form: str) -> bool:
    """Whether what rules the format out is that it is too coarse near 0, and not that it ends too early."""
    return form in site.vanishing and not math.isfinite(site.moved[form]) and site.magnitude <= format_named(form).largest


def _too_small(site: Site, form: str) -> str:
    what = "is a constant" if site.operation in ("constant", "weight") else "is a divisor, or under a logarithm or a root"
    return f"{what}, and has elements that are not 0 and become 0 in {form}"


def _without_memory(wishes: Wishes) -> Wishes:
    return replace(wishes, memory=math.inf)


def _matches(site: Site, pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in (site.name, site.module, site.operation))


def _pinned(site: Site, wishes: Wishes) -> tuple[str, str] | None:
    """The format that a pin or the policy asks for, and which of them: the first pin that matches, before the policy."""
    for pattern, form in wishes.pins.items():
        if _matches(site, pattern):
            return form, f"the pin `{pattern}`"
    if wishes.policy is not None:
        wanted = site.role.to_dtype(wishes.policy)
        name = next((known for known in site.moved if not split(known)[1] and format_named(known) == wanted), str(wanted))
        return name, f"the policy `{wishes.policy.part(site.role)}`"
    return None


def _uncast(first: Site, second: Site, pairs: Sequence[tuple[str, str]]) -> bool:
    return any((_matches(first, a) and _matches(second, b)) or (_matches(first, b) and _matches(second, a)) for a, b in pairs)


def _groups(sites: Sites, pairs: Sequence[tuple[str, str]]) -> list[list[Site]]:
    """The sites that must have one format, together: connected by pairs between which there is no cast."""
    joined = Graph(tuple(site.name for site in sites.sites), tuple((u, v) for u, v in pairs if u != v))
    by_name = {site.name: site for site in sites.sites}
    return [[by_name[str(name)] for name in component] for component in joined.components()]
