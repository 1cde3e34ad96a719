"""Terms and conditions as Z3 expressions: every atom is a real variable, and denominators are multiplied out.

What holds for all values of the variables holds for all functions that the atoms stand for. An atom with fractional exponents is
nonnegative; its variable is then one of its roots, so that all exponents are integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

import z3

from hnfc.dsl.polynomials import MOST_DEGREE
from hnfc.dsl.soundness.monomial import TooLarge
from hnfc.dsl.soundness.term import Atom, Proposition, Rational, Terms, atom, of_atom

Named = list[tuple[str, z3.BoolRef]]


class SolverTranslation:
    """`collect` everything first: which root of an atom its variable is depends on all exponents."""

    def __init__(self, name: Callable[[Atom | Proposition], str]) -> None:
        self.name = name
        self.atoms: dict[Atom, None] = {}
        self.scales: dict[Atom, int] = {}
        self.variables: dict[Atom | Proposition, z3.ExprRef] = {}

    def collect(self, conds: Iterable[Proposition]) -> None:
        for cond in conds:
            for arg in cond.args:
                if isinstance(arg, Proposition):
                    self.collect([arg])
                elif isinstance(arg, Rational):
                    self.collect_term(arg)

    def collect_term(self, x: Rational) -> None:
        new = [base for base in sorted(x.atoms, key=lambda a: a.id) if base not in self.atoms]
        self.atoms.update(dict.fromkeys(new))
        for terms in (x.num, x.den):
            for mono in terms:
                for base, e in mono:
                    self.scales[base] = math.lcm(self.scales.get(base, 1), Fraction(e).denominator)
        for base in new:
            # `roots` says what these are, in terms of others
            if base.kind == "root":
                self.collect_term(base.args[0])
            elif base.kind == "sin":
                self.collect_term(of_atom(atom("cos", *base.args)))

    def variable(self, base: Atom) -> tuple[z3.ArithRef, int]:
        """(v, d) with v^d = the atom; d > 1 only for atoms that are nonnegative."""
        if base not in self.variables:
            self.variables[base] = z3.Real(self.name(base))
        return self.variables[base], self.scales.get(base, 1)

    def terms(self, terms: Terms, shift: dict[Atom, int]) -> z3.ArithRef:
        """The polynomial times the monomial `shift`. Raises TooLarge beyond MOST_DEGREE."""
        parts = []
        for mono, c in terms.items():
            factors = [z3.RealVal(f"{c.numerator}/{c.denominator}")] if c != 1 or not mono else []
            powers = dict(mono)
            for base in {**shift, **powers}:
                v, scale = self.variable(base)
                e = Fraction(powers.get(base, 0)) * scale + shift.get(base, 0)
                if e.denominator != 1:
                    raise ValueError(f"{base} was not collected")
                if e > MOST_DEGREE:
                    raise TooLarge(f"a power of degree {e}")
                factors += [v] * int(e)
            parts.append(z3.Product(*factors) if len(factors) > 1 else factors[0] if factors else z3.RealVal(1))
        return z3.Sum(*parts) if len(parts) > 1 else parts[0] if parts else z3.RealVal(0)

    def shifts(self, terms: Terms, even: bool = True) -> dict[Atom, int]:
        """Powers of nonzero atoms that clear the negative exponents; even ones, which are positive, change no sign."""
        shift: dict[Atom, int] = {}
        for mono in terms:
            for base, e in mono:
                if e < 0:
                    k = int(-Fraction(e) * self.scales.get(base, 1))
                    shift[base] = max(shift.get(base, 0), k + (k % 2 if even else 0))
        return shift

    def cond(self, cond: Proposition) -> z3.BoolRef:
        match cond.kind:
            case "true" | "false":
                return z3.BoolVal(cond.kind == "true")
            case "not":
                return z3.Not(self.cond(cond.args[0]))
            case "and":
                return z3.And(*(self.cond(c) for c in cond.args))
            case "or":
                return z3.Or(*(self.cond(c) for c in cond.args))
            case "cap":
                if cond not in self.variables:
                    self.variables[cond] = z3.Bool(self.name(cond))
                return self.variables[cond]
        x: Rational = cond.args[0]
        num = self.terms(x.num, self.shifts(x.num))
        if cond.kind == "=":
            return num == 0
        if not x.polynomial:
            num = num * self.terms(x.den, self.shifts(x.den))
        return num > 0 if cond.kind == ">" else num >= 0

    def roots(self) -> Named:
        """Facts about the variables for roots and fractional powers."""
        found: Named = []
        for base in list(self.variables):
            if isinstance(base, Proposition):
                continue
            v, scale = self.variable(base)
            if base.kind == "root":
                found.append(("root-nonnegative", v >= 0))
                inner: Rational = base.args[0]
                value = self.terms(inner.num, self.shifts(inner.num))
                if inner.polynomial and not self.shifts(inner.num):
                    power = z3.Product(*[v] * scale) if scale > 1 else v
                    found.append(("root-power", z3.Implies(value >= 0, power == value)))
            elif base.kind == "sin":
                cosine, _ = self.variable(atom("cos", *base.args))
                found.append(("pythagoras", v * v + cosine * cosine == 1))
            elif scale > 1:
                found.append(("power-positive", v > 0))
        return found
