"""Constructors that bring every function into normal form, under the facts of one case of a proof.

Each constructor is an identity of real analysis, named where it is used. Where an identity needs a sign, it is taken only if the
sign is known; where the sign of a term without bound indices decides the form, `Split` asks for a case distinction.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction

from hnfc.dsl.soundness.signs import ANY, NEG, NONNEG, NONPOS, POS, ZEROS, Contradiction, Signs, flip, mask_of, times
from hnfc.dsl.soundness.term import (
    FALSE,
    ONE,
    TRUE,
    ZERO,
    Atom,
    Cond,
    Exponent,
    Ix,
    Mono,
    Rational,
    Terms,
    TooLarge,
    atom,
    const,
    content,
    factor,
    mono_pow,
    of_atom,
    of_mono,
    of_terms,
    order,
    primitive_coefficient,
    product,
    total,
)

MAX_DEPTH = 60
RESULT_INDICES = 100
"""Free indices below this number are those of the result; others are bound or quantified somewhere."""


class Split(Exception):
    """The proof must go by cases of this condition."""

    def __init__(self, cond: Cond) -> None:
        super().__init__(str(cond))
        self.cond = cond


class NotProved(Exception):
    """An obligation of the right side does not follow."""


class Normalizer:
    """Builds normal forms. `entails` is the slow oracle behind the sign rules (Z3), asked only for what would block."""

    def __init__(self, entails: Callable[[Signs, Cond], bool] | None = None) -> None:
        self.signs = Signs(self.rename)
        self.entails = entails
        self.subst: dict[Atom, Rational] = {}
        self.bound: list[Ix] = []
        self.guards: list[Cond] = []
        self.guarded: set[tuple[tuple[Cond, ...], Cond]] = set()
        self.defined_powers: set[tuple[Rational, Rational]] = set()
        self.proving = False
        self.settled = False
        self.obligations = 0
        self.fresh = 10_000
        self.depth = 0
        self.slow: dict[tuple[Rational, int], int] = {}
        self.steps: list[str] = []

    # signs and conditions

    def sign(self, x: Rational) -> int:
        """The sign of x, with the oracle's help where arithmetic alone leaves it open."""
        mask = self.signs.sign(x)
        if mask in (POS, NEG, ZEROS) or self.entails is None:
            return mask
        key = (x, self.signs.version)
        if key not in self.slow:
            found = mask
            for part, cond in ((NEG, Cond(">=", x)), (POS, Cond("not", Cond(">", x)))):
                if found & part and self.entails(self.signs, cond):
                    found &= ~part
            if found & ZEROS and found != ZEROS and self.entails(self.signs, Cond("not", Cond("=", x))):
                found &= ~ZEROS
            self.slow[key] = found
        return self.slow[key] & mask or mask

    def splittable(self, ixs: Iterable[Ix]) -> bool:
        """Only the result's own indices occur, so a case distinction is one over values, not over functions."""
        return all(i.kind == "free" and i.n < RESULT_INDICES for i in ixs)

    def compare(self, predicate: str, x: Rational, y: Rational) -> Cond:
        difference = x - y
        match predicate:
            case "eq":
                return self.relation("=", difference)
            case "ne":
                return negation(self.relation("=", difference))
            case "gt":
                return self.relation(">", difference)
            case "ge":
                return self.relation(">=", difference)
            case "lt":
                return self.relation(">", -difference)
            case "le":
                return self.relation(">=", -difference)
        raise ValueError(predicate)

    def relation(self, kind: str, x: Rational) -> Cond:
        """x kind 0, scaled by a positive number; a negative leading coefficient turns it into a negation."""
        c = x.constant()
        if c is not None:
            return TRUE if (c > 0 and kind != "=") or (c == 0 and kind != ">") else FALSE
        scale = primitive_coefficient(x.num)
        x = x.scale(1 / scale)
        if scale > 0 or kind == "=":
            return Cond(kind, x)
        return Cond("not", Cond(">=" if kind == ">" else ">", x))

    def truth(self, cond: Cond) -> bool | None:
        match cond.kind:
            case "true" | "false":
                return cond.kind == "true"
            case "not":
                inner = self.truth(cond.args[0])
                return None if inner is None else not inner
            case "and" | "or":
                stop = cond.kind == "or"
                values = [self.truth(part) for part in cond.args]
                if stop in values:
                    return stop
                return None if None in values else not stop
            case ">" | ">=" | "=":
                mask, wanted = self.sign(cond.args[0]), mask_of(cond.kind)
                return True if not mask & ~wanted else False if not mask & wanted else None
        return self.signs.truths.get(cond)

    def decide(self, cond: Cond) -> bool | None:
        """The truth of cond, by cases if it has no bound index; None if it has and is open."""
        known = self.truth(cond)
        if known is not None:
            return known
        match cond.kind:
            case "not":
                inner = self.decide(cond.args[0])
                return None if inner is None else not inner
            case "and" | "or":
                values = []
                for part in cond.args:
                    value = self.decide(part)
                    if value == (cond.kind == "or"):
                        return value
                    values.append(value)
                return None if None in values else cond.kind == "and"
        if self.splittable(cond.ixs):
            raise Split(cond)
        return None

    @contextlib.contextmanager
    def guard(self, cond: Cond) -> Iterator[None]:
        """Inside, cond holds: for a branch that is taken only then. Contradiction: it never is."""
        before = self.signs
        self.signs = before.copy()
        self.guards.append(cond)
        try:
            self.signs.assume(cond)
            yield
        finally:
            self.signs = before
            self.guards.pop()

    def settle(self) -> None:
        """From here on every definedness condition is known to hold, and terms are built again with all facts at hand."""
        self.settled = True
        self.slow.clear()
        self.__dict__.pop("memo", None)

    def require(self, cond: Cond) -> None:
        """The value being built is defined only if cond: a fact on the left side, to be proved on the right."""
        self.obligations += 1
        guards = tuple(self.guards)
        if self.settled:
            return
        if cond.kind == "true" or (self.proving and (guards, cond) in self.guarded):
            return
        if self.proving:
            if self.truth(cond) is True or (cond.kind in ("or", "and") and self.entails and self.entails(self.signs, cond)):
                self.signs.assume(cond)
                return
            raise NotProved(f"the right side needs {cond}")
        if guards:
            self.guarded.add((guards, cond))
        self.signs.assume(cond, True, () if guards else tuple(self.bound))

    def assume_equal(self, x: Rational) -> None:
        """x = 0: a captured value that occurs linearly is eliminated."""
        for base in sorted(x.atoms, key=lambda a: -a.id):
            if base.kind != "cap" or not x.polynomial or not self.splittable(base.ixs):
                continue
            here = {m: c for m, c in x.num.items() if any(a is base for a, _ in m)}
            mono, c = next(iter(here.items()))
            rest = Rational({m: -d / c for m, d in x.num.items() if m not in here})
            if len(here) == 1 and mono == ((base, 1),) and base not in deep_atoms(rest):
                self.subst = {a: self.replace_atoms(v, {base: rest}) for a, v in self.subst.items()}
                self.subst[base] = rest
                return

    # elementary functions

    def capture(self, name: str, ixs: tuple[Ix, ...]) -> Rational:
        base = atom("cap", name, ixs)
        known = self.subst.get(base)
        return of_atom(base) if known is None else known

    def divide(self, x: Rational, y: Rational) -> Rational:
        self.require(negation(self.relation("=", y)))
        if y.zero:
            raise Contradiction
        return x * y.inverse()

    def exp(self, x: Rational) -> Rational:
        """exp(a + b) = exp(a)·exp(b), exp(c·log a) = a^c; exp(m) of a monomial m is an atom with rational exponents."""
        result = ONE
        for mono, c in x.num.items():
            if x.polynomial and len(mono) == 1 and mono[0][0].kind == "log" and mono[0][1] == 1:
                result = result * self.root_power(mono[0][0].args[0], c)
            elif x.polynomial:
                result = result * of_atom(atom("exp", Rational({mono: Fraction(1)})), c)
            else:
                part = of_mono(mono) * Rational({(): Fraction(1)}, x.den)
                scale = primitive_coefficient(part.num)
                result = result * of_atom(atom("exp", part.scale(1 / scale)), c * scale)
        return result

    def log(self, x: Rational) -> Rational:
        self.require(self.relation(">", x))
        return self.log_of(x)

    def log_of(self, x: Rational) -> Rational:
        """log(ab) = log a + log b for positive factors; what has no known sign stays together."""
        if x.zero:
            raise Contradiction
        result, sign, open_parts = ZERO, 1, ONE
        for base, exponent in self.factored(x):
            c = base.constant()
            if c is not None:
                if c < 0:
                    sign = -sign
                result = result + log_rational(abs(c)).scale(Fraction(exponent))
                continue
            mask = self.sign(base)
            if mask == NEG and isinstance(exponent, int):
                base, mask = -base, POS
                sign = -sign if exponent % 2 else sign
            if mask == POS:
                result = result + self.log_atom(base).scale(Fraction(exponent))
            elif isinstance(exponent, int):
                open_parts = open_parts * base.power(exponent)
            else:
                open_parts = open_parts * of_atom(next(iter(base.atoms)), exponent)
        open_parts = open_parts.scale(Fraction(sign))
        if open_parts == ONE:
            return result
        if open_parts.constant() is not None:
            raise Contradiction
        scale = abs(primitive_coefficient(open_parts.num))
        return result + log_rational(scale) + of_atom(atom("log", open_parts.scale(1 / scale)))

    def log_atom(self, base: Rational) -> Rational:
        """log of a positive factor: log exp a = a, log √a = ½ log a, log Π = Σ log."""
        lone = base.single()
        if lone and len(lone[0]) == 1 and lone[1] == 1:
            (inner, e) = lone[0][0]
            if inner.kind == "exp":
                return inner.args[0].scale(Fraction(e))
            if inner.kind == "root":
                return self.log_of(inner.args[0]).scale(Fraction(e))
            if inner.kind == "prod" and not self.sign(inner.args[1]) & NONPOS:
                return self.sum(inner.args[0], self.log_of(inner.args[1]))
        return of_atom(atom("log", base))

    def factored(self, x: Rational) -> list[tuple[Rational, Exponent]]:
        """x as a product of powers of constants, atoms and irreducible polynomials."""
        parts: list[tuple[Rational, Exponent]] = []
        for terms, sign in ((x.num, 1), (x.den, -1)):
            if terms == ONE.num:
                continue
            c, mono, polynomials = factor(terms)
            parts.append((const(c), sign))
            for base, e in mono:
                lone = Rational({((base, 1),): Fraction(1)})
                parts.append((lone, sign * e))
            parts += [(Rational(polynomial), sign * m) for polynomial, m in polynomials]
        return [(base, e) for base, e in parts if base != ONE]

    def sqrt(self, x: Rational) -> Rational:
        self.require(self.relation(">=", x))
        return self.root_power(x, Fraction(1, 2))

    def root_power(self, x: Rational, c: Fraction) -> Rational:
        """x^c for x ≥ 0 (x > 0 if c < 0): (ab)^c = a^c·b^c for nonnegative factors, (a²)^c = |a|^(2c)."""
        if c.denominator == 1:
            return x.power(int(c)) if abs(c) <= 64 else of_atom(atom("powc", x, c))
        if x.zero:
            return ZERO
        result, negative = ONE, False
        open_parts: list[tuple[Rational, Exponent, int]] = []
        for base, e in self.factored(x):
            exponent = Fraction(e) * c
            value = base.constant()
            if value is not None:
                negative ^= value < 0
                result = result * power_of_rational(abs(value), exponent)
                continue
            only = next(iter(base.atoms)) if base.single() and len(base.atoms) == 1 else None
            if only is not None and only.kind in ("root", "exp"):
                result = result * of_mono(((only, exponent),))
                continue
            mask = self.sign(base)
            if isinstance(e, int) and e % 2 == 0:
                mask = power_sign(mask, e)
            elif isinstance(e, int) and not mask & POS:
                base, mask, negative = -base, flip(mask), not negative
            open_parts.append((base, e, mask))
        all_known = not any(mask & NEG for _, _, mask in open_parts)
        together = ONE
        for base, e, mask in open_parts:
            if mask == POS or (all_known and not negative):
                result = result * self._power_of_factor(base, e, Fraction(e) * c)
            else:
                together = together * base.power(int(e))
        if negative:
            together = -together
        if together == ONE:
            return result
        if together.constant() is not None:
            raise TooLarge("a root of a negative number")
        return result * of_mono(((atom("root", together), c),))

    def _power_of_factor(self, base: Rational, e: Exponent, exponent: Fraction) -> Rational:
        """(base^e)^(exponent/e) for base^e ≥ 0: an even e leaves |base|."""
        if isinstance(e, int) and e % 2 == 0:
            base = self.abs(base)
        if exponent.denominator == 1:
            return base.power(int(exponent))
        return of_mono(((atom("root", base), exponent),))

    def pow(self, x: Rational, y: Rational) -> Rational:
        """x^y: a power for integer y, a root for rational y and x ≥ 0, exp(y·log x) for x > 0, and otherwise only itself."""
        c = y.constant()
        if c is not None and c.denominator == 1 and abs(c) <= 64:
            if c < 0:
                self.require(negation(self.relation("=", x)))
                if x.zero:
                    raise Contradiction
            return x.power(int(c))
        if c is not None and c.denominator > 1:
            self.require(self.relation(">=" if c > 0 else ">", x))
            return self.root_power(x, c)
        if self.sign(x) == POS:
            return self.exp(y * self.log_of(x))
        if self.proving and not self.settled and (x, y) not in self.defined_powers:
            raise NotProved(f"the right side needs ({x})^({y}) to be defined")
        if not self.guards and not self.bound:
            self.defined_powers.add((x, y))
        self.obligations += 1
        return of_atom(atom("pow", x, y))

    def abs(self, x: Rational) -> Rational:
        mask = self.sign(x)
        if not mask & NEG:
            return x
        if not mask & POS:
            return -x
        if self.splittable(x.ixs):
            raise Split(self.relation(">=", x if primitive_coefficient(x.num) > 0 else -x))
        result = ONE
        for base, e in self.factored(x):
            value = base.constant()
            if value is not None:
                result = result.scale(abs(value) ** int(e))
                continue
            known = self.sign(base)
            if not known & NEG:
                part = base
            elif not known & POS:
                part = -base
            elif isinstance(e, int):
                part = of_mono(((atom("abs", base), e),))
                result = result * part
                continue
            else:
                part = base
            result = result * (part.power(int(e)) if isinstance(e, int) else of_mono(((next(iter(part.atoms)), e),)))
        return result

    def maximum(self, x: Rational, y: Rational) -> Rational:
        """max(x, y) = (x + y + |x - y|)/2."""
        return (x + y + self.abs(x - y)).scale(Fraction(1, 2))

    def minimum(self, x: Rational, y: Rational) -> Rational:
        return (x + y - self.abs(x - y)).scale(Fraction(1, 2))

    def odd(self, kind: str, x: Rational) -> Rational:
        """f(-x) = -f(x), f(0) = 0."""
        if x.zero:
            return ZERO
        if x.leading() < 0:
            return -of_atom(atom(kind, -x))
        return of_atom(atom(kind, x))

    def even(self, kind: str, x: Rational) -> Rational:
        """f(-x) = f(x), f(0) = 1."""
        if x.zero:
            return ONE
        return of_atom(atom(kind, -x if x.leading() < 0 else x))

    def arc(self, kind: str, x: Rational) -> Rational:
        """asin and acos, on [-1, 1]; acos x = π/2 - asin x stays unused."""
        self.require(self.relation(">=", ONE - x))
        self.require(self.relation(">=", ONE + x))
        return self.odd(kind, x) if kind == "asin" else of_atom(atom(kind, x))

    def floor(self, x: Rational) -> Rational:
        c = x.constant()
        return const(math.floor(c)) if c is not None else of_atom(atom("floor", x))

    def opaque(self, kind: str, *xs: Rational) -> Rational:
        return of_atom(atom(kind, *xs))

    def lgamma(self, x: Rational) -> Rational:
        """Defined for x > 0, and (not used here) at negative non-integers."""
        if self.sign(x) != POS and not self.settled and (x, ZERO) not in self.defined_powers:
            if self.proving:
                raise NotProved(f"the right side needs lgamma({x}) to be defined")
            if not self.guards and not self.bound:
                self.defined_powers.add((x, ZERO))
        self.obligations += 1
        return of_atom(atom("lgamma", x))

    def ite(self, cond: Cond, x: Rational, y: Rational, linear: bool) -> Rational:
        """[p]·x + (1 - [p])·y where both branches are defined anyway."""
        if x == y:
            return x
        if cond.kind == "not":
            return self.ite(cond.args[0], y, x, linear)
        if linear:
            ind = of_atom(atom("ind", cond))
            return ind * x + (ONE - ind) * y
        return of_atom(atom("ite", cond, x, y))

    # reductions

    def copies(self, ixs: Sequence[Ix], body: Rational) -> tuple[tuple[Ix, ...], Rational]:
        """The body with new free indices in the place of the bound ones."""
        new = []
        for i in ixs:
            self.fresh += 1
            new.append(Ix(i.cls, "free", self.fresh))
        return tuple(new), self.rename(body, dict(zip(ixs, new, strict=True)))

    def sum(self, ixs: Sequence[Ix], body: Rational) -> Rational:
        """Σ is linear: factors without the index come out, sums split, nested sums merge, Σ_ij a_i·b_j = Σa·Σb, Σ c = n·c."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooLarge("deep sums")
        try:
            outside, inner = self._den_apart(frozenset(ixs), body)
            return outside * total(self._sum_term(frozenset(ixs), mono, c, inner.den) for mono, c in inner.num.items())
        finally:
            self.depth -= 1

    def _den_apart(self, ixs: frozenset[Ix], body: Rational) -> tuple[Rational, Rational]:
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

    def _sum_term(self, ixs: frozenset[Ix], mono: Mono, c: Fraction, den: Terms) -> Rational:
        outer = of_mono(tuple((x, e) for x, e in mono if not x.ixs & ixs), c)
        inside = [(x, e) for x, e in mono if x.ixs & ixs]
        if len(den) == 1:
            for base, e in inside:
                if base.kind == "sum" and isinstance(e, int) and 0 < e <= 4:
                    rest = of_mono(tuple((x, f - (1 if x is base else 0)) for x, f in inside if x is not base or f > 1))
                    new, inner = self.copies(base.args[0], base.args[1])
                    return outer * self.sum((*ixs, *new), rest * inner)
        groups: list[tuple[set[Ix], list[tuple[Atom, Exponent]], bool]] = []
        for base, e, is_den in [(x, e, False) for x, e in inside] + ([(None, 1, True)] if len(den) > 1 else []):
            touched = set((base.ixs if base is not None else Rational(den).ixs) & ixs)
            members = [(base, e)] if base is not None else []
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
        used: set[Ix] = set()
        for touched, members, is_den in groups:
            used |= touched
            part = of_mono(tuple(sorted(members, key=lambda p: p[0].id)))
            result = result * self.bind("sum", touched, part * Rational(ONE.num, den) if is_den else part)
        for i in ixs - used:
            result = result * of_atom(atom("size", i.cls))
        return result

    def bind(self, kind: str, ixs: Iterable[Ix], body: Rational) -> Rational:
        """The atom that binds the indices, named by position; among the orders of equal classes the least term is taken."""
        level = body.level
        groups = [sorted(g) for _, g in itertools.groupby(sorted(ixs), key=lambda i: i.cls)]
        if any(len(g) > 4 for g in groups):
            raise TooLarge("many bound indices")
        best: tuple[object, tuple[Ix, ...], Rational] | None = None
        for orders in itertools.product(*(itertools.permutations(g) for g in groups)):
            renaming = {i: Ix(i.cls, "bound", level * 16 + p) for group in orders for p, i in enumerate(group)}
            term = self.rename(body, renaming)
            if term.level > level:
                raise TooLarge("a renamed body gained a binder")
            key = tuple(sorted((order(m), c) for m, c in term.num.items())), tuple(sorted((order(m), c) for m, c in term.den.items()))
            if best is None or key < best[0]:  # type: ignore[operator]
                best = key, tuple(sorted(renaming.values())), term
        assert best is not None
        _, bound, term = best
        if kind == "sum":
            lone = len(term.num) == 1
            c = next(iter(term.num.values())) if lone else primitive_coefficient(term.num) if term.num else Fraction(0)
            return of_atom(atom(kind, bound, term.scale(1 / c))).scale(c) if c else ZERO
        return of_atom(atom(kind, bound, term))

    def extreme(self, kind: str, ixs: Sequence[Ix], body: Rational) -> Rational:
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
        bound = self.bind(kind, inside, body)
        return bound.scale(scale)

    def prod(self, ixs: Sequence[Ix], body: Rational) -> Rational:
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

    # renaming

    def rename(self, x: Rational, renaming: dict[Ix, Ix]) -> Rational:
        """x with indices renamed, in normal form again."""
        if not x.ixs & renaming.keys():
            return x
        return self.map_atoms(x, lambda base: self._rename_atom(base, renaming))

    def map_atoms(self, x: Rational, image: Callable[[Atom], Rational | None]) -> Rational:
        """x with image(atom) for every atom that has one."""
        images = {base: image(base) for base in x.atoms}

        def terms(source: Terms) -> Rational:
            result = ZERO
            for mono, c in source.items():
                kept = tuple((b, e) for b, e in mono if images[b] is None)
                part = of_mono(kept, c)
                for base, e in mono:
                    new = images[base]
                    if new is not None:
                        part = part * self.power_of_image(base, new, e)
                result = result + part
            return result

        num = terms(x.num)
        return num if x.polynomial else num * terms(x.den).inverse()

    def power_of_image(self, base: Atom, new: Rational, e: Exponent) -> Rational:
        if isinstance(e, int):
            return new.power(e)
        lone = new.single()
        if base.kind == "root" or lone is None or lone[1] != 1 or any(b.kind != "exp" for b, _ in lone[0]):
            return self.root_power(new, Fraction(e))
        return of_mono(mono_pow(lone[0], e))

    def _rename_atom(self, base: Atom, renaming: dict[Ix, Ix]) -> Rational | None:
        if not base.ixs & renaming.keys():
            return None
        if base.kind == "cap":
            return self.capture(base.args[0], tuple(renaming.get(i, i) for i in base.args[1]))
        return self.rebuild(base, lambda x: self.rename(x, renaming), lambda p: self.rename_cond(p, renaming))

    def rename_cond(self, cond: Cond, renaming: dict[Ix, Ix]) -> Cond:
        if not cond.ixs & renaming.keys():
            return cond
        match cond.kind:
            case ">" | ">=" | "=":
                return self.relation(cond.kind, self.rename(cond.args[0], renaming))
            case "cap":
                return Cond("cap", cond.args[0], tuple(renaming.get(i, i) for i in cond.args[1]))
            case "not":
                return negation(self.rename_cond(cond.args[0], renaming))
        return Cond(cond.kind, *(self.rename_cond(part, renaming) for part in cond.args))

    def replace_atoms(self, x: Rational, table: dict[Atom, Rational]) -> Rational:
        """x with atoms replaced by equal terms, at every depth outside binders."""
        if not deep_atoms(x) & table.keys():
            return x

        def image(base: Atom) -> Rational | None:
            if base in table:
                return table[base]
            if base.kind in ("cap", "size"):
                return None
            return self.rebuild(base, lambda y: self.replace_atoms(y, table), lambda p: p)

        return self.map_atoms(x, image)

    def rebuild(self, base: Atom, term: Callable[[Rational], Rational], cond: Callable[[Cond], Cond]) -> Rational:
        """The atom's function of mapped arguments; definedness was dealt with when the atom was made."""
        args = base.args
        match base.kind:
            case "exp":
                return self.exp(term(args[0]))
            case "log":
                return self.log_of(term(args[0]))
            case "root":
                return term(args[0])  # raised to the exponent by `power_of_image`
            case "abs":
                return self.abs(term(args[0]))
            case "erf" | "sin" | "atan" | "asin":
                return self.odd(base.kind, term(args[0]))
            case "cos" | "i0":
                return self.even(base.kind, term(args[0]))
            case "sum":
                return self.sum(*self.copies(args[0], term(args[1]))) if args[0] else ZERO
            case "max" | "min":
                return self.extreme(base.kind, *self.copies(args[0], term(args[1])))
            case "prod":
                return self.prod(*self.copies(args[0], term(args[1])))
            case "ind":
                return self.ite(cond(args[0]), ONE, ZERO, True)
            case "ite":
                return self.ite(cond(args[0]), term(args[1]), term(args[2]), False)
            case "floor":
                return self.floor(term(args[0]))
            case "size" | "cap":
                return of_atom(base)
        return of_atom(atom(base.kind, *(term(a) if isinstance(a, Rational) else a for a in args)))


