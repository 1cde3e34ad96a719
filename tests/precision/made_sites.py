"""Sites with made-up errors, for problems small enough to try every assignment."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

from hnfc.formats.scaled import largest, smallest
from hnfc.precision.policy import SemanticDType
from hnfc.precision.problem import AssignmentProblem
from hnfc.precision.requirements import bytes_of
from hnfc.precision.values import Effect, PrecisionSite, PrecisionSites

UNITS = {"bf16": 2.0**-8, "fp16": 2.0**-11, "fp32": 2.0**-24}


def made_site(name: str, sensitivities: list[float], magnitude: float = 1.0, elements: int = 1, least: float = 0.0) -> PrecisionSite:
    """One sensitivity for each output; errors are one unit. least: an element of this size is a divisor."""
    vanishing = {form for form in UNITS if 0 < least <= smallest(form) / 2}
    unfit = vanishing | {form for form in UNITS if magnitude > largest(form)}
    effects = [Effect(s, {form: float("inf") if form in unfit else s * unit for form, unit in UNITS.items()}) for s in sensitivities]
    total = sum(s * s for s in sensitivities) ** 0.5
    moved = {form: sum(e.moved[form] ** 2 for e in effects) ** 0.5 for form in UNITS}
    return PrecisionSite(
        name, "mul", "", name, SemanticDType.COMPUTE, elements, -magnitude, magnitude, total, moved,
        frozenset(vanishing), apart=dict(enumerate(effects)), least=least if vanishing else 0.0,
    )  # fmt: skip


def made_sites(draw: random.Random, count: int, outputs: int, spread: float = 8.0, small: float = 0.0) -> PrecisionSites:
    """A chain; sensitivities are between 2^-spread and 2^spread. small: the part of the sites that are divisors."""
    sites = tuple(
        made_site(
            f"s{i}", [2.0 ** draw.uniform(-spread, spread) for _ in range(outputs)], 2.0 ** draw.uniform(0, 20), draw.randint(1, 9),
            2.0 ** -draw.uniform(10, 140) if small and draw.random() < small else 0.0,
        )
        for i in range(count)
    )  # fmt: skip
    return PrecisionSites(sites, tuple((f"s{i}", f"s{i + 1}") for i in range(count - 1)), 1.0, dict.fromkeys(range(outputs), 1.0))


def least_bytes(problem: AssignmentProblem) -> float | None:
    """By trying all assignments."""
    found = []
    names = [site.name for site in problem.sites.sites]
    for forms in product(*(problem.candidates(site) for site in problem.sites.sites)):
        chosen = dict(zip(names, forms, strict=True))
        pairs = list(zip(problem.sites.sites, forms, strict=True))
        within = all(sum(problem.square(s, f, a) for s, f in pairs) <= problem.limit(a) ** 2 for a in problem.allowances)
        if within and all(chosen[u] == chosen[v] for u, v in problem.pairs):
            found.append(sum(bytes_of(s, f) for s, f in pairs))
    size = min(found, default=None)
    return None if size is None or size > problem.requirements.memory else size


def with_lives(draw: random.Random, sites: PrecisionSites, steps: int) -> PrecisionSites:
    """The same, each live for some of so many steps."""
    spans = [sorted(draw.choices(range(steps), k=2)) for _ in sites.sites]
    lived = tuple(replace(site, live=(first, last)) for site, (first, last) in zip(sites.sites, spans, strict=True))
    return replace(sites, sites=lived)


def least_peak_of(problem: AssignmentProblem) -> float | None:
    """The least bytes that are live at once, by trying all assignments; whatever the memory."""
    names, peaks = [site.name for site in problem.sites.sites], []
    for forms in product(*(problem.candidates(site) for site in problem.sites.sites)):
        chosen = dict(zip(names, forms, strict=True))
        pairs = list(zip(problem.sites.sites, forms, strict=True))
        within = all(sum(problem.square(s, f, a) for s, f in pairs) <= problem.limit(a) ** 2 for a in problem.allowances)
        if within and all(chosen[u] == chosen[v] for u, v in problem.pairs):
            peaks.append(max(sum(bytes_of(s, f) for s, f in pairs if s.live[0] <= t <= s.live[1]) for t in (s.live[0] for s, _ in pairs)))
    return min(peaks, default=None)
