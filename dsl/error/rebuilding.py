"""Formulas built anew: with the names of operations replaced by what they mean, and with atoms replaced by others."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from hnfc.dialects.num import OPERATIONS
from hnfc.dsl.core import Literal
from hnfc.dsl.error.algebra import Algebra
from hnfc.dsl.error.differentiation import JetMath
from hnfc.dsl.error.jets import Jet
from hnfc.dsl.error.polynomial import (
    BINDING,
    ONE,
    ZERO,
    ErrorAtom,
    Poly,
    as_base,
    const,
    excluded,
    expanded,
    joined,
    lowered,
    of_atom,
    of_mono,
    power,
)

PRIMITIVES = frozenset(("log", "sin", "cos", "atan", "asin", "acos", "atan2", "erf", "lgamma", "i0", "floor", "pow"))


class Rebuilding:
    """`image(atom)` is the new value of an atom whose parts are new already, or None where it stays."""

    def __init__(self, algebra: Algebra, image: Callable[[ErrorAtom], Poly | None]) -> None:
        self.algebra, self.image = algebra, image
        self.memo: dict[str, Poly] = {}

    def formula(self, x: Poly) -> Poly:
        if x.key not in self.memo:
            result = ZERO
            for mono, c in x.terms.items():
                part = const(c)
                for atom, e in mono:
                    part = part * (of_mono({atom: e}) if (new := self.atom(atom)) is None else power(new, e))
                result = result + part
            self.memo[x.key] = self.algebra.tidy(result)
        return self.memo[x.key]

    def atom(self, atom: ErrorAtom) -> Poly | None:
        """The new value, or None where nothing changes."""
        changed = self._parts(atom)
        if changed is None:
            return self.image(atom)
        lone = changed.single()
        if lone and lone[1] == 1 and len(lone[0]) == 1 and lone[0][0][1] == 1:
            found = self.image(lone[0][0][0])
            return changed if found is None else found
        return changed

    def _parts(self, atom: ErrorAtom) -> Poly | None:
        args = atom.args
        parts = [self.formula(x) for x in _polynomials(args)]
        if parts == _polynomials(args):
            return None
        algebra = self.algebra
        match atom.kind:
            case "base":
                return parts[0]
            case "exp":
                return algebra.exp(parts[0])
            case "abs":
                return _absolute(parts[0], algebra)
            case "sign":
                return algebra.direction(parts[0])
            case "fn":
                return algebra.log(parts[0]) if args[0] == "log" else algebra.function(args[0], *parts, attributes=args[2])
            case "sum" | "prod" | "max" | "min":
                shape = joined((args[1].vary, dict(args[2])))
                if atom.kind in ("max", "min"):
                    return algebra.extreme(atom.kind, parts[0], args[0], shape, atom.like)
                reduce = algebra.sum if atom.kind == "sum" else algebra.prod
                return reduce(parts[0], args[0], shape, atom.like)
        return None


def _absolute(x: Poly, algebra: Algebra) -> Poly:
    """|x|, without bars if the sign of x shows, perhaps as one fraction."""
    return algebra.absolute(min((x, algebra.over_one_denominator(x)), key=lambda p: not algebra.sign(p)))


def _polynomials(args: tuple[Any, ...]) -> list[Poly]:
    """The formulas that an atom is made of."""
    found: list[Poly] = []
    for arg in args:
        if isinstance(arg, Poly):
            found.append(arg)
        elif isinstance(arg, tuple) and arg and all(isinstance(part, Poly) for part in arg):
            found += arg
    return found


def meaning(x: Poly, algebra: Algebra) -> Poly:
    """The formula with every operation replaced by its formula over elementary functions, and logarithms of products split."""
    math = JetMath(algebra, ())

    def image(atom: ErrorAtom) -> Poly | None:
        if atom.kind == "abs":
            # more may be known of its sign than when it was made
            found = _absolute(atom.args[0], algebra)
            return None if found == of_atom(atom) else found
        if atom.kind != "fn":
            return None
        name, operands, attributes = atom.args
        if name == "log":
            return _split_logarithm(operands[0], algebra)
        real = OPERATIONS[name].FACTS.real
        if name in PRIMITIVES or attributes or real is None:
            return None
        jets = [Jet(math, operand, {}, operand.vary, Literal(Fraction(0))) for operand in operands]
        result = real(math, *jets)
        if not isinstance(result, Jet) or result.value == of_atom(atom):
            return None
        return Rebuilding(algebra, image).formula(result.value)

    return Rebuilding(algebra, image).formula(x)


def with_exponentials_split(x: Poly, algebra: Algebra) -> Poly:
    """exp(p + q) as exp(p)·exp(q), so that a factor that does not vary along a sum comes out of it."""

    def image(atom: ErrorAtom) -> Poly | None:
        if atom.kind != "exp" or len(atom.args[0].terms) < 2:
            return None
        result = ONE
        for mono, c in atom.args[0].terms.items():
            result = result * algebra.exp(of_mono(dict(mono), c))
        return result

    return Rebuilding(algebra, image).formula(x)


def cases_apart(x: Poly, algebra: Algebra) -> Poly:
    """x as [p]·a + [not p]·b with nothing conditional inside a and b, or as a where both are equal."""
    for atom in sorted(_conditions(x)):
        if atom.args[0][0] == "not" or _bound_within(atom, x):
            continue
        yes, no = (_supposed(x, atom, holds, algebra) for holds in (True, False))
        if yes == no:
            return cases_apart(yes, algebra)
        other = of_atom(ErrorAtom("ind", (("not", atom.args[0]),), atom.vary))
        return of_atom(atom) * cases_apart(yes, algebra) + other * cases_apart(no, algebra)
    return x


def _supposed(x: Poly, condition: ErrorAtom, holds: bool, algebra: Algebra) -> Poly:
    """x where a condition holds, or where it does not."""

    def image(atom: ErrorAtom) -> Poly | None:
        if atom.kind != "ind" or (atom != condition and not excluded(atom, condition)):
            return None
        return ONE if (atom == condition) == holds else ZERO

    return Rebuilding(algebra, image).formula(x)


def _conditions(x: Poly) -> set[ErrorAtom]:
    """The conditions at every depth."""
    found: set[ErrorAtom] = set()
    for atom in x.atoms:
        if atom.kind == "ind":
            found.add(atom)
        for part in _polynomials(atom.args):
            found |= _conditions(part)
    return found


def _bound_within(condition: ErrorAtom, x: Poly) -> bool:
    """Return whether the condition varies along a reduction that it stands in: there it is no case of the whole."""
    for atom in x.atoms:
        parts = _polynomials(atom.args)
        if atom.kind in BINDING and condition.vary and any(_holds(part, condition) for part in parts):
            return True
        if any(_bound_within(condition, part) for part in parts):
            return True
    return False


def _holds(x: Poly, condition: ErrorAtom) -> bool:
    return any(atom == condition or excluded(atom, condition) for atom in _conditions(x))


def with_sums_expanded(x: Poly, algebra: Algebra) -> Poly:
    """Σ(p - q)² as Σp² - 2Σpq + Σq²."""

    def image(atom: ErrorAtom) -> Poly | None:
        if atom.kind != "sum":
            return None
        axes, body, missing = atom.args
        found = algebra.sum(expanded(body), axes, joined((body.vary, dict(missing))), atom.like)
        return None if found == of_atom(atom) else found

    return Rebuilding(algebra, image).formula(x)


def _split_logarithm(x: Poly, algebra: Algebra) -> Poly | None:
    """log(exp(p)·q) = p + log q; log(1/q) = -log q for a q that is one atom; an argument that is a sum becomes one fraction."""
    lone = lowered_exponentials(algebra.over_one_denominator(x)).single()
    if lone is None:
        return None
    exponent, rest = ZERO, ONE
    for atom, e in lone[0]:
        if atom.kind == "exp":
            exponent = exponent + atom.args[0].scale(Fraction(e))
            continue
        inner = lowered_exponentials(atom.args[0]).single() if atom.kind == "base" else None
        if inner is None:
            rest = rest * of_mono({atom: e})
            continue
        for a, f in inner[0]:
            if a.kind == "exp":
                exponent = exponent + a.args[0].scale(Fraction(f) * e)
            else:
                rest = rest * of_mono({a: f * e})
    rest = rest.scale(lone[1])
    single = rest.single()
    if single and single[1] == 1 and len(single[0]) == 1 and single[0][0][1] < 0:
        return exponent - algebra.log(power(rest, -1))
    if exponent.zero and rest == x:
        return None
    return exponent + (ZERO if rest == ONE else algebra.log(rest))


def lowered_exponentials(x: Poly) -> Poly:
    """1 + exp(-p) as exp(-p)·(exp(p) + 1)."""
    below, top = lowered(x, "exp")
    return below * as_base(top) if below != ONE else x
