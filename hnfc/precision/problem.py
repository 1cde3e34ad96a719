"""The choice of formats as a problem for a solver: what each site may have, what it costs, and the budgets over all sites.

Rounding errors of different values are taken to be independent, so that their squares add up to the square of an output's error: a
budget over all nodes. Pins, formats that overflow and casts that are not allowed are constraints on one node or two.
"""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from hnfc.core.errors import UsageError
from hnfc.formats.scaled import ceiling, is_plain, largest, split
from hnfc.precision.knapsack import Selection, cheapest_choice, cheapest_within
from hnfc.precision.peak import Buffer, LiveRanges, least_peak, within_peak
from hnfc.precision.requirements import (
    Assignment,
    Requirements,
    Solution,
    bytes_of,
    matches,
    parameter_bytes,
    pinned,
    runs_on,
    suits,
    uncast,
)
from hnfc.precision.targets import Allowance, Errors
from hnfc.precision.timing import TimeProgram as TimeProgram
from hnfc.precision.timing import Timing, time_of
from hnfc.precision.values import PrecisionSite, PrecisionSites
from hnfc.sheaf.graph import Graph, Node
from hnfc.sheaf.ilp import BestSection, Budget, cheapest_in_time
from hnfc.sheaf.system import System, Value

_OWN = "fp32"
_EXACT = 2000
"""Up to so many groups of sites HiGHS proves the optimum; beyond, the knapsack's bound says how close it is."""
_EXACT_TIMED = 5000
"""The same of time, for which there is nothing as good beyond: the knapsack knows of no casts."""
_SECONDS = 10.0
"""Time limit of the last improvement: with several budgets the last ten-thousandth may take hours."""
Rows = list[list[float]]
"""A number for every choice of every group."""
Choices: TypeAlias = Sequence[tuple[Sequence[PrecisionSite], Sequence[str]]]
"""Groups of sites, and the formats that each may have."""


