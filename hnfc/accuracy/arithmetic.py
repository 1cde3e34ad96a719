"""Exact arithmetic on terms: sums whose parts cancel, quotients with common factors, constants.

Every step is an identity of the field of rational functions, or of the square root: wherever the term has a value, what it becomes
has the same one. Sums are expanded to polynomials in the subterms that are no sums or products; a denominator is such a subterm with
the power -1.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TypeAlias

from hnfc.accuracy.terms import Term, Terms, is_const, subterms
from hnfc.dsl.polynomials import accumulate, added, rational_root, summed_exponents

Monomial: TypeAlias = tuple[tuple[int, int], ...]
"""(index of an atom, power), in the order of the indices."""
Polynomial: TypeAlias = dict[Monomial, Fraction]

_LARGEST = 24
"""Polynomials with more monomials than this are left alone."""


class TermSimplifier:
    """Simplifies terms of one table; what was seen is kept."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self._polynomials: dict[Term, Polynomial | None] = {}
        self._atoms: dict[int, Term] = {}
        self._tidied: dict[Term, Term] = {}

    def make(self, op: str, *args: Term, value: object = None) -> Term:
        """The operation on the operands, tidied."""
        return self.tidy(self.terms.make(op, *args, value=value))

    def tidy(self, term: Term) -> Term:
        """The term with its outermost operation done, where that leaves less to do."""
        found = self._tidied.get(term)
        if found is None:
            found = self._tidied[term] = self._tidy(term)
            self._tidied[found] = found
        return found

    def all_tidy(self, term: Term) -> Term:
        """The term with every operation tidied, from the inside out."""
        made: dict[Term, Term] = {}
        for node in subterms(term):
            made[node] = self.make(node.op, *(made[a] for a in node.args), value=node.value) if node.args else node
        return made[term]

    def _tidy(self, term: Term) -> Term:
        if term.op in ("add", "sub"):
            return self._sum(term)
        if term.op in ("mul", "div"):
            return self._product(term)
        if term.op == "neg":
            return self.terms.make("neg", self.tidy(term.args[0]))
        if term.op == "sqrt" and term.args[0].op == "const":
            root = rational_root(term.args[0].value, 2)
            return term if root is None else self.terms.const(root)
        if term.op == "pow" and term.args[1].op == "const":
            return self._power(term, *term.args)
        return _constant_value(self.terms, term)

    def _power(self, term: Term, base: Term, exponent: Term) -> Term:
        """Small whole powers as products, and the power 1/2 as a root."""
        if exponent.value == Fraction(1, 2):
            return self.terms.make("sqrt", base)
        if exponent.value in (1, 2, 3, 4):
            return _folded(self.terms, [base] * int(exponent.value))
        return term

    # sums ----------------------------------------------------------------------------------------------------------

    def _sum(self, term: Term) -> Term:
        polynomial = self.polynomial(term)
        if polynomial is None:
            return term
        if len(polynomial) < _parts(term):
            return self.term(polynomial)
        expanded = [self.polynomial(a) for a in term.args]
        if len(polynomial) < sum(len(p) for p in expanded if p is not None):
            shorter = self.term(polynomial)
            return shorter if shorter.size < term.size else term
        return term

    def polynomial(self, term: Term) -> Polynomial | None:
        """The term as a polynomial in atoms; None where that is too long."""
        if term not in self._polynomials:
            self._polynomials[term] = self._expand(term)
        return self._polynomials[term]

    def _expand(self, term: Term) -> Polynomial | None:
        if term.op == "const":
            return {(): term.value} if term.value else {}
        if term.op in ("add", "sub", "mul", "neg", "div"):
            parts = [self.polynomial(a) for a in term.args]
            if any(p is None for p in parts):
                return self._atom(term)
            if term.op == "neg":
                return {m: -c for m, c in parts[0].items()}  # type: ignore[union-attr]
            x, y = parts
            assert x is not None and y is not None
            if term.op in ("add", "sub"):
                total = added(x, y, 1 if term.op == "add" else -1)
                return total if len(total) <= _LARGEST else None
            if term.op == "div":
                return self._quotient(term, x, y)
            return self.multiplied(x, y)
        return self._atom(term)

    def _quotient(self, term: Term, x: Polynomial, y: Polynomial) -> Polynomial | None:
        if len(y) == 1:
            ((m, c),) = y.items()
            return self.multiplied(x, {tuple((a, -p) for a, p in m): 1 / c})
        if not y:
            return self._atom(term)
        (below,) = self._atom(term.args[1])
        return self.multiplied(x, {tuple((a, -p) for a, p in below): Fraction(1)})

    def atom(self, index: int) -> Term:
        """The term that a monomial names."""
        return self._atoms[index]

    def index_of(self, atom: Term) -> int:
        """The number that monomials name the term by."""
        self._atoms[atom.index] = atom
        return atom.index

    def _atom(self, term: Term) -> Polynomial:
        return {((self.index_of(term), 1),): Fraction(1)}

    def multiplied(self, x: Polynomial, y: Polynomial) -> Polynomial | None:
        """The product of two polynomials; None where it is too long."""
        if len(x) * len(y) > 4 * _LARGEST:
            return None
        result: Polynomial = {}
        for m, c in x.items():
            for n, d in y.items():
                for monomial, factor in self._joined(m, n).items():
                    accumulate(result, monomial, c * d * factor)
        return result if len(result) <= _LARGEST else None

    def _joined(self, m: Monomial, n: Monomial) -> Polynomial:
        powers = summed_exponents(m, n)
        whole: Polynomial = {(): Fraction(1)}
        for a, p in list(powers.items()):
            atom = self._atoms[a]
            if atom.op == "sqrt" and p >= 2:
                inner = self.polynomial(atom.args[0])
                if inner is not None:
                    powers[a] = p - 2
                    product = self.multiplied(whole, inner)
                    if product is None:
                        powers[a] = p
                    else:
                        whole = product
        rest = tuple(sorted((a, p) for a, p in powers.items() if p))
        if whole == {(): Fraction(1)}:
            return {rest: Fraction(1)}
        return self.multiplied(whole, {rest: Fraction(1)}) or {rest: Fraction(0)}

    def term(self, polynomial: Polynomial) -> Term:
        """The polynomial as a sum of products, those of higher degree first."""
        terms = self.terms
        if not polynomial:
            return terms.zero
        ordered = sorted(polynomial.items(), key=lambda part: (-sum(p for _, p in part[0]), part[0]))
        total: Term | None = None
        for monomial, coefficient in ordered:
            part = self._monomial(monomial, abs(coefficient))
            if total is None:
                total = part if coefficient > 0 else terms.make("neg", part)
            else:
                total = terms.make("add" if coefficient > 0 else "sub", total, part)
        assert total is not None
        return total

    def _monomial(self, monomial: Monomial, coefficient: Fraction) -> Term:
        above = [self._atoms[a] for a, p in monomial for _ in range(p)]
        below = [self._atoms[a] for a, p in monomial for _ in range(-p)]
        return self.fraction(coefficient, above, below)

    def fraction(self, coefficient: Fraction, above: list[Term], below: list[Term]) -> Term:
        """coefficient · Π above / Π below."""
        terms = self.terms
        if coefficient == 0:
            return terms.zero
        sign, coefficient = coefficient < 0, abs(coefficient)
        if coefficient.denominator != 1 and coefficient.numerator == 1 and above:
            top, bottom = above, [terms.const(coefficient.denominator), *below]
        else:
            top, bottom = ([terms.const(coefficient), *above] if coefficient != 1 or not above else above), below
        result = _folded(terms, top)
        if bottom:
            result = terms.make("div", result, _folded(terms, bottom))
        return terms.make("neg", result) if sign else result

    # products --------------------------------------------------------------------------------------------------------

    def _product(self, term: Term) -> Term:
        powers: dict[Term, int] = {}
        order: list[Term] = []
        coefficient, constants = Fraction(1), 0
        stack = [(term, 1)]
        while stack:
            node, power = stack.pop()
            if node.op in ("mul", "div"):
                stack.append((node.args[1], power if node.op == "mul" else -power))
                stack.append((node.args[0], power))
            elif node.op == "neg":
                coefficient = -coefficient
                stack.append((node.args[0], power))
            elif node.op == "const":
                if node.value == 0:
                    return self.terms.zero if power > 0 else term
                coefficient *= node.value**power
                constants += 1
            else:
                if node not in powers:
                    powers[node] = 0
                    order.append(node)
                powers[node] += power
                if node.op == "sqrt" and abs(powers[node]) == 2:
                    sign = powers[node] // 2
                    powers[node] = 0
                    if sign > 0:
                        return self._rebuilt(term, node)
                    powers[node] = -2
        factors = _factors(term)
        left = sum(abs(p) for p in powers.values())
        if left == factors and constants <= 1:
            return term
        above = [t for t in order for _ in range(powers[t])]
        below = [t for t in order for _ in range(-powers[t])]
        return self.fraction(coefficient, above, below)

    def _rebuilt(self, term: Term, root: Term) -> Term:
        """The product with sqrt(u)·sqrt(u) as u."""
        above: list[Term] = []
        below: list[Term] = []
        taken = 0
        coefficient = Fraction(1)
        stack = [(term, 1)]
        while stack:
            node, power = stack.pop()
            if node.op in ("mul", "div"):
                stack.append((node.args[1], power if node.op == "mul" else -power))
                stack.append((node.args[0], power))
            elif node.op == "neg":
                coefficient = -coefficient
                stack.append((node.args[0], power))
            elif node.op == "const" and (node.value or power > 0):
                coefficient *= node.value**power
            elif node is root and power > 0 and taken < 2:
                taken += 1
            else:
                (above if power > 0 else below).append(node)
        return self.tidy(self.fraction(coefficient, [root.args[0], *above], below))