def negation(cond: Cond) -> Cond:
    match cond.kind:
        case "true":
            return FALSE
        case "false":
            return TRUE
        case "not":
            inner: Cond = cond.args[0]
            return inner
    return Cond("not", cond)


def connect(kind: str, *parts: Cond) -> Cond:
    """The conjunction or disjunction, without constants and repetitions, in a fixed order."""
    neutral, absorbing = (TRUE, FALSE) if kind == "and" else (FALSE, TRUE)
    flat: list[Cond] = []
    for part in parts:
        for cond in part.args if part.kind == kind else (part,):
            if cond == absorbing:
                return absorbing
            if cond != neutral and cond not in flat:
                flat.append(cond)
    if not flat:
        return neutral
    if any(negation(cond) in flat for cond in flat):
        return absorbing
    return flat[0] if len(flat) == 1 else Cond(kind, *sorted(flat, key=repr))


def power_sign(mask: int, e: Exponent) -> int:
    if isinstance(e, int) and e % 2 == 0:
        return (POS if mask & ~ZEROS else 0) | (mask & ZEROS)
    return mask


def deep_atoms(x: Rational) -> frozenset[Atom]:
    """The atoms of x and of their arguments."""
    seen: set[Atom] = set()
    stack = list(x.atoms)
    while stack:
        base = stack.pop()
        if base in seen:
            continue
        seen.add(base)
        queue = list(base.args)
        while queue:
            arg = queue.pop()
            if isinstance(arg, Rational):
                stack += arg.atoms
            elif isinstance(arg, Cond):
                queue += arg.args
    return frozenset(seen)


