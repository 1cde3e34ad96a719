"""Z3 as the last resort: does a condition follow from the facts of a case and the ground axioms? Nonlinear real arithmetic.

Every atom becomes a real variable, so what Z3 proves holds for all functions that satisfy the axioms. A timeout counts as no.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable
from fractions import Fraction

import z3

from hnfc.dsl.soundness import axioms
from hnfc.dsl.soundness.signs import ANY, NEG, POS, ZEROS, Signs, assignments
from hnfc.dsl.soundness.term import Atom, Cond, Ix, Mono, Rational, Terms, TooLarge, of_atom

MAX_ATOMS = 40
MAX_PAIRS = 8
WITNESS = 1_000_000
"""Where the numbers of the indices start at which maxima are attained."""


class Closer:
    """`entails(signs, goal)` for one proof; `rename` instantiates bodies of maxima."""

    def __init__(self, rename: Callable[[Rational, dict[Ix, Ix]], Rational], timeout_ms: int, deadline: float) -> None:
        self.rename, self.timeout_ms, self.deadline = rename, timeout_ms, deadline
        self.queries = 0

    def entails(self, signs: Signs, goal: Cond, timeout_ms: int | None = None) -> bool:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.queries += 1
        try:
            query = _Query(self, signs, goal)
        except (TooLarge, ZeroDivisionError):
            return False
        return query.unsat(int(min(timeout_ms or self.timeout_ms, 1000 * left + 1)))


class _Query:
    def __init__(self, closer: Closer, signs: Signs, goal: Cond) -> None:
        self.closer, self.signs = closer, signs
        self.atoms: dict[Atom, None] = {}
        self.scales: dict[Atom, int] = {}
        self.variables: dict[tuple[Atom, int] | Cond, z3.ExprRef] = {}
        conds = [Cond("not", goal)]
        self.collect(conds)
        ixs = goal.ixs
        conds += self.maxima(ixs)
        conds += self.facts(frozenset(ixs | {i for a in self.atoms for i in a.ixs}))
        for _ in range(2):
            new = [cond for base in list(self.atoms) for _, cond in axioms.of(base)]
            self.collect(new)
        for kind in ("exp", "log", "erf", "atan"):
            alike = [a for a in self.atoms if a.kind == kind][:MAX_PAIRS]
            conds += [cond for x, y in itertools.combinations(alike, 2) for _, cond in axioms.of_pair(x, y)]
        conds += [cond for base in list(self.atoms) for _, cond in axioms.of(base)]
        self.collect(conds)
        if len(self.atoms) > MAX_ATOMS:
            raise TooLarge("many atoms")
        self.conds = list(dict.fromkeys(conds))

    def collect(self, conds: Iterable[Cond]) -> None:
        for cond in conds:
            for arg in cond.args:
                if isinstance(arg, Cond):
                    self.collect([arg])
                elif isinstance(arg, Rational):
                    self.atoms.update(dict.fromkeys(sorted(arg.atoms, key=lambda a: a.id)))
                    for terms in (arg.num, arg.den):
                        for mono in terms:
                            for base, e in mono:
                                self.scales[base] = math.lcm(self.scales.get(base, 1), Fraction(e).denominator)

    def maxima(self, ixs: Iterable[Ix]) -> list[Cond]:
        """max is an upper bound of the body at the indices in sight, and attained at an index of its own."""
        conds: list[Cond] = []
        for base in [a for a in self.atoms if a.kind in ("max", "min")]:
            bound, body = base.args
            sign = 1 if base.kind == "max" else -1
            value = of_atom(base)
            for renaming in assignments(bound, frozenset(ixs) | base.ixs):
                conds.append(Cond(">=", (value - self.closer.rename(body, renaming)).scale(Fraction(sign))))
            witness = {i: Ix(i.cls, "free", WITNESS + base.id) for i in bound}
            if len({i.cls for i in bound}) == len(bound):
                conds.append(Cond("=", value - self.closer.rename(body, witness)))
        self.collect(conds)
        return conds

    def facts(self, ixs: frozenset[Ix]) -> list[Cond]:
        """The facts that share an atom with the question, directly or through others."""
        pool: list[tuple[Rational, int]] = list(self.signs.ground.items())
        pool += list(self.signs.instantiated(ixs).items()) if self.signs.universal else []
        formulas = []
        for quantified, cond in self.signs.formulas:
            if not quantified:
                formulas.append(cond)
        conds: list[Cond] = []
        changed = True
        while changed and len(self.atoms) <= MAX_ATOMS:
            changed = False
            for x, mask in list(pool):
                if x.atoms & self.atoms.keys():
                    pool.remove((x, mask))
                    conds.append(in_mask(x, mask))
                    self.collect(conds[-1:])
                    changed = True
            for cond in list(formulas):
                formulas.remove(cond)
                conds.append(cond)
                self.collect([cond])
                changed = True
        for base in list(self.atoms):
            mask = self.signs.atom_sign(base) if base.kind in ("sum", "prod", "max", "min") else ANY
            if mask != ANY:
                conds.append(in_mask(of_atom(base), mask))
        return conds

    # translation

    def variable(self, base: Atom) -> tuple[z3.ArithRef, int]:
        """(v, d) with v^d = the atom; d > 1 only for atoms that are nonnegative."""
        scale = self.scales.get(base, 1)
        key = (base, scale)
        if key not in self.variables:
            self.variables[key] = z3.Real(f"a{base.id}")
        return self.variables[key], scale

    def terms(self, terms: Terms, shift: dict[Atom, int]) -> z3.ArithRef:
        parts = []
        for mono, c in terms.items():
            factors = [z3.RealVal(f"{c.numerator}/{c.denominator}")] if c != 1 or not mono else []
            powers = dict(mono)
            for base in {**shift, **powers}:
                v, scale = self.variable(base)
                e = Fraction(powers.get(base, 0)) * scale + shift.get(base, 0)
                factors += [v] * int(e)
            parts.append(z3.Product(*factors) if len(factors) > 1 else factors[0] if factors else z3.RealVal(1))
        return z3.Sum(*parts) if len(parts) > 1 else parts[0] if parts else z3.RealVal(0)

    def shifts(self, terms: Terms) -> dict[Atom, int]:
        """Even powers of nonzero atoms that clear the negative exponents."""
        shift: dict[Atom, int] = {}
        for mono in terms:
            for base, e in mono:
                if e < 0:
                    k = int(-Fraction(e) * self.scales.get(base, 1))
                    shift[base] = max(shift.get(base, 0), k + k % 2)
        return shift

    def cond(self, cond: Cond) -> z3.BoolRef:
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
                    self.variables[cond] = z3.Bool(f"p{len(self.variables)}")
                return self.variables[cond]
        x: Rational = cond.args[0]
        num = self.terms(x.num, self.shifts(x.num))
        if cond.kind == "=":
            return num == 0
        if not x.polynomial:
            num = num * self.terms(x.den, self.shifts(x.den))
        return num > 0 if cond.kind == ">" else num >= 0

    def unsat(self, timeout_ms: int) -> bool:
        solver = z3.SolverFor("QF_NRA")
        solver.set("timeout", max(1, timeout_ms))
        for cond in self.conds:
            solver.add(self.cond(cond))
        for key in list(self.variables):
            if isinstance(key, Cond):
                continue
            base, scale = key
            v = self.variables[key]
            if base.kind == "root":
                inner: Rational = base.args[0]
                value = self.terms(inner.num, self.shifts(inner.num))
                if inner.polynomial and not self.shifts(inner.num):
                    solver.add(v >= 0, z3.Implies(value >= 0, z3.Product(*[v] * scale) == value if scale > 1 else v == value))
                else:
                    solver.add(v >= 0)
            elif scale > 1:
                solver.add(v > 0)
        return bool(solver.check() == z3.unsat)


def in_mask(x: Rational, mask: int) -> Cond:
    parts = [c for bit, c in ((POS, Cond(">", x)), (ZEROS, Cond("=", x)), (NEG, Cond("not", Cond(">=", x)))) if mask & bit]
    match mask:
        case 3:
            return Cond(">=", x)
        case 6:
            return Cond("not", Cond(">", x))
        case 5:
            return Cond("not", Cond("=", x))
    return parts[0] if len(parts) == 1 else Cond("or", *parts)


__all__ = ["Closer", "Mono", "in_mask"]