def _parts(term: Term) -> int:
    """Number of summands that are written."""
    if term.op in ("add", "sub"):
        return _parts(term.args[0]) + _parts(term.args[1])
    return _parts(term.args[0]) if term.op == "neg" else 1


def _factors(term: Term) -> int:
    """Number of factors that are written, constants aside."""
    if term.op in ("mul", "div"):
        return _factors(term.args[0]) + _factors(term.args[1])
    if term.op == "neg":
        return _factors(term.args[0])
    return 0 if term.op == "const" else 1


def _folded(terms: Terms, factors: list[Term]) -> Term:
    result = factors[0] if factors else terms.one
    for factor in factors[1:]:
        result = terms.make("mul", result, factor)
    return result


_AT_ZERO = {"sin": 0, "tan": 0, "asin": 0, "atan": 0, "sinh": 0, "tanh": 0, "asinh": 0, "atanh": 0, "cbrt": 0, "expm1": 0, "log1p": 0,
            "cos": 1, "cosh": 1, "exp": 1}  # fmt: skip


def _constant_value(terms: Terms, term: Term) -> Term:
    if len(term.args) == 1 and term.op in _AT_ZERO and is_const(term.args[0], 0):
        return terms.const(_AT_ZERO[term.op])
    if term.op == "abs" and term.args[0].op == "const":
        return terms.const(abs(term.args[0].value))
    if term.op == "cbrt" and term.args[0].op == "const":
        root = rational_root(term.args[0].value, 3)
        return term if root is None else terms.const(root)
    if term.op == "log" and is_const(term.args[0], 1):
        return terms.zero
    return term