def prime_powers(n: int) -> dict[int, int]:
    """The factorization of n; a factor beyond trial division stays whole."""
    result: dict[int, int] = {}
    p = 2
    while p * p <= n and p < 1000:
        while n % p == 0:
            result[p] = result.get(p, 0) + 1
            n //= p
        p += 1
    if n > 1:
        result[n] = result.get(n, 0) + 1
    return result


def log_rational(c: Fraction) -> Rational:
    """log of a positive rational as a combination of logs of primes."""
    result = ZERO
    for n, sign in ((c.numerator, 1), (c.denominator, -1)):
        for p, e in prime_powers(n).items():
            result = result + of_atom(atom("log", const(p))).scale(Fraction(sign * e))
    return result


def power_of_rational(c: Fraction, e: Fraction) -> Rational:
    """c^e for a nonnegative rational, as a product of roots of primes."""
    if c == 0:
        return ZERO
    result = ONE
    for n, sign in ((c.numerator, 1), (c.denominator, -1)):
        for p, k in prime_powers(n).items():
            whole = sign * k * e
            if whole.denominator == 1:
                result = result.scale(Fraction(p) ** int(whole))
            else:
                below = math.floor(whole)
                result = result * of_mono(((atom("root", const(p)), whole - below),), Fraction(p) ** below)
    return result


__all__ = [
    "ANY", "NONNEG", "Contradiction", "Normalizer", "NotProved", "Split", "connect", "flip", "negation", "power_of_rational", "times",
]  # fmt: skip
