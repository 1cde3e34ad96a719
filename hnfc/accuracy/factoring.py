"""Other writings of a polynomial that cancels: as a product, with squares of differences, by the powers of one atom, over one denominator.

What is found is the same polynomial, which is checked by expanding it; of a quotient that is its numerator. Factors are flint's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import chain

from hnfc.accuracy.arithmetic import Monomial, Polynomial, TermSimplifier
from hnfc.accuracy.terms import Term
from hnfc.dsl.polynomials import Ring, accumulate, rational_root, summed_exponents

_ROOTS = {"sqrt": 2, "cbrt": 3}
_MOST_ATOMS = 8
_MOST_DEGREE = 12
"""Limits of what is factored: beyond them a factor is no help to anybody."""


class PolynomialForms:
    """Writings of the sums of one table of terms."""

    def __init__(self, arithmetic: TermSimplifier) -> None:
        self.arithmetic = arithmetic
        self.terms = arithmetic.terms

    def of(self, term: Term) -> Iterator[Term]:
        """Other writings of a sum, each once; none for what is no sum, or too large."""
        if term.op not in ("add", "sub"):
            return
        polynomial = self._polynomial(term)
        if polynomial is None or len(polynomial) < 2 or not _small(polynomial):
            return
        seen = {term}
        for form in chain(self._writings(polynomial), self._quotients(polynomial)):
            if form not in seen:
                seen.add(form)
                yield form

    def _writings(self, polynomial: Polynomial) -> Iterator[Term]:
        made = [self._product(polynomial), self._with_squares(polynomial)]
        made += [self._by_powers(polynomial, atom) for atom in _atoms(polynomial)]
        for form in made:
            if form is not None and self._polynomial(form) == polynomial:
                yield form

    def _polynomial(self, term: Term) -> Polynomial | None:
        """The term as a polynomial in few atoms: of those that are powers of each other one is kept."""
        polynomial = self.arithmetic.polynomial(term)
        if polynomial is None:
            return None
        powers = self._powers(_atoms(polynomial))
        if not powers:
            return polynomial
        result: Polynomial = {}
        for monomial, c in polynomial.items():
            merged = summed_exponents((), tuple((base, p * e) for a, p in monomial for base, e in [powers.get(a, (a, 1))]))
            accumulate(result, tuple(sorted((a, p) for a, p in merged.items() if p)), c)
        return result

    def _powers(self, atoms: list[int]) -> dict[int, tuple[int, int]]:
        """Atoms that are a power of another one: that one, and the exponent.

        x is √x·√x wherever √x has a value, x**5 is x to the power 5, exponentials of multiples of one number are powers of the smallest.
        """
        found: dict[int, tuple[int, int]] = {}
        exponents: dict[Monomial, list[tuple[int, Fraction]]] = {}
        for atom in atoms:
            term = self.arithmetic.atom(atom)
            if term.op in _ROOTS and term.args[0].index in atoms:
                found[term.args[0].index] = atom, _ROOTS[term.op]
            if term.op == "pow" and term.args[1].op == "const" and term.args[1].value.denominator == 1 and term.args[1].value > 0:
                found[atom] = self.arithmetic.index_of(term.args[0]), int(term.args[1].value)
            if term.op == "exp":
                inner = self.arithmetic.polynomial(term.args[0])
                if inner is not None and len(inner) == 1:
                    ((monomial, c),) = inner.items()
                    exponents.setdefault(monomial, []).append((atom, c))
        for monomial, parts in exponents.items():
            unit = Fraction(math.gcd(*(c.numerator for _, c in parts)), math.lcm(*(c.denominator for _, c in parts)))
            if any(c < 0 for _, c in parts) or all(c == unit for _, c in parts):
                continue
            base = self.arithmetic.index_of(self.terms.make("exp", self.arithmetic.term({monomial: unit})))
            found.update({atom: (base, int(c / unit)) for atom, c in parts})
        return found

    def _quotients(self, polynomial: Polynomial) -> Iterator[Term]:
        """The polynomial over the product of the sums that it is divided by."""
        below = {
            atom: most
            for atom in _atoms(polynomial)
            if (most := max(-power for m in polynomial for a, power in m if a == atom)) > 0
            and self.arithmetic.atom(atom).op in ("add", "sub")
        }
        if not below:
            return
        above = self._times(polynomial, below)
        if above is None or not above or not _small(above):
            return
        divisors = [self.arithmetic.atom(atom) for atom, power in below.items() for _ in range(power)]
        plain = self.arithmetic.term(above)
        for form in [*([plain] if self._polynomial(plain) == above else []), *self._writings(above)]:
            yield self.arithmetic.fraction(Fraction(1), [form], divisors)

    def _times(self, polynomial: Polynomial, atoms: Mapping[int, int]) -> Polynomial | None:
        """The polynomial times powers of sums, these expanded where they do not cancel."""
        total: Polynomial = {}
        for monomial, c in polynomial.items():
            powers = dict(monomial)
            product: Polynomial | None = {tuple((a, p) for a, p in monomial if a not in atoms): c}
            for atom, most in atoms.items():
                expanded = self.arithmetic.polynomial(self.arithmetic.atom(atom))
                for _ in range(most + powers.get(atom, 0)):
                    if expanded is None or product is None:
                        return None
                    product = self.arithmetic.multiplied(product, expanded)
            if product is None:
                return None
            for m, coefficient in product.items():
                accumulate(total, m, coefficient)
        return total

    def _product(self, polynomial: Polynomial) -> Term | None:
        """The polynomial in factors; None where it has but one."""
        common = _common(polynomial)
        rest = _divided(polynomial, common)
        ring = Ring(lambda atom: atom, rest)
        content, factors = ring.enter(rest).factor()
        whole = [(ring.leave(factor), int(power)) for factor, power in factors]
        if sum(power for _, power in whole) + len(common) < 2:
            return None
        coefficient = Fraction(int(content.p), int(content.q))
        above = [self.arithmetic.atom(a) for a, p in common for _ in range(p)]
        below = [self.arithmetic.atom(a) for a, p in common for _ in range(-p)]
        for factor, power in whole:
            sign = _sign(factor)
            coefficient *= sign**power
            above += [self._sum({m: c * sign for m, c in factor.items()})] * power
        return self.arithmetic.fraction(coefficient, above, below)

    def _with_squares(self, polynomial: Polynomial) -> Term | None:
        """The polynomial with what it can give to squares of sums and differences of two; None where that is nothing."""
        rest, squares = dict(polynomial), list[Term]()
        for mixed in sorted(polynomial):
            for x, y in _pairs(rest, mixed):
                square = self._square(rest, mixed, x, y)
                if square is not None:
                    squares.append(square)
                    break
        if not squares:
            return None
        total = squares[0]
        for square in squares[1:]:
            total = self.terms.make("add", total, square)
        return self.terms.make("add", total, self._sum(rest)) if rest else total

    def _square(self, rest: Polynomial, mixed: Monomial, x: Monomial, y: Monomial) -> Term | None:
        """c·(p·x ± q·y)², taken from the rest, where the rest has the squares of x and y for it."""
        a, b, c = rest.get(_squared(x), Fraction(0)), rest.get(_squared(y), Fraction(0)), rest[mixed]
        if not a or not b or (a > 0) != (b > 0):
            return None
        sign = 1 if a > 0 else -1
        half = abs(c) / 2
        p = q = Fraction(1)
        if half > min(abs(a), abs(b)):
            first, second = rational_root(abs(a), 2), rational_root(abs(b), 2)
            if first is None or second is None or first * second != half:
                return None
            p, q, half = first, second, Fraction(1)
        q = q if c * sign > 0 else -q
        for monomial, taken in ((_squared(x), p * p), (_squared(y), q * q), (mixed, 2 * p * q)):
            accumulate(rest, monomial, -sign * half * taken)
        inner = self._sum({x: p, y: q})
        return self.arithmetic.fraction(sign * half, [inner, inner], [])

    def _by_powers(self, polynomial: Polynomial, atom: int) -> Term | None:
        """A sum over the powers of an atom, coefficients in factors; None where no coefficient is a sum, or has factors."""
        parts: dict[int, Polynomial] = {}
        for m, c in polynomial.items():
            parts.setdefault(dict(m).get(atom, 0), {})[tuple((a, p) for a, p in m if a != atom)] = c
        products = {power: self._product(part) for power, part in parts.items() if len(part) > 1}
        if len(parts) < 2 or not any(power or product is not None for power, product in products.items()):
            return None
        total = None
        for power, part in sorted(parts.items()):
            form = products.get(power) or self._sum(part)
            if power:
                base = self.arithmetic.fraction(Fraction(1), [self.arithmetic.atom(atom)] * abs(power), [])
                form = self.terms.make("mul" if power > 0 else "div", form, base)
            total = form if total is None else self.terms.make("add", total, form)
        return total

    def _sum(self, polynomial: Polynomial) -> Term:
        """The polynomial as a sum of products, a positive one first."""
        if _sign(polynomial) > 0:
            return self.arithmetic.term(polynomial)
        return self.terms.make("neg", self.arithmetic.term({m: -c for m, c in polynomial.items()}))


def _small(polynomial: Polynomial) -> bool:
    return len(_atoms(polynomial)) <= _MOST_ATOMS and all(sum(abs(p) for _, p in m) <= _MOST_DEGREE for m in polynomial)


def _atoms(polynomial: Polynomial) -> list[int]:
    return sorted({atom for m in polynomial for atom, _ in m})


def _common(polynomial: Polynomial) -> Monomial:
    """The monomial that divides all, with negative powers where some have them."""
    powers = {atom: min(dict(m).get(atom, 0) for m in polynomial) for atom in _atoms(polynomial)}
    return tuple((atom, power) for atom, power in powers.items() if power)


def _divided(polynomial: Polynomial, monomial: Monomial) -> Polynomial:
    inverse = tuple((atom, -power) for atom, power in monomial)
    return {tuple(sorted((a, p) for a, p in summed_exponents(m, inverse).items() if p)): c for m, c in polynomial.items()}


def _sign(polynomial: Polynomial) -> int:
    """1 if the first part, as sums are written, is positive; -1 else."""
    _, c = min(polynomial.items(), key=lambda part: (-sum(p for _, p in part[0]), part[0]))
    return 1 if c > 0 else -1


def _squared(monomial: Monomial) -> Monomial:
    return tuple((atom, 2 * power) for atom, power in monomial)


def _pairs(polynomial: Polynomial, mixed: Monomial) -> Iterator[tuple[Monomial, Monomial]]:
    """Two monomials whose product is the mixed one, and whose squares are in the polynomial."""
    if mixed not in polynomial:
        return
    roots = [tuple((a, p // 2) for a, p in m) for m in sorted(polynomial) if m != mixed and all(p % 2 == 0 for _, p in m)]
    for i, x in enumerate(roots):
        for y in roots[i + 1 :]:
            if tuple(sorted((a, p) for a, p in summed_exponents(x, y).items() if p)) == mixed:
                yield x, y
