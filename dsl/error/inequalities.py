"""Inequalities that have a name, applied to formulas until nothing negative is left: what needs no search.

Triangle inequality, sums of what is not negative, sizes of at least 1, maxima that are not exceeded, intervals of values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from hnfc.dialects.facts import NoFormula
from hnfc.dsl.error.algebra import Algebra
from hnfc.dsl.error.jets import NoErrorFormula
from hnfc.dsl.error.polynomial import (
    ONE,
    ZERO,
    ErrorAtom,
    Mono,
    Poly,
    TooLong,
    const,
    content,
    excluded,
    expanded,
    multiplied,
    of_atom,
    of_mono,
    power,
)
from hnfc.dsl.error.rebuilding import meaning, with_exponentials_split, with_sums_expanded

MAX_CASES = 4


def equivalents(x: Poly, algebra: Algebra) -> Iterator[Poly]:
    """x without what is positive in front of it, in several forms: as it is, by its meaning, and as one fraction."""
    yield without_positive_factor(x, algebra)
    try:
        plain = meaning(x, algebra)
        yield without_positive_factor(plain, algebra)
        for rewritten in (with_exponentials_split, with_sums_expanded):
            yield without_positive_factor(rewritten(plain, algebra), algebra)
        yield without_positive_factor(algebra.over_one_denominator(plain), algebra)
    except (TooLong, NoFormula, NoErrorFormula):
        return


def forms(x: Poly, algebra: Algebra) -> Iterator[Poly]:
    """The equivalents of x, and lower bounds of them: each is ≥ 0 only where x is."""
    seen: set[Poly] = set()
    for form in equivalents(x, algebra):
        if form not in seen:
            seen.add(form)
            yield form
            try:
                yield algebra.tidy(from_below(form, algebra))
                yield algebra.tidy(from_below(expanded(form), algebra))
                yield from _without_bars(form, algebra)
            except TooLong:
                continue


def _without_bars(x: Poly, algebra: Algebra) -> Iterator[Poly]:
    """|p| ≥ p and |p| ≥ -p, where that brings terms together."""
    for mono, c in x.terms.items():
        bars = [a for a, e in mono if a.kind == "abs" and e == 1 and len(a.args[0].terms) > 1]
        factor = of_mono({a: e for a, e in mono if a not in bars[:1]}, c)
        if not bars or algebra.sign(factor) <= 0:
            continue
        for sign in (1, -1):
            changed = x - of_mono(dict(mono), c) + multiplied(factor, bars[0].args[0].scale(sign))
            if len(changed.terms) <= len(x.terms):
                yield changed


def in_every_case(x: Poly, algebra: Algebra, depth: int = 0) -> bool:
    """Plainly x ≥ 0, where one of its conditions holds and where it does not."""
    if any(obviously_nonnegative(form, algebra) for form in forms(x, algebra)):
        return True
    for atom in sorted(a for a in x.atoms if a.kind == "ind" and a.args[0][0] != "not"):
        other = next((a for a in x.atoms if a.kind == "ind" and excluded(a, atom)), None)
        if other is None or depth > MAX_CASES:
            continue
        halves = ((atom, other), (other, atom))
        return all(in_every_case(_restricted(x, yes, no), narrowed(algebra, yes.args[0]), depth + 1) for yes, no in halves)
    return False


def by_multiples(x: Poly, known: Poly, algebra: Algebra) -> bool:
    """Return whether x is plainly a nonnegative multiple of what is known not to be negative, plus something that is not either."""
    for mono, c in x.terms.items():
        for other, d in known.terms.items():
            factor = multiplied(of_mono(dict(mono), c / d), of_mono({a: -e for a, e in other}))
            if c < 0 and d < 0 and algebra.sign(factor) > 0:
                return obviously_nonnegative(x - multiplied(factor, known), algebra)
    return False


def _restricted(x: Poly, holds: ErrorAtom, fails: ErrorAtom) -> Poly:
    """x where one condition holds and the other does not."""
    result = ZERO
    for mono, c in x.terms.items():
        if fails not in dict(mono):
            result = result + of_mono({a: e for a, e in mono if a != holds}, c)
    return result


def narrowed(algebra: Algebra, condition: Any) -> Algebra:
    """The algebra where a comparison of one captured value with a number holds."""
    negated = condition[0] == "not"
    kind, difference = (condition[1] if negated else condition)[:2]
    if kind not in ("ge", "gt"):
        return algebra
    lone = Poly({m: c for m, c in difference.terms.items() if m}).single()
    if lone is None or len(lone[0]) != 1 or lone[0][0][0].kind != "var" or lone[0][0][1] != 1:
        return algebra
    bound = -difference.terms.get((), Fraction(0)) / lone[1]
    above = (lone[1] > 0) != negated
    return within(algebra, lone[0][0][0].args[0], bound if above else -math.inf, math.inf if above else bound)


def supposing(algebra: Algebra, known: Poly) -> Algebra:
    """The algebra where a formula is not negative."""
    result = Algebra(algebra.known)
    result.lengths, result.nonnegative = algebra.lengths, algebra.nonnegative | {known.key}
    return result


def within(algebra: Algebra, name: str, lo: Fraction | float, hi: Fraction | float) -> Algebra:
    """The algebra for values of a capture between the bounds."""
    least, greatest = algebra.known.get(name, (-math.inf, math.inf))
    result = Algebra({**algebra.known, name: (max(lo, least), min(hi, greatest))})
    result.lengths, result.nonnegative = algebra.lengths, algebra.nonnegative
    return result


def without_positive_factor(x: Poly, algebra: Algebra) -> Poly:
    """x divided by what all its terms share, as far as that has a known sign."""
    c, mono, rest = content(x)
    signs = {atom: algebra.sign(of_mono({atom: e})) for atom, e in mono}
    sign = math.prod((s for s in signs.values() if s), start=1 if c > 0 else -1)
    kept = of_mono({atom: e for atom, e in mono if not signs[atom]}, sign)
    return kept if rest == ONE else kept * rest


def obviously_nonnegative(x: Poly, algebra: Algebra) -> bool:
    """Every term is ≥ 0, terms that differ in sizes only taken together: n·s - s ≥ 0 for s ≥ 0, since n ≥ 1."""
    if algebra.sign(x) > 0:
        return True
    for rest, factor in by_size(_without_maxima(x, algebra)).items():
        sign = algebra.sign(of_mono(dict(rest)))
        if not sign or not _nonnegative_in_sizes(factor.scale(sign)):
            return False
    return True


def by_size(x: Poly) -> dict[Mono, Poly]:
    """The terms that differ in sizes only together: what they share, and a polynomial of sizes."""
    groups: dict[Mono, Poly] = {}
    for mono, c in x.terms.items():
        sizes = tuple(f for f in mono if f[0].kind == "size" and isinstance(f[1], int) and f[1] > 0)
        rest = tuple(f for f in mono if f not in sizes)
        groups[rest] = groups.get(rest, ZERO) + Poly({sizes: c})
    return groups


def _nonnegative_in_sizes(x: Poly) -> bool:
    """Return whether the polynomial of sizes has no negative coefficient in n - 1."""
    result = ZERO
    for mono, c in x.terms.items():
        part = const(c)
        for atom, e in mono:
            for _ in range(int(e)):
                part = multiplied(part, of_atom(atom) + ONE)
        result = result + part
    return all(c >= 0 for c in result.terms.values())


def _without_maxima(x: Poly, algebra: Algebra) -> Poly:
    """x without multiples of max(p) - p, which are not negative."""
    for mono, c in list(x.terms.items()):
        for atom, e in mono:
            if atom.kind == "max" and e == 1 and c > 0 and not atom.args[2]:
                factor = of_mono({a: f for a, f in mono if a != atom}, c)
                smaller = x - multiplied(factor, of_atom(atom) - atom.args[1])
                if algebra.sign(factor) > 0 and len(smaller.terms) < len(x.terms):
                    return _without_maxima(smaller, algebra)
    return x


def from_below(x: Poly, algebra: Algebra) -> Poly:
    """A lower bound of x: each factor of a negative term is replaced by an upper bound of it."""
    result = ZERO
    for rest, factor in by_size(x).items():
        part = ONE
        raising = _nonnegative_in_sizes(-factor) and all(algebra.sign(of_mono({a: e})) > 0 for a, e in rest)
        for atom, e in rest:
            part = part * (power(from_above(atom, algebra), e) if raising and isinstance(e, int) and e > 0 else of_mono({atom: e}))
        result = result + part * factor
    return result


def from_above(atom: ErrorAtom, algebra: Algebra) -> Poly:
    """|p + q| ≤ |p| + |q|, |Σp| ≤ Σ|p|, |AB| ≤ |A||B|, [p] ≤ 1, min(p, q) ≤ p, ⌈log₂ n⌉ ≤ n - 1; the atom itself where none applies."""
    match atom.kind:
        case "ind":
            return ONE
        case "abs":
            return _triangle(atom.args[0], algebra)
        case "sum":
            axes, body, missing = atom.args
            lone = body.single()
            if lone and all(algebra.sign(of_mono({a: e})) > 0 for a, e in lone[0]):
                inner = const(lone[1])
                for a, e in lone[0]:
                    inner = inner * (power(from_above(a, algebra), e) if isinstance(e, int) and e > 0 else of_mono({a: e}))
                if inner != body:
                    shape = {axis: body.vary.get(axis, frozenset()) | dict(missing).get(axis, frozenset()) for axis in axes}
                    return algebra.sum(inner, axes, shape, atom.like)
        case "fn" if atom.args[0] == "minimum":
            first, second = atom.args[1]
            larger: Poly = first if first.size > second.size else second
            return larger
        case "fn" if atom.args[0] == "ceil":
            (inside,) = atom.args[1][0].atoms
            if inside.kind == "fn" and inside.args[0] == "log2":
                count: Poly = inside.args[1][0]
                if all(a.kind == "size" for a in count.atoms):
                    # by induction: ⌈log₂ n⌉ is the number of halvings that bring n down to 1
                    return count - ONE
    return of_atom(atom)


def _triangle(x: Poly, algebra: Algebra) -> Poly:
    """Σ |term|, with the absolute value inside of sums and products."""
    result = ZERO
    for mono, c in x.terms.items():
        part = const(abs(c))
        for atom, e in mono:
            part = part * _inside(atom, algebra) if e == 1 else part * algebra.absolute(of_mono({atom: e}))
        result = result + part
    return result


def _inside(atom: ErrorAtom, algebra: Algebra) -> Poly:
    match atom.kind:
        case "sum":
            axes, body, missing = atom.args
            shape = {axis: body.vary.get(axis, frozenset()) | dict(missing).get(axis, frozenset()) for axis in axes}
            return algebra.sum(algebra.absolute(body), axes, shape, atom.like)
        case "matmul" | "conv":
            inside = (algebra.absolute(atom.args[0]), algebra.absolute(atom.args[1]), *atom.args[2:])
            return of_atom(ErrorAtom(atom.kind, inside, atom.vary, atom.like))
        case "base":
            return _triangle(atom.args[0], algebra)
    return algebra.absolute(of_atom(atom))