class AssignmentProblem:
    """margins: the part of each target that estimates may use up, by output. strict: whether no value that is not 0 may become 0.

    Raises UsageError for a pin, a pair without a cast or a target that names nothing.
    """

    def __init__(self, sites: PrecisionSites, requirements: Requirements, margins: Errors | None = None, strict: bool = False) -> None:
        self.sites, self.requirements, self.margins, self.strict = sites, requirements, dict(margins or {}), strict
        self.allowances = requirements.allowances(sites)
        self.pins = {site.name: found for site in sites.sites if (found := pinned(site, requirements)) is not None}
        for pattern in requirements.pins:
            if not any(matches(site, pattern) for site in sites.sites):
                raise UsageError(f"the pin `{pattern}` matches no site; hnfc precision lists them with --all")
        for pattern in dict.fromkeys(pattern for pair in requirements.uncast for pattern in pair):
            if not any(matches(site, pattern) for site in sites.sites):
                raise UsageError(f"`{pattern}`, where no cast is allowed, matches no site; hnfc precision lists them with --all")
        if sites.sites and not any(suits(site, form) for form in requirements.formats for site in sites.sites):
            what = "are for weights with two axes or more, or for computed values, and the model has none; weights that a file takes as"
            raise UsageError(f"{', '.join(requirements.formats)} {what} arguments are none: allow other formats, such as bf16, or fp32")
        by_name = {site.name: site for site in sites.sites}
        self.pairs = [(u, v) for u, v in sites.edges if requirements.uncast and uncast(by_name[u], by_name[v], requirements.uncast)]
        self.groups = _groups(sites, self.pairs)
        self.timing = Timing(sites, requirements.target_machine) if requirements.target_machine else None
        self.traffic = Timing(sites, None)
        self.undecided = False
        """True if a solution was not found in time, without a proof that there is none."""

    def with_cast(self, u: str, v: str) -> AssignmentProblem:
        """The same with a cast between two sites."""
        other = copy.copy(self)
        other.pairs = [pair for pair in self.pairs if set(pair) != {u, v}]
        other.groups = _groups(self.sites, other.pairs)
        return other

    def limit(self, allowance: Allowance) -> float:
        return allowance.limit * self.margins.get(allowance.output, 1.0)

    def candidates(self, site: PrecisionSite, held: bool = True) -> list[str]:
        """The formats that a site may have: its pin, or those in which it does not overflow."""
        pin = self.pins.get(site.name) if held else None
        return [self.pinned(site, pin[0])] if pin else [form for form in self.allowed(site) if self.fits(site, form)]

    def pinned(self, site: PrecisionSite, form: str) -> str:
        """The format that a pin gives a site: with saturation where only its masks overflow."""
        if self.requirements.saturation and is_plain(form) and not math.isfinite(site.moved[form]):
            saturated = next((other for other in site.moved if ceiling(other) is not None and split(other)[0] == form), form)
            return saturated if math.isfinite(site.moved[saturated]) else form
        return form

    def allowed(self, site: PrecisionSite) -> list[str]:
        """The formats that are to be chosen from, whether or not the site fits them; float32 where all are for other kinds of values."""
        others = [
            form for form in site.moved if not is_plain(form) and split(form)[0] in self.requirements.formats and self.is_wanted(form)
        ]
        running = [form for form in (*self.requirements.formats, *others) if self.runs(form)]
        return [form for form in running if suits(site, form)] or ([_OWN] if running else [])

    def is_wanted(self, form: str) -> bool:
        """Return whether formats with a scale, or with saturation, are wanted, if it is one."""
        return is_plain(form) or (self.requirements.scaling if ceiling(form) is None else self.requirements.saturation)

    def runs(self, form: str) -> bool:
        machine = self.requirements.target_machine
        return machine is None or runs_on(machine, form)

    def fits(self, site: PrecisionSite, form: str) -> bool:
        if self.vanishes(site, form):
            return False
        return math.isfinite(site.moved[form]) and site.size_in(form) * self.room(form) <= largest(form)

    def vanishes(self, site: PrecisionSite, form: str) -> bool:
        """Return whether the format is ruled out because an element that is not 0 becomes 0 in it, and not by its largest number."""
        if form not in site.vanishing:
            return False
        return self.strict or (not math.isfinite(site.moved[form]) and site.size_in(form) <= largest(form))

    def room(self, form: str) -> float:
        # what fits the model's own format needs no room there: masks are often its lowest number
        return self.requirements.headroom if largest(form) < largest(_OWN) else 1.0

    def affordable(self, site: PrecisionSite, held: bool) -> list[str]:
        """Candidates that do not use up a budget by themselves."""
        found = self.candidates(site, held)
        return [form for form in found if all(self.square(site, form, a) <= self.limit(a) ** 2 for a in self.allowances)]

    def square(self, site: PrecisionSite, form: str, allowance: Allowance) -> float:
        moved = site.effect(allowance.output).moved[form]
        return moved * moved

    def solve(self, released: frozenset[str] = frozenset(), cast: bool = False) -> Solution | None:
        """The cheapest formats; `released` pins do not count, and with `cast` every cast is allowed."""
        choices = self._choices(released, cast)
        groups, forms = [group for group, _ in choices], [found for _, found in choices]
        if not all(forms):
            return None
        size = [[math.fsum(bytes_of(site, form) for site in group) for form in found] for group, found in choices]
        squares = [self._squares(choices, allowance) for allowance in self.allowances]
        if self.requirements.least == "peak":
            return self._within_peak(choices, squares)
        counted = self.counted
        price, unit = (self._seconds(choices), 1e-12) if self.requirements.least == "time" else (size, 1.0)
        others = 0.0
        if self.requirements.least == "parameters":
            # of assignments whose parameters take as much the one whose values do
            others = math.fsum(map(max, size)) / 1000
            price = [[math.fsum(parameter_bytes(s, f) + bytes_of(s, f) / 1000 for s in group) for f in found] for group, found in choices]
        # of formats that cost as much the more accurate one: all errors together weigh a thousandth of a byte, or of a picosecond
        spent = [[math.fsum(row[i] for row in rows) for i in range(len(rows[0]))] for rows in zip(*squares, strict=True)]
        cost = [[b / unit + e / 1000 for b, e in zip(*row, strict=True)] for row in zip(price, spent, strict=True)]
        if any(math.fsum(map(min, square)) > 1 for square in squares):
            return None
        memory = size if self.requirements.least != "bytes" and self.requirements.memory < math.inf else None
        timed = None if counted is None else counted.program(groups, forms, spent)
        places, bound = self._chosen(cost, squares, memory, timed)
        if places is None:
            return None

        def named(places: Sequence[int]) -> dict[str, str]:
            return {site.name: forms[i][places[i]] for i, group in enumerate(groups) for site in group}

        chosen = named(places)
        if counted is not None and memory is None:
            # of assignments that cost as much, those with one format come first
            chosen = min((*map(named, _with_few_casts(forms, squares)), chosen), key=lambda formats: round(counted.seconds(formats) / unit))
            places = tuple(found.index(chosen[group[0].name]) for group, found in choices)
        total = math.fsum(row[place] for row, place in zip(size, places, strict=True))
        time = self.timing.seconds(chosen) if self.timing else None
        # without the thousandths, of which all budgets together have no more than one each
        cost_of_all = total if counted is None else counted.seconds(chosen)
        if self.requirements.least == "parameters":
            cost_of_all = math.fsum(map(operator.getitem, price, places)) - others
        least = cost_of_all if math.isnan(bound) else (bound - len(squares) / 1000) * unit - others
        # where bytes are minimized, a budget of them holds for the cheapest assignment or for none
        return Solution(chosen, total, least, time) if total <= self.requirements.memory else None

    @property
    def counted(self) -> Timing | None:
        """The model of what is minimized where casts count."""
        return {"time": self.timing, "moved": self.traffic}.get(self.requirements.least)

    def _choices(self, released: frozenset[str], cast: bool) -> Choices:
        groups = [[site] for site in self.sites.sites] if cast else self.groups
        return [(group, self.common(group, released)) for group in groups]

    def possible(self, released: frozenset[str] = frozenset(), cast: bool = False) -> Solution | None:
        """Formats that meet the requirements, if any do. Whether there are any is known sooner than which have the least peak, or move the
        fewest bytes."""
        if self.requirements.least == "moved":
            free = copy.copy(self)
            free.requirements = replace(self.requirements, least="bytes")
            return free.solve(released, cast)
        if self.requirements.least != "peak":
            return self.solve(released, cast)
        free = copy.copy(self)
        free.requirements = replace(self.requirements, least="bytes", memory=math.inf)
        found = free.solve(released, cast)
        if found is None or self.peak(found.formats) <= self.requirements.memory:
            return found
        choices = self._choices(released, cast)
        return self._within_peak(choices, [self._squares(choices, allowance) for allowance in self.allowances], False)

    def _within_peak(self, choices: Choices, squares: Sequence[Rows], least: bool = True) -> Solution | None:
        """With the least peak live bytes, which is what a budget of memory then is of; or only within that budget."""
        ranges, memory = live_ranges(choices), self.requirements.memory
        try:
            found = least_peak(ranges, squares, len(choices) <= _EXACT, memory) if least else within_peak(ranges, squares, memory)
        except TimeoutError:
            self.undecided = True
            return None
        if found is None:
            return None
        chosen = {site.name: forms[place] for (group, forms), place in zip(choices, found.places, strict=True) for site in group}
        size = math.fsum(bytes_of(site, chosen[site.name]) for site in self.sites.sites)
        return Solution(chosen, size, found.bound - ranges.most, self.timing.seconds(chosen) if self.timing else None)

    def peak(self, formats: Mapping[str, str]) -> float:
        """Peak live bytes."""
        return live_ranges([([site], [formats[site.name]]) for site in self.sites.sites]).peak([0] * len(self.sites.sites))

    def _squares(self, choices: Choices, allowance: Allowance) -> Rows:
        """The parts of a budget that choices use up."""
        scale = self.limit(allowance) ** 2 or math.ulp(0.0)
        return [[math.fsum(self.square(site, form, allowance) for site in group) / scale for form in forms] for group, forms in choices]

    def _chosen(
        self, cost: Rows, squares: Sequence[Rows], memory: Rows | None, timed: TimeProgram | None
    ) -> tuple[tuple[int, ...] | None, float]:
        """Places of choices, and a bound of what they cost; it is NaN where the optimum was found. The knapsack knows of no casts."""
        if len(cost) <= (_EXACT if timed is None else _EXACT_TIMED) or memory is not None:
            return self._exactly(cost, squares, memory, timed)
        found = _by_prices(cost, squares)
        # of one budget it is known that it cannot be kept; of several only the integer program says so
        if found is None:
            return (None, math.nan) if len(squares) == 1 else self._exactly(cost, squares, None, timed)
        if found.bound <= self.requirements.memory < found.cost:
            # too close to tell without the optimum
            return self._exactly(cost, squares, None, timed)
        return found.places, found.bound

    def _seconds(self, choices: Choices) -> Rows:
        machine = self.requirements.target_machine
        if machine is None:
            return [[0.0] * len(forms) for _, forms in choices]
        return [[math.fsum(time_of(site, form, machine) for site in group) for form in forms] for group, forms in choices]

    def common(self, group: Sequence[PrecisionSite], released: frozenset[str], affordable: bool = True) -> list[str]:
        """The formats that all sites of a group can have."""
        choose = self.affordable if affordable else self.candidates
        first, *others = (choose(site, site.name not in released) for site in group)
        return [form for form in first if all(form in other for other in others)]

    def _exactly(
        self, cost: Rows, squares: Sequence[Rows], size: Rows | None, timed: TimeProgram | None
    ) -> tuple[tuple[int, ...] | None, float]:
        """The same by HiGHS. If it has not proved the optimum in time, the best that it or the knapsack found, and the better bound; only
        if neither found anything, or nothing within a budget of bytes that is no less than the bound, it takes as long as it takes."""
        budgets = [Budget(f"the error of {a.name}", _weights(rows), 1.0) for a, rows in zip(self.allowances, squares, strict=True)]
        if size is not None:
            budgets.append(Budget("memory", _weights(size), self.requirements.memory))
        domains: dict[Node, Sequence[Value]] = {i: tuple(range(len(row))) for i, row in enumerate(cost)}
        system = System(domains) if timed is None else System(timed.domains, timed.constraints)
        weights, charges = (_weights(cost), ()) if timed is None else (timed.weights, timed.charges)

        def places_of(found: BestSection) -> tuple[int, ...] | None:
            return None if found.section is None else tuple(int(str(found.section[i])) for i in range(len(cost)))

        found = cheapest_in_time(system, weights, tuple(budgets), _SECONDS, charges)
        if found.proved:
            return places_of(found), math.nan
        other = _by_prices(cost, squares) if size is None else None
        bound = max(found.bound, -math.inf if other is None else other.bound)
        places, spent = places_of(found), math.inf
        if places is not None:
            spent = math.fsum(map(operator.getitem, cost, places))
        if other is not None and (places is None or (timed is None and other.cost < spent)):
            places, spent = other.places, other.cost
        if places is None or (self.requirements.least == "bytes" and bound <= self.requirements.memory < spent):
            found = cheapest_in_time(system, weights, tuple(budgets), math.inf, charges)
            return places_of(found), math.nan if found.proved else found.bound
        return places, bound

    def assignment(self, found: Solution) -> Assignment:
        outputs = [None, *self.sites.outputs]
        errors = {
            output: math.sqrt(math.fsum(site.effect(output).moved[found.formats[site.name]] ** 2 for site in self.sites.sites))
            for output in outputs
        }
        limit = next((self.limit(a) for a in self.allowances if a.output is None), math.inf)
        return Assignment(
            found.formats, errors[None], limit, found.size, found.bound, found.seconds, errors=errors, peak=self.peak(found.formats),
            moved=self.traffic.seconds(found.formats),
            parameters=math.fsum(parameter_bytes(site, found.formats[site.name]) for site in self.sites.sites),
        )  # fmt: skip


