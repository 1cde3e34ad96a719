"""Sums, products and extrema over bound indices in normal form.

A bound index has a canonical name: the nesting level of its binder and its place there. Two binders with equal bodies are one atom.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from fractions import Fraction

from hnfc.dsl.soundness.orthogonal import orthogonal_pair
from hnfc.dsl.soundness.ranges import FIRST_RANGE, IndexRanges
from hnfc.dsl.soundness.signs import NEG, POS, ZEROS
from hnfc.dsl.soundness.term import (
    ONE,
    ZERO,
    Atom,
    Exponent,
    Index,
    Mono,
    Proposition,
    Rational,
    Terms,
    TooLarge,
    atom,
    const,
    content,
    factor,
    of_atom,
    of_mono,
    of_terms,
    order,
    primitive_coefficient,
    product,
    total,
)

MAX_DEPTH = 60
MAX_EDGE = 4


def prefix(base: Atom, ixs: frozenset[Index]) -> tuple[Index, Rational, bool] | None:
    """(j, e, False) for the indicator [j ≤ e] of a bound index j, (j, e, True) for [j > e]."""
    if base.kind != "ind" or base.args[0].kind != ">=":
        return None
    term: Rational = base.args[0].args[0]
    inside = term.ixs & ixs
    if len(inside) != 1 or not term.polynomial:
        return None
    (j,) = inside
    index = of_atom(atom("ix", (j,)))
    for sign in (1, -1):
        rest = term + index.scale(Fraction(sign))
        if j not in rest.ixs:
            return (j, rest, False) if sign == 1 else (j, -rest - ONE, True)
    return None


class Reductions(IndexRanges):
    """Σ, Π, max and min over finitely many, at least one, elements. `orthogonal`: captures that are orthogonal matrices."""

    orthogonal: frozenset[str] = frozenset()

    def copies(self, ixs: Sequence[Index], body: Rational) -> tuple[tuple[Index, ...], Rational]:
        """The body with new free indices in the place of the bound ones."""
        new = []
        for i in ixs:
            self.fresh += 1
            new.append(Index(i.cls, "free", self.fresh))
        return tuple(new), self.rename(body, dict(zip(ixs, new, strict=True)))

    def tell(
        self, theorem: str, says: Proposition, x: Rational, mask: int, quantified: tuple[Index, ...], hypothesis: Proposition | None
    ) -> None:
        """The sign of x is in mask for all values of the quantified indices, by what the theorem says where its hypothesis holds."""
        self.signs.add(x, mask, quantified)

    def sum(self, ixs: Sequence[Index], body: Rational) -> Rational:
        """Σ is linear: factors without the index come out, sums split, nested sums merge, Σ_ij a_i·b_j = Σa·Σb, Σ c = n·c."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooLarge("deep sums")
        try:
            outside, inner = self._den_apart(frozenset(ixs), body)
            return outside * total(self._sum_term(frozenset(ixs), mono, c, inner.den) for mono, c in inner.num.items())
        finally:
            self.depth -= 1

    def _den_apart(self, ixs: frozenset[Index], body: Rational) -> tuple[Rational, Rational]:
        """(1/d, b) with body = b/d and d free of the indices."""
        if body.polynomial:
            return ONE, body
        if not any(i in ixs for base in {x for m in body.den for x, _ in m} for i in base.ixs):
            return Rational(body.den).inverse(), Rational(body.num)
        _, _, parts = factor(body.den)
        free = [(Rational(p), m) for p, m in parts if not Rational(p).ixs & ixs]
        if not free:
            return ONE, body
        outside = product(p.power(m) for p, m in free)
        return outside.inverse(), body * outside

    def _sum_term(self, ixs: frozenset[Index], mono: Mono, c: Fraction, den: Terms) -> Rational:
        outer = of_mono(tuple((x, e) for x, e in mono if not x.ixs & ixs), c)
        inside = [(x, e) for x, e in mono if x.ixs & ixs]
        if len(den) == 1:
            for base, e in inside:
                if base.kind == "sum" and isinstance(e, int) and 0 < e <= 4:
                    rest = of_mono(tuple((x, f - (1 if x is base else 0)) for x, f in inside if x is not base or f > 1))
                    new, inner = self.copies(base.args[0], base.args[1])
                    return outer * self.sum((*ixs, *new), rest * inner)
        pair = orthogonal_pair(inside, ixs, self.orthogonal) if self.orthogonal and len(den) == 1 else None
        if pair is not None:
            j, l = pair.places
            rest = of_mono(pair.rest)
            if j == l:
                return outer * self.sum(tuple(ixs - {pair.summed}), rest)
            if j in ixs or l in ixs:
                gone, kept = (l, j) if l in ixs else (j, l)
                return outer * self.sum(tuple(ixs - {pair.summed, gone}), self.rename(rest, {gone: kept}))
        moved = self._to_edge(ixs, inside) if len(den) == 1 else None
        if moved is not None:
            return outer * moved
        groups: list[tuple[set[Index], list[tuple[Atom, Exponent]], bool]] = []
        pieces: list[tuple[set[Index], list[tuple[Atom, Exponent]], bool]] = [(set(x.ixs & ixs), [(x, e)], False) for x, e in inside]
        if len(den) > 1:
            pieces.append((set(Rational(den).ixs & ixs), [], True))
        for touched, members, is_den in pieces:
            apart = []
            for group in groups:
                if group[0] & touched:
                    touched |= group[0]
                    members = group[1] + members
                    is_den = is_den or group[2]
                else:
                    apart.append(group)
            groups = [*apart, (touched, members, is_den)]
        result = outer
        used: set[Index] = set()
        for touched, members, is_den in groups:
            used |= touched
            part = of_mono(tuple(sorted(members, key=lambda p: p[0].id)))
            result = result * self.bind("sum", touched, part * Rational(ONE.num, den) if is_den else part)
        for i in ixs - used:
            result = result * self.size_of(i.cls)
        return result

    def _to_edge(self, ixs: frozenset[Index], inside: list[tuple[Atom, Exponent]]) -> Rational | None:
        """Σ [j ≤ e + c]·f(j) as Σ [j ≤ e]·f(j) and the terms from e to e + c, for a small integer c; likewise for j ≥ e + 1 + c."""
        for base, _ in inside:
            edge = prefix(base, ixs)
            if edge is None:
                continue
            j, last, upwards = edge
            more = last.num.get((), Fraction(0))
            start = last - const(more)
            if j.cls not in self.ranged and j.cls < FIRST_RANGE:
                continue
            if not self._is_place(j.cls, start):
                start, more = start - ONE, more + 1
            if start.constant() is not None or not more or abs(more) > MAX_EDGE:
                continue
            rest = of_mono(tuple((x, e) for x, e in inside if x is not base))
            terms = []
            for d in range(1, int(more) + 1) if more > 0 else range(int(more) + 1, 1):
                at = start + const(d)
                if not self._is_place(j.cls, at):
                    break
                terms.append(self.sum(tuple(ixs - {j}), self.rename(rest, {j: self.place(j.cls, at)})))
            else:
                kept = self.relation(">=", start - of_atom(atom("ix", (j,))))
                within = self.ite(kept, ONE, ZERO, True)
                whole = self.sum(tuple(ixs), rest * (ONE - within if upwards else within))
                return whole + total(terms) if (more > 0) != upwards else whole - total(terms)
        return None

    def _is_place(self, cls: int, number: Rational) -> bool:
        """Return whether the number is surely that of an element of the class."""
        conds = (self.relation(">=", number), self.relation(">", self.size_of(cls) - number))
        return all(self.truth(cond) is True for cond in conds)

    def bind(self, kind: str, ixs: Iterable[Index], body: Rational) -> Rational:
        """The atom that binds the indices, named by position; among the orders of equal classes the least term is taken."""
        level = body.level
        groups = [sorted(g) for _, g in itertools.groupby(sorted(ixs), key=lambda i: i.cls)]
        if any(len(g) > 4 for g in groups):
            raise TooLarge("many bound indices")
        # an index of the body that is bound further out, and was put into it, keeps its name
        taken = {i.n for i in body.ixs if i.kind == "bound" and i not in ixs}
        numbers = [p for p in range(level * 16, level * 16 + 16) if p not in taken][:4]
        if len(numbers) < 4:
            raise TooLarge("many bound indices")
        best: tuple[object, tuple[Index, ...], Rational] | None = None
        for orders in itertools.product(*(itertools.permutations(g) for g in groups)):
            renaming = {i: Index(i.cls, "bound", number) for group in orders for i, number in zip(group, numbers, strict=False)}
            term = self.rename(body, renaming)
            if term.level > level:
                raise TooLarge("a renamed body gained a binder")
            key = tuple(sorted((order(m), c) for m, c in term.num.items())), tuple(sorted((order(m), c) for m, c in term.den.items()))
            if best is None or key < best[0]:  # type: ignore[operator]
                best = key, tuple(sorted(renaming.values())), term
        assert best is not None
        _, bound, term = best
        if kind == "sum" and len(term.num) > len(body.num) and len(term.den) == 1 and not frozenset(bound) <= frozenset(ixs):
            # an indicator became 1 minus another under the new names
            return self.sum(bound, term)
        if kind == "sum":
            lone = len(term.num) == 1
            c = next(iter(term.num.values())) if lone else primitive_coefficient(term.num) if term.num else Fraction(0)
            return of_atom(atom(kind, bound, term.scale(1 / c))).scale(c) if c else ZERO
        return of_atom(atom(kind, bound, term))

    def extreme(self, kind: str, ixs: Sequence[Index], body: Rational) -> Rational:
        """max(x + c) = max(x) + c, max(c·x) = c·max(x) for c ≥ 0, max(-x) = -min(x), over finitely many indices."""
        inside = frozenset(ixs) & body.ixs
        if not inside:
            return body
        terms = body.num if body.polynomial else {}
        free = {m: c for m, c in terms.items() if not any(x.ixs & inside for x, _ in m)}
        if free:
            return of_terms(free) + self.extreme(kind, ixs, of_terms({m: c for m, c in terms.items() if m not in free}))
        outside = ONE
        if body.polynomial:
            common = tuple((x, e) for x, e in content(body.num) if not x.ixs & inside)
            if common:
                outside = of_mono(common)
        else:
            outside, _ = self._den_apart(inside, body)
        mask = self.sign(outside) if outside != ONE else POS
        if outside != ONE and (not mask & NEG or not mask & POS) and (ZEROS & ~mask or outside.polynomial):
            rest = body * outside.inverse()
            if not mask & NEG:
                return outside * self.extreme(kind, ixs, rest)
            return outside * self.extreme("min" if kind == "max" else "max", ixs, rest)
        scale = primitive_coefficient(body.num)
        body = body.scale(1 / scale)
        if scale < 0:
            kind = "min" if kind == "max" else "max"
        lone = body.single()
        if lone and len(lone[0]) == 1 and lone[0][0][1] == 1 and lone[0][0][0].kind == kind:
            new, inner = self.copies(*lone[0][0][0].args)
            return self.extreme(kind, (*inside, *new), inner).scale(scale)
        within = self._through_increasing(kind, ixs, body)
        return (self.bind(kind, inside, body) if within is None else within).scale(scale)

    def _through_increasing(self, kind: str, ixs: Sequence[Index], body: Rational) -> Rational | None:
        """max f(a) = f(max a) for increasing f: exp, log and roots, where the body is nothing else."""
        lone = body.single()
        if lone is None or lone[1] != 1:
            return None
        if all(x.kind == "exp" for x, _ in lone[0]):
            return self.exp(self.extreme(kind, ixs, total(x.args[0].scale(Fraction(e)) for x, e in lone[0])))
        ((base, e), *others) = lone[0]
        if others or (base.kind != "root" and e != 1):
            return None
        if base.kind == "log":
            return self.log_of(self.extreme(kind, ixs, base.args[0]))
        if base.kind == "root":
            return self.root_power(self.extreme(kind, ixs, base.args[0]), Fraction(e))
        return None

    def prod(self, ixs: Sequence[Index], body: Rational) -> Rational:
        """Π of positives is exp Σ log."""
        if self.sign(body) == POS:
            return self.exp(self.sum(ixs, self.log_of(body)))
        inside = frozenset(ixs) & body.ixs
        if not inside or inside != frozenset(ixs):
            raise TooLarge("a product over an axis along which its body does not vary")
        lone = body.single()
        if lone and all(isinstance(e, int) and e > 0 and x.ixs >= inside for x, e in lone[0]) and lone[1] == 1:
            return product(self.bind("prod", inside, of_atom(x)).power(int(e)) for x, e in lone[0])
        return self.bind("prod", inside, body)
