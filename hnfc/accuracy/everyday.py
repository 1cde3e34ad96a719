"""Everyday points: numbers that people put into programs, where a form must not be worse than what it replaces.

Points that are even over the doubles hardly ever have arguments of one size. These have: numbers between 1e-3 and 1e3 of either sign,
apart, of one size, nearly equal, and short ones such as 0, 1, 2 and 0.5. An argument whose range holds none of them is drawn from it.
"""

from __future__ import annotations

import itertools

import numpy as np

from hnfc.accuracy.ordinals import Floats
from hnfc.accuracy.points import Domain, Sample, joined, measured
from hnfc.accuracy.terms import Term

SHORT = np.array([0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 0.1, 0.25, 1.5, 7.0, 100.0, 1000.0])
_TRIES = 12
_GRIDS = (
    (0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 4.0, -4.0, 0.1, -0.1, 10.0, -10.0, 100.0, -100.0, 0.01, -0.01, 1000.0, 1.5),
    (0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 4.0, -4.0, 5.0, -5.0, 6.0, -6.0, 0.1, 10.0, -10.0, 100.0),
    (0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.0, 4.0, -4.0),
    (0.0, 0.5, 1.0, -1.0, 2.0),
)
"""Short numbers, all combinations of which are looked at, by how many arguments there are."""
_RATIOS = ((), (), (1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 4.0, -4.0), (1.0, -1.0, 2.0, -2.0, 0.5, 4.0), (1.0, -1.0, 2.0, 4.0))
_UNITS = np.array([0.0137, 0.219, 1.77, 34.3, 877.3])
"""Arguments in all of these ratios, in units that are no short numbers: where parts are equal or opposite whatever the unit."""


def everyday(term: Term, domain: Domain, count: int, rng: np.random.Generator) -> Sample:
    """Up to `count` everyday points that meet the precondition and have a finite value; fewer where hardly any does."""
    found: Sample | None = None
    for _ in range(_TRIES):
        sample = measured(term, domain, candidates_for_points(domain, count, rng), count - (0 if found is None else len(found)))
        found = sample if found is None else joined(found, sample)
        if len(found) >= count:
            break
    assert found is not None
    return found


def short_numbers(term: Term, domain: Domain) -> Sample:
    """All combinations of a few short numbers and ratios, of programs with few arguments; for one argument thousands of numbers at even
    distances."""
    arguments = len(domain.names)
    grid = _GRIDS[arguments - 1] if arguments <= len(_GRIDS) else ()
    rows = list(itertools.product(grid, repeat=arguments)) if grid else []
    points = np.array(rows, np.float64).reshape(len(rows), arguments)
    if 1 < arguments < len(_RATIOS):
        ratios = np.array(list(itertools.product(_RATIOS[arguments], repeat=arguments)))
        points = np.concatenate([points, *(unit * ratios for unit in _UNITS)])
    if arguments == 1:
        sizes = np.geomspace(1e-3, 1e3, 601)
        points = np.concatenate([points[:, 0], np.linspace(-1000, 1000, 1601) + 0.3, sizes, -sizes])[:, None]
    return measured(term, domain, {name: points[:, i] for i, name in enumerate(domain.names)}, len(points))


def candidates_for_points(domain: Domain, count: int, rng: np.random.Generator) -> dict[str, Floats]:
    """Numbers for each argument, within its range, whatever the program's value is there: each row of one kind, in random order."""
    arguments = len(domain.names)
    kind = rng.integers(0, 11, count)[:, None]
    mixed = rng.random((count, arguments)) < 0.3
    sizes = 10.0 ** rng.uniform(-3, 3, (count, arguments))
    size = sizes[:, :1]
    alike = size * rng.uniform(0.5, 2.0, sizes.shape)
    near = size * (1 + rng.choice([-1.0, 1.0], sizes.shape) * 10.0 ** rng.uniform(-14, -0.5, sizes.shape))
    short = rng.choice(SHORT, sizes.shape)
    close = short * (1 + rng.normal(size=sizes.shape) * 10.0 ** rng.uniform(-14, -1, sizes.shape))
    even = rng.uniform(0, 1000, sizes.shape)
    near = np.where(mixed & (kind == 5), size, near)
    # such as 0.02, 0.04, 0.02: where a discriminant is 0 whatever the unit
    few = rng.choice(np.array([0.5, 1.0, 1.0, 2.0, 4.0]), sizes.shape)
    scaled = few * np.where(mixed[:, :1], size, 10.0 ** rng.integers(-3, 3, size.shape))
    kinds = [kind <= 1, kind == 2, kind <= 5, kind == 6, kind == 7, kind == 8]
    plain = np.select(kinds, [sizes, alike, near, short, close, np.where(mixed, short, even)], np.where(mixed, short, sizes))
    plain = np.where(kind == 10, scaled, plain)
    # in some rows several arguments are 0
    plain = np.where((rng.random((count, 1)) < 0.15) & (rng.random(sizes.shape) < 0.4), 0.0, plain)
    # of either sign, of one sign, and positive
    signs = rng.choice([-1.0, 1.0], sizes.shape)
    style = rng.integers(0, 3, count)[:, None]
    signs = np.select([style == 0, style == 1], [signs, np.broadcast_to(signs[:, :1], sizes.shape)], np.ones(sizes.shape))
    points = plain * signs + 0.0
    return {name: _within(domain, name, points[:, i], rng) for i, name in enumerate(domain.names)}


def _within(domain: Domain, name: str, x: Floats, rng: np.random.Generator) -> Floats:
    """The numbers, those outside of the argument's range replaced by others inside."""
    lo, hi = domain.interval(name)
    outside = ~((x >= lo) & (x <= hi))
    if lo > hi or not outside.any():
        return x
    n = int(outside.sum())
    even = lo + (hi - lo) * rng.random(n) if hi - lo < 1e6 else np.clip(10.0 ** rng.uniform(-3, 3, n), lo, hi)
    scaled = _of_all_sizes(lo, hi, n, rng)
    x = x.copy()
    x[outside] = np.clip(np.where(rng.random(n) < 0.5, even, scaled), lo, hi)
    return x


def _of_all_sizes(lo: float, hi: float, n: int, rng: np.random.Generator) -> Floats:
    """Numbers of the interval whose logarithms are even, at most 16 decades deep."""
    most = max(abs(lo), abs(hi), 1e-300)
    least = max(lo, -hi, most * 1e-16) if lo > 0 or hi < 0 else most * 1e-16
    sizes = np.exp(rng.uniform(np.log(least), np.log(min(most, max(least, 1e3))), n))
    signs = np.full(n, 1.0) if lo >= 0 else np.full(n, -1.0) if hi <= 0 else rng.choice([-1.0, 1.0], n)
    return np.asarray(sizes * signs)
