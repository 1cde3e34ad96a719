"""The time that a model takes in given formats on a machine, or the bytes that it moves, casts included, as terms in an integer program.

The model of what runs is the graph that `applied` makes, one operation after the other, nothing fused: an operation computes in the
narrowest format that holds its result and all that it reads, and takes its arithmetic, the bytes of these in that format, and a pass over
each of them that is stored in another one, which is read and written once. A value that several operations read in one format is cast to it
once. Parameters are taken to be stored in their formats. So are inputs and results where time is counted; where bytes are, they are given
and wanted in the reference's format, and cast.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from hnfc.dsl.targets import Target as Machine
from hnfc.formats.granular import Granular
from hnfc.formats.scaled import ceiling, split, stored_format
from hnfc.precision.requirements import bytes_of, element_of
from hnfc.precision.values import PrecisionSite, PrecisionSites
from hnfc.sheaf.graph import Node
from hnfc.sheaf.ilp import Charge, Weights
from hnfc.sheaf.system import Constraint, Value

_ARITHMETIC = ("bf16", "fp16", "fp32", "fp64")
_WIDER = {("bf16", "fp16"): "fp32", ("fp16", "bf16"): "fp32"}
_ONLY_STORED = {"fp8_e4m3fn": "bf16", "fp8_e5m2": "bf16"}
"""Compute formats besides storage, where no other value needs a wider one."""
_DTYPES = {"bf16": "bf16", "fp16": "f16", "fp32": "f32", "fp64": "f64"}


_ANY = "any"
"""Compute format of values whose scales are found: that of the others."""


def arithmetic(form: str) -> str:
    """The narrowest format that is computed in with values stored in this one: with a scale, or a format that torch lacks, float32."""
    base, exponent = split(form)
    if isinstance(stored_format(form), Granular):
        return _ANY
    if exponent:
        return "fp32"
    return _ONLY_STORED.get(base, base if base in _ARITHMETIC else "fp32")


def _alone(form: str) -> str:
    """Compute format where no other value has a say."""
    found = arithmetic(form)
    return "fp32" if found == _ANY else found


def wider(a: str, b: str) -> str:
    """The narrowest format of arithmetic that holds the values of both."""
    if _ANY in (a, b):
        return b if a == _ANY else a
    return _WIDER.get((a, b), max(a, b, key=_ARITHMETIC.index))


def cast_bytes(site: PrecisionSite, stored: str, computed: str) -> float:
    """Bytes read and written by a cast of all elements, in either direction; a scale is a multiplication by itself."""
    base, exponent = split(stored)
    if base == computed and not exponent:
        return 0.0
    wide = bytes_of(site, computed)
    return bytes_of(site, stored) + wide + (2 * wide if exponent else 0.0)


def stored_bytes(site: PrecisionSite, stored: str, computed: str) -> float:
    """The same for what is computed and then stored: what saturates is clamped first."""
    return cast_bytes(site, stored, computed) + (0.0 if ceiling(stored) is None else 2 * bytes_of(site, computed))


@dataclass(frozen=True)
class TimeProgram:
    """Time in picoseconds, or bytes, as a part of an integer program. Nodes are the groups of sites, whose values are the places of their
    formats, and ("computes", site) for each operation, whose values are formats of arithmetic."""

    domains: Mapping[Node, Sequence[Value]]
    constraints: tuple[Constraint, ...]
    weights: Weights
    charges: tuple[Charge, ...]


class Timing:
    """machine: where the model runs; None counts bytes that are read and written instead of seconds."""

    def __init__(self, sites: PrecisionSites, machine: Machine | None) -> None:
        self.sites, self.machine = sites, machine
        self.unit = 1e-12 if machine is not None else 1.0
        """One in an integer program: a picosecond, or a byte."""
        self.by_name = {site.name: site for site in sites.sites}
        self.operands: dict[str, list[str]] = {name: [] for name in self.by_name}
        self.readers: dict[str, list[str]] = {name: [] for name in self.by_name}
        for u, v in sites.edges:
            self.operands[v].append(u)
            self.readers[u].append(v)

    def seconds(self, formats: Mapping[str, str]) -> float:
        """The whole time, or all bytes where no machine is named. formats: of every site by its name."""
        stored = (self._stored(site, formats[site.name]) for site in self.sites.sites)
        computed = (self._computed(v, form) for v, form in self._arithmetic(formats).items())
        return math.fsum((*stored, *computed, self._bytes(self.cast_bytes(formats))))

    def cast_bytes(self, formats: Mapping[str, str]) -> float:
        """Bytes that all casts read and write."""
        computed = self._arithmetic(formats)
        read = [(u, form) for u, vs in self.readers.items() for form in {computed[v] for v in vs}]
        return math.fsum((
            *(stored_bytes(self.by_name[name], formats[name], form) for name, form in computed.items()),
            *(cast_bytes(self.by_name[name], formats[name], form) for name, form in read),
        ))  # fmt: skip

    def _arithmetic(self, formats: Mapping[str, str]) -> dict[str, str]:
        """Compute format of each operation, by the site of its result."""
        return {v: self._able(v, reduce(wider, (arithmetic(formats[name]) for name in (v, *us)))) for v, us in self.operands.items() if us}

    def _able(self, v: str, form: str) -> str:
        """Compute format, or float32 where torch has no such operation, or nothing needs one."""
        return "fp32" if form == _ANY or form in self.by_name[v].lacking else form

    def _bytes(self, count: float) -> float:
        return count if self.machine is None else count / self.machine.bandwidth

    def _stored(self, site: PrecisionSite, form: str) -> float:
        """Time by the format of the value alone: reads by operations whose results are no sites, and operations that no site feeds."""
        passes = max(site.reads - math.fsum(self._part(site.name, v) for v in self.readers[site.name]), 0.0)
        if self.machine is None and site.elements:
            # a result is read only where it is cast
            passes = max(passes - bool(self.operands[site.name] and site.own), 0) + 2 * site.copied / site.elements
        if self.operands[site.name]:
            return self._bytes(passes * bytes_of(site, form) + self._crossing(site, form))
        if self.machine is None:
            # what is given is there already
            return passes * bytes_of(site, form) + self._crossing(site, form)
        return self._work(site, _alone(form)) + self._bytes((passes + 1) * bytes_of(site, form))

    def _part(self, u: str, v: str) -> float:
        return self.sites.parts.get((u, v), 1.0)

    def _crossing(self, site: PrecisionSite, form: str) -> float:
        """Bytes of the cast of an input or a result from or to its format in the model, where bytes are counted."""
        return cast_bytes(site, form, site.own) if self.machine is None and site.own else 0.0

    def _computed(self, v: str, form: str) -> float:
        """Time that depends on the compute format of an operation: arithmetic, reads and writes."""
        site = self.by_name[v]
        moved = math.fsum((bytes_of(site, form), *(self._part(u, v) * bytes_of(self.by_name[u], form) for u in self.operands[v])))
        return self._work(site, form) + self._bytes(moved)

    def _work(self, site: PrecisionSite, form: str) -> float:
        return 0.0 if self.machine is None else site.work / self.machine.rate(_DTYPES[form], matrix=site.matrix)

    def program(
        self, groups: Sequence[Sequence[PrecisionSite]], forms: Sequence[Sequence[str]], spent: Sequence[Sequence[float]]
    ) -> TimeProgram:
        """groups: the sites that have one format, together; forms: what each group chooses from; spent: what of the budgets each choice
        uses up, of which a thousandth counts as one unit: of formats that cost as much the more accurate one is chosen."""
        group = {site.name: number for number, sites in enumerate(groups) for site in sites}
        possible = list(dict.fromkeys(arithmetic(form) for found in forms for form in found))
        if any(site.lacking for site in self.sites.sites) or _ANY in possible:
            possible.append("fp32")
        possible = sorted({wider(a, b) for a in possible for b in possible} - {_ANY}, key=_ARITHMETIC.index)
        domains: dict[Node, Sequence[Value]] = {number: tuple(range(len(found))) for number, found in enumerate(forms)}
        weights: dict[Node, dict[Value, float]] = {
            number: {
                place: math.fsum(self._stored(site, form) for site in sites) / self.unit + spent[number][place] / 1000
                for place, form in enumerate(forms[number])
            }
            for number, sites in enumerate(groups)
        }
        constraints: list[Constraint] = []
        for v in (v for v, us in self.operands.items() if us):
            node = "computes", v
            domains[node] = tuple(form for form in possible if form not in self.by_name[v].lacking)
            weights[node] = {form: self._computed(v, form) / self.unit for form in domains[node]}  # type: ignore[arg-type]
            for number in dict.fromkeys(group[name] for name in (v, *self.operands[v])):
                constraints.append(Constraint("an operation computes in what holds its operands", (number, node), _Holds(forms[number])))
        return TimeProgram(domains, tuple(constraints), weights, tuple(self._charges(group, forms, possible)))

    def _charges(self, group: Mapping[str, int], forms: Sequence[Sequence[str]], possible: Sequence[str]) -> Iterator[Charge]:
        """For each value and each format that it is cast to, or from where it is computed: what the cheapest cast costs, and what dearer
        ones cost more. The formats that are no cheaper are charged together, which makes the relaxation of the program tight."""
        for name, site in self.by_name.items():
            for users, count in (([name] if self.operands[name] else [], stored_bytes), (self.readers[name], cast_bytes)):
                for form in possible if users else ():
                    costs = {
                        place: count(site, f, form) for place, f in enumerate(forms[group[name]]) if wider(arithmetic(f), form) == form
                    }
                    before = 0.0
                    for cost in sorted(set(costs.values()) - {0.0}):
                        places = frozenset(place for place, other in costs.items() if other >= cost)
                        able = (user for user in users if form not in self.by_name[user].lacking)
                        when = tuple((group[name], places, ("computes", user), frozenset((form,))) for user in able)
                        if when:
                            yield Charge(self._bytes(cost - before) / self.unit, when)
                        before = cost


@dataclass(frozen=True)
class _Holds:
    forms: Sequence[str]

    def __call__(self, place: int, form: str) -> bool:
        return wider(arithmetic(self.forms[place]), form) == form


def time_of(site: PrecisionSite, form: str, machine: Machine) -> float:
    """Seconds on the machine, where all around it is in the same format: what the site's own operations take in it, and the bytes that are
    written once and read by each user, one after the other. What overlaps takes less. It is no more than the site's part of
    `Timing.seconds`, which counts casts, where no narrower format is slower."""
    rate = machine.rate(element_of(_alone(form)), matrix=site.matrix)
    return site.work / rate + bytes_of(site, form) * (1 + site.reads) / machine.bandwidth