def _by_prices(cost: Rows, squares: Sequence[Rows]) -> Selection | None:
    return cheapest_choice(cost, squares[0], 1.0) if len(squares) == 1 else cheapest_within(cost, squares)


def _with_few_casts(forms: Sequence[Sequence[str]], squares: Sequence[Rows]) -> Iterator[list[int]]:
    """The choices within the budgets that have one format wherever it may be, and elsewhere that of least error; and the least errors."""
    finest = [min(range(len(found)), key=lambda i: math.fsum(rows[g][i] for rows in squares)) for g, found in enumerate(forms)]
    for form in (None, *dict.fromkeys(form for found in forms for form in found)):
        places = [found.index(form) if form in found else finest[g] for g, found in enumerate(forms)]
        if all(math.fsum(map(operator.getitem, rows, places)) <= 1 for rows in squares):
            yield places


def live_ranges(choices: Choices) -> LiveRanges:
    """Live ranges of the sites of groups, and their sizes in each of the groups' formats."""
    return LiveRanges([
        Buffer(index, *site.live, [bytes_of(site, form) for form in forms])
        for index, (group, forms) in enumerate(choices) for site in group
    ])  # fmt: skip


def _weights(rows: Rows) -> Mapping[Node, Mapping[Value, float]]:
    return {i: dict(enumerate(row)) for i, row in enumerate(rows)}


def _groups(sites: PrecisionSites, pairs: Sequence[tuple[str, str]]) -> list[list[PrecisionSite]]:
    """The sites that must have one format, together: connected by pairs between which there is no cast."""
    joined = Graph(tuple(site.name for site in sites.sites), tuple((u, v) for u, v in pairs if u != v))
    by_name = {site.name: site for site in sites.sites}
    return [[by_name[str(name)] for name in component] for component in joined.components()]
