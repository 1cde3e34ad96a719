"""Are two terms equal? Normal forms first, then the lemmas that a normal form cannot hold, then Z3."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

from hnfc.dsl.soundness.closing import Closer
from hnfc.dsl.soundness.limits import QUERY
from hnfc.dsl.soundness.monomial import BINDERS
from hnfc.dsl.soundness.multiple_angles import angle_table
from hnfc.dsl.soundness.normal_form import Normalizer, deep_atoms
from hnfc.dsl.soundness.signs import primitive
from hnfc.dsl.soundness.term import (
    ONE,
    Atom,
    Proposition,
    Rational,
    Terms,
    TooLarge,
    const,
    of_atom,
    of_mono,
    of_terms,
    total,
)

MAX_CONGRUENCES = 40


def is_zero(n: Normalizer, x: Rational, closer: Closer | None, depth: int = 0) -> str:
    """Name of a theorem that shows x = 0, or an empty string."""
    if without_sines_below(x).zero:
        return "normal forms agree"
    if x.constant() is not None or depth > 4:
        return ""
    if _logs_cancel(n, x):
        return "exp of the difference is 1, and exp is injective"
    angles = _multiple_angles(n, x)
    if angles is not None and without_sines_below(angles).zero:
        return "multiple-angle formulas"
    merged = _congruence(n, x, depth)
    if merged is not x:
        reason = is_zero(n, merged, closer, depth + 1)
        if reason:
            return f"equal arguments give equal values, then {reason}"
    if closer is not None and n.signs.whole(primitive(x)) and _is_between(n, primitive(x), closer):
        return "an integer between -1 and 1 is 0"
    if closer is not None and closer.entails(n.signs, Proposition("=", x), 4 * QUERY):
        return "Z3, from the facts of this case and the ground axioms"
    return ""


def _is_between(n: Normalizer, x: Rational, closer: Closer) -> bool:
    return all(closer.entails(n.signs, Proposition(">", side + ONE)) for side in (x, -x))


def _logs_cancel(n: Normalizer, x: Rational) -> bool:
    """Σ cᵢ·log(pᵢ) + m = 0 iff Π pᵢ^cᵢ·exp(m) = 1; applied to all terms with the same cofactor of a log."""
    if not x.polynomial:
        x = Rational(x.num)
    groups: dict[tuple[tuple[Atom, object], ...], Terms] = {}
    for mono, c in x.num.items():
        logs = [(b, e) for b, e in mono if b.kind == "log" and e == 1]
        if not logs:
            groups.setdefault(mono, {})[()] = c
            continue
        chosen = logs[0]
        groups.setdefault(tuple(p for p in mono if p != chosen), {})[(chosen,)] = c
    if not any(len(g) > 1 or m == () for m, g in groups.items() if g.keys() - {()}):
        return False

    def vanishes(terms: Terms) -> bool:
        scale = math.lcm(*(c.denominator for c in terms.values()))
        if max(abs(c * scale) for c in terms.values()) > 16:
            return False
        try:
            found = (n.exp(of_terms(terms).scale(Fraction(scale))) - ONE).zero
        except TooLarge:
            return False
        if found:
            n.note("exp-injective", of_terms(terms), scale)
        return found

    if vanishes(x.num):
        return True
    return all(vanishes(g) for g in groups.values() if g.keys() - {()}) and not any(g.keys() == {()} for g in groups.values())


def without_sines_below(x: Rational) -> Rational:
    """x times the sines that it is divided by, which are not 0: only then sin² = 1 - cos² is at work."""
    least: dict[Atom, int] = {}
    for mono in x.num:
        for base, e in mono:
            if base.kind == "sin" and isinstance(e, int) and e < 0:
                least[base] = max(least.get(base, 0), -e)
    return x * of_mono(tuple(sorted(least.items(), key=lambda p: p[0].id))) if least else x


def _multiple_angles(n: Normalizer, x: Rational) -> Rational | None:
    table = angle_table(deep_atoms(x))
    n.note("multiple-angle", table)
    return n.replace_atoms(x, table) if table else None


def _congruence(n: Normalizer, x: Rational, depth: int) -> Rational:
    """x with atoms replaced by others of the same function at provably equal arguments."""
    table: dict[Atom, Rational] = {}
    pairs = 0
    for kind in sorted({b.kind for b in x.atoms} - {"cap", "size", "ind", "ite"}):
        alike = sorted((b for b in x.atoms if b.kind == kind), key=lambda b: b.id)
        for a, b in itertools.combinations(alike, 2):
            if b in table or a in table:
                continue
            pairs += 1
            if pairs > MAX_CONGRUENCES:
                break
            if same_arguments(n, a, b, depth):
                n.note("equal-arguments", a, b)
                table[b] = of_atom(a)
    if not table:
        return x
    # replace only at the top: the arguments are equal already
    return n.map_atoms(x, table.get)


def same_arguments(n: Normalizer, a: Atom, b: Atom, depth: int) -> bool:
    if len(a.args) != len(b.args):
        return False
    if a.kind in BINDERS and a.args[0] != b.args[0]:
        return False
    for x, y in zip(a.args, b.args, strict=True):
        if isinstance(x, Rational) and isinstance(y, Rational):
            if not is_zero(n, x - y, None, depth + 1):
                return False
        elif x != y:
            return False
    return True


__all__ = ["const", "is_zero", "of_mono", "total"]
