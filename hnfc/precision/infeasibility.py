"""Reasons why no assignment meets the requirements, and the single changes that make one possible."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from hnfc.dialects.formats import Float
from hnfc.formats.named import format_named
from hnfc.formats.scaled import is_plain, stored_format
from hnfc.precision.certificates import BUDGETS, FORMATS, MEMORY, SUM, Cycle
from hnfc.precision.obstruction import SIGNIFICAND, cycle_of, minds, precision, where
from hnfc.precision.problem import AssignmentProblem
from hnfc.precision.requirements import Infeasible, Relaxation, Requirements, Solution, bytes_of
from hnfc.precision.targets import Allowance
from hnfc.precision.values import PrecisionSite

UNDECIDED = (
    "no cycle: each budget alone can be kept. That not all of them can be kept together is not proved: the solver found no assignment in "
    "time, and there may be one"
)


def refusal_of(problem: AssignmentProblem) -> Infeasible:
    """The reasons of a problem without a solution. Pins are released one after the other as long as there is none without them."""
    budgets = UNDECIDED if problem.undecided else BUDGETS
    patterns: dict[str, list[str]] = {}
    for name, (_, pattern) in problem.pins.items():
        patterns.setdefault(pattern, []).append(name)
    released: frozenset[str] = frozenset()
    for names in patterns.values():
        without = released | frozenset(names)
        if problem.possible(without) is None:
            released = without
    return _Refusing(problem, patterns, released, budgets).refusal()


class _Refusing:
    def __init__(self, problem: AssignmentProblem, patterns: Mapping[str, list[str]], released: frozenset[str], budgets: str) -> None:
        """budgets: the certificate where nothing but all budgets together is in the way."""
        self.problem, self.patterns, self.released, self.budgets = problem, patterns, released, budgets
        self.sites, self.requirements = problem.sites, problem.requirements
        self.running = [form for form in self.requirements.formats if problem.runs(form)]
        self.best = {a: self._least_error(a, released) for a in problem.allowances}
        self.failing = [a for a in problem.allowances if self.best[a] > problem.limit(a)]
        self.least = self._least_bytes()
        """Bytes that no formats go below, whatever the errors."""

    def refusal(self) -> Infeasible:
        cycle = cycle_of(self.problem, self.released)
        incommon = next((group for group in self.problem.groups if not self.problem.common(group, self.released)), None)
        without = self._without_memory()
        allowance = max(self.problem.allowances, key=lambda a: self.best[a] / (self.problem.limit(a) or math.ulp(0.0)))
        culprits = self._culprits(allowance, incommon is not None)
        reasons = list(_described(cycle)) if cycle is not None else []
        named = cycle.nodes if cycle is not None else ()
        reasons += [self._reason(site, allowance) for site in culprits if site.name not in named]
        if cycle is None and incommon is not None and len(incommon) > 1:
            reasons.append(self._apart(incommon))
        reasons += self._outputs(cycle is None and incommon is None, cycle is not None)
        if without is not None:
            which = "the values live at once" if self.requirements.least == "peak" else "all values together"
            tight = f", and take {self.least:,.0f} at least" if self.least > self.requirements.memory else ""
            reasons.append(f"{which} may take {self.requirements.memory:.4g} bytes{tight}")
        reasons += self._unrun()
        certificate = SUM if self.failing else MEMORY if self.least > self.requirements.memory else self.budgets
        certificate = cycle.text() if cycle is not None else FORMATS if incommon is not None else certificate
        nodes = dict.fromkeys((*named, *(site.name for site in culprits)))
        return Infeasible(
            tuple(reasons), tuple(nodes), {name: self._needed(self.sites[name], allowance, cycle) for name in nodes},
            tuple(self._relaxations(cycle, without)), cycle, certificate,
        )  # fmt: skip

    def _outputs(self, named: bool, cycle: bool) -> Iterator[str]:
        """Allowed error of each output, and the least achievable one if it is exceeded, or if `named`. Where a cycle
        shows a site without a format, that errors are infinite then says nothing more."""
        for a in self.failing or (self.problem.allowances if named else ()):
            if cycle and math.isinf(self.best[a]):
                continue
            by = f", and with the best formats allowed {a.they_are} off by {self.best[a]:.3g}" if a in self.failing else ""
            yield f"{a.name} may be off by {self.problem.limit(a):.3g}{by}"

    def _unrun(self) -> Iterator[str]:
        """The requested formats that are not chosen, since the machine does not run them."""
        others, machine = [form for form in self.requirements.formats if form not in self.running], self.requirements.target_machine
        if machine is not None and others:
            left = "" if self.running else ", and there is no other to choose from"
            yield f"{machine.name} does not run {', '.join(others)}{left}"

    def _least_bytes(self) -> float:
        """The bytes of all sites, or of those live at once, with each site in the smallest format that it may have."""
        if self.requirements.memory == math.inf:
            return 0.0
        smallest: dict[str, str] = {}
        for group in self.problem.groups:
            forms = self.problem.common(group, self.released, False)
            if not forms:
                return 0.0
            chosen = min(forms, key=lambda form: math.fsum(bytes_of(site, form) for site in group))
            smallest.update({site.name: chosen for site in group})
        if self.requirements.least == "peak":
            return self.problem.peak(smallest)
        return math.fsum(bytes_of(site, smallest[site.name]) for site in self.sites.sites)

    # which sites

    def _bits(self, site: PrecisionSite, allowance: Allowance) -> tuple[int, int]:
        """Bits of significand that the site needs, and has."""
        has = max((precision(form) for form in self.problem.candidates(site, site.name not in self.released)), default=0)
        return site.bits_for(self._share(allowance), allowance.output), has

    def _needed(self, site: PrecisionSite, allowance: Allowance, cycle: Cycle | None) -> tuple[int, int]:
        """The same; what a cycle says of its sites comes first."""
        needs, has = self._bits(site, allowance)
        forced = cycle.forced if cycle is not None and cycle.measure == SIGNIFICAND else {}
        return forced.get(site.name, needs), has

    def _share(self, allowance: Allowance) -> float:
        """Equal share of the error budget for a site."""
        return self.problem.limit(allowance) / math.sqrt(max(len(self.sites.sites), 1))

    def _culprits(self, allowance: Allowance, in_formats: bool) -> list[PrecisionSite]:
        """The sites that use up the budget although they have the best format that they may have, the worst first, at most five; none where
        the budget could be kept, and beside sites without a format only those that have none that is good enough."""
        if (allowance not in self.failing and not in_formats) or not self.running:
            return []
        squares = self._squares(allowance, self.released)
        by_error = sorted(self.sites.sites, key=lambda site: -squares[site.name])
        found: list[PrecisionSite] = []
        for place, site in enumerate(by_error[:5]):
            rest = math.fsum(squares[s.name] for s in by_error[place:])
            if squares[site.name] == 0 or (rest <= self.problem.limit(allowance) ** 2 and place):
                break
            needs, has = self._bits(site, allowance)
            if not in_formats or needs > has or self._alone(site, allowance, self.released) > self.problem.limit(allowance) ** 2:
                found.append(site)
        return found

    def _squares(self, allowance: Allowance, released: frozenset[str]) -> dict[str, float]:
        """The squared errors of the sites in the formats that are best for one budget; where sites must have one, in that."""
        problem, found = self.problem, {}
        for group in problem.groups:
            rows = [[problem.square(site, form, allowance) for site in group] for form in problem.common(group, released, False)]
            best = min(rows, key=math.fsum) if rows else [self._alone(site, allowance, released) for site in group]
            found.update({site.name: square for site, square in zip(group, best, strict=True)})
        return found

    def _alone(self, site: PrecisionSite, allowance: Allowance, released: frozenset[str]) -> float:
        forms = self.problem.candidates(site, site.name not in released)
        return min((self.problem.square(site, form, allowance) for form in forms), default=math.inf)

    def _least_error(self, allowance: Allowance, released: frozenset[str]) -> float:
        return math.sqrt(math.fsum(self._squares(allowance, released).values()))

    # in which words

    def _reason(self, site: PrecisionSite, allowance: Allowance) -> str:
        pin = self.problem.pins.get(site.name)
        if pin and self.problem.vanishes(site, pin[0]):
            return f"{where(site)} {_too_small(site, pin[0])}, which {pin[1]} asks for"
        if pin and not math.isfinite(site.moved[self.problem.pinned(site, pin[0])]):
            ends = f"{pin[0]}, which {pin[1]} asks for, ends at {format_named(pin[0]).largest:.5g}"
            return f"{where(site)} reaches {site.magnitude:.4g}, and {ends}"
        if not self.problem.candidates(site):
            widest = max(self.running or self.requirements.formats, key=lambda form: format_named(form).largest)
            if self.problem.vanishes(site, widest):
                return f"{where(site)} {_too_small(site, widest)}, the widest format allowed"
            ends = f"the widest format allowed, {widest}, ends at {format_named(widest).largest:.5g}"
            return f"{where(site)} reaches {site.magnitude:.4g}, and {ends}"
        needs, has = self._bits(site, allowance)
        if needs <= has and (faint := self._faint(site, allowance)):
            return f"{where(site)} {faint}"
        held = f"{pin[1]} gives it {pin[0]}, which has {has}" if pin else f"the best format allowed has {has}"
        short = f": {_bits(needs - has)} short" if needs > has else ""
        moves = f"it moves {allowance.name} by {site.effect(allowance.output).sensitivity:.3g}·u"
        return f"{where(site)} needs {needs} bits of significand for an equal part of the error, since {moves}; {held}{short}"

    def _faint(self, site: PrecisionSite, allowance: Allowance) -> str | None:
        """Explanation of a format that has enough bits for normal numbers, and too few for small ones."""
        form = min(self.problem.candidates(site, site.name not in self.released), key=lambda f: self.problem.square(site, f, allowance))
        stored, moved = stored_format(form), site.effect(allowance.output).moved[form]
        if not isinstance(stored, Float) or moved <= site.effect(allowance.output).sensitivity * stored.unit_roundoff:
            return None
        loses = f"has elements that {form} gives fewer bits or makes 0, since they are below {stored.smallest_normal:.2g}"
        return f"{loses}: they reach {site.magnitude:.3g}, and that moves {allowance.name} by {moved:.3g}"

    def _apart(self, group: list[PrecisionSite]) -> str:
        """Sites that must have one format, and none that all can have; those that have formats which others lack."""
        forms = {site.name: self.problem.affordable(site, site.name not in self.released) for site in group}
        shown = sorted(group, key=lambda site: len(forms[site.name]))[:3]
        each = "; ".join(f"{where(site)} may have {', '.join(forms[site.name]) or 'none'}" for site in shown)
        return f"no cast is allowed between {len(group)} sites, which have no format in common: {each}"

    # what would help

    def _relaxations(self, cycle: Cycle | None, without: Solution | None) -> Iterator[Relaxation]:
        """without: the solution with more memory."""
        for pattern, names in self.patterns.items():
            if found := self.problem.possible(frozenset(names)):
                wider = sorted({found.formats[name] for name in names})
                cost = f"its sites take {', '.join(wider)}; {self._extra(found):+,.0f} bytes"
                yield Relaxation(f"release {pattern}", cost, self._without_pin(pattern))
        yield from self._casts(cycle)
        if without is not None:
            enough = self.problem.peak(without.formats) if self.requirements.least == "peak" else without.size
            more = replace(self.requirements, memory=math.ceil(enough))
            yield Relaxation("allow more memory", f"{math.ceil(enough):,} bytes are enough", more)
        yield from self._targets()
        for form in (f for f in self.sites.sites[0].moved if f not in self.requirements.formats and is_plain(f)):
            more = replace(self.requirements, formats=(*self.requirements.formats, form))
            if found := AssignmentProblem(self.sites, more, self.problem.margins, self.problem.strict).possible():
                count = sum(chosen == form for chosen in found.formats.values())
                yield Relaxation(f"allow {form}", f"{count} sites take it; {found.size:,.0f} bytes in all", more)

    def _without_pin(self, pattern: str) -> Requirements | None:
        """Requirements without a pin; a part of a policy cannot be left out of it."""
        pins = {key: form for key, form in self.requirements.pins.items() if pattern != f"the pin `{key}`"}
        return replace(self.requirements, pins=pins) if len(pins) < len(self.requirements.pins) else None

    def _extra(self, found: Solution) -> float:
        """Bytes that are more than with the pins."""
        held = self.problem.pins
        return found.size - math.fsum(bytes_of(s, held[s.name][0] if s.name in held else found.formats[s.name]) for s in self.sites.sites)

    def _casts(self, cycle: Cycle | None) -> Iterator[Relaxation]:
        """One cast on the cycle, or all that are not allowed."""
        on_cycle = {frozenset((u, v)) for u, v, _ in cycle.edges} if cycle is not None else set()
        one = False
        for u, v in self.problem.pairs:
            if frozenset((u, v)) in on_cycle and (found := self.problem.with_cast(u, v).possible()):
                one = True
                cost = bytes_of(self.sites[u], found.formats[u]) + bytes_of(self.sites[u], found.formats[v])
                yield Relaxation(
                    f"allow a cast between {u} and {v}", f"it reads and writes {cost:,.0f} bytes; {found.size:,.0f} bytes in all"
                )
        if self.problem.pairs and not one and self.problem.possible(cast=True):
            yield Relaxation("allow the casts", "each costs a pass over its value", replace(self.requirements, uncast=()))

    def _targets(self) -> Iterator[Relaxation]:
        """Higher targets, as far as is needed without any other change."""
        best = {a: self._least_error(a, frozenset()) for a in self.problem.allowances}
        raised = {a: rounded_up(best[a] * 1.005 / self._part(a) / a.scale) for a in best if best[a] > self.problem.limit(a)}
        if not raised or not all(map(math.isfinite, best.values())):
            return
        margins = dict(self.problem.margins)
        for a, target in raised.items():
            margins[a.output] = self._part(a) * target * a.scale / a.limit if a.limit else math.inf
        if math.inf not in margins.values() and AssignmentProblem(self.sites, self.requirements, margins, self.problem.strict).possible():
            what = " and ".join(f"{a.target} to {target:.2g}" for a, target in raised.items())
            cost = " and ".join(f"{a.are} off by as much" for a in raised)
            yield Relaxation(f"raise {what}", cost, replace(self.requirements, target=self.requirements.raised(raised)))

    def _part(self, allowance: Allowance) -> float:
        return self.problem.margins.get(allowance.output, 1.0)

    def _without_memory(self) -> Solution | None:
        """The solution that there is with more memory, if that is all that is in the way."""
        if self.requirements.memory == math.inf:
            return None
        return AssignmentProblem(self.sites, replace(self.requirements, memory=math.inf), self.problem.margins, self.problem.strict).solve()


def _described(cycle: Cycle) -> Iterator[str]:
    *others, last = cycle.reasons
    yield from others
    yield f"{last}: {_bits(cycle.short)} short"


def _bits(number: int) -> str:
    return f"{number} {'bit' if number == 1 else 'bits'}"


def rounded_up(target: float) -> float:
    """At least the number, with two digits."""
    if not 0 < target < math.inf:
        return target
    unit = 10.0 ** (math.floor(math.log10(target)) - 1)
    return math.ceil(target / unit) * unit


def _too_small(site: PrecisionSite, form: str) -> str:
    return f"{minds(site)}, and has elements that are not 0 and become 0 in {form}"
