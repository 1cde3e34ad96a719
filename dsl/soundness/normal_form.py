"""The whole normal form: elementary functions and reductions, and terms built anew under a renaming or a replacement."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction

from hnfc.dsl.soundness.conditions import CaseSplit, NotProved, connect, negation
from hnfc.dsl.soundness.monomial import BINDERS
from hnfc.dsl.soundness.multiple_angles import angle_table
from hnfc.dsl.soundness.reductions import Reductions
from hnfc.dsl.soundness.signs import Contradiction
from hnfc.dsl.soundness.term import (
    ONE,
    ZERO,
    Atom,
    ComputedIndex,
    Exponent,
    Index,
    Place,
    Proposition,
    Rational,
    Terms,
    atom,
    mono_pow,
    of_atom,
    of_mono,
)

TUPLES = ("flat", "permuted", "restricted")
"""Functions of a tuple of places, which is their last argument."""


class Normalizer(Reductions):
    """Builds normal forms in one case of a proof."""

    def assume_equal(self, x: Rational) -> None:
        """x = 0: a captured value that occurs linearly is eliminated."""
        for base in sorted(x.atoms, key=lambda a: -a.id):
            if base.kind not in ("cap", "size", "floor") or not x.polynomial or not self.splittable(base.ixs):
                continue
            here = {m: c for m, c in x.num.items() if any(a is base for a, _ in m)}
            mono, c = next(iter(here.items()))
            rest = Rational({m: -d / c for m, d in x.num.items() if m not in here})
            if len(here) == 1 and mono == ((base, 1),) and base not in deep_atoms(rest):
                self.subst = {a: self.replace_atoms(v, {base: rest}) for a, v in self.subst.items()}
                self.subst[base] = rest
                return

    def follows_by_angles(self, cond: Proposition) -> bool:
        """Return whether the condition follows once all its sines and cosines, and those of the facts, are of one angle."""
        table = angle_table({base for x in (*terms_of(cond), *self.signs.ground) for base in deep_atoms(x)})
        if not table:
            return False
        self.note("multiple-angle", table)
        for x, mask in list(self.signs.ground.items()):
            if deep_atoms(x) & table.keys():
                self.signs.add(self.replace_atoms(x, table), mask)
        return self.truth(self._replaced(cond, table)) is True

    def _replaced(self, cond: Proposition, table: dict[Atom, Rational]) -> Proposition:
        if cond.kind in (">", ">=", "="):
            return self.relation(cond.kind, self.replace_atoms(cond.args[0], table))
        return Proposition(cond.kind, *(self._replaced(part, table) if isinstance(part, Proposition) else part for part in cond.args))

    def rename(self, x: Rational, renaming: Mapping[Index, Place]) -> Rational:
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

    def _rename_atom(self, base: Atom, renaming: Mapping[Index, Place]) -> Rational | None:
        if not base.ixs & renaming.keys():
            return None
        if base.kind == "cap":
            return self.capture(base.args[0], self.rename_places(base.args[1], renaming))
        if base.kind == "ix":
            (place,) = self.rename_places(base.args[0], renaming)
            return self.index_value(place)
        if base.kind in TUPLES:
            return of_atom(atom(base.kind, *base.args[:-1], self.rename_places(base.args[-1], renaming)))
        if base.kind in BINDERS and any(not named(place).isdisjoint(base.args[0]) for place in renaming.values()):
            # what comes in must not be bound here
            new, body = self.copies(*base.args)
            return self.reduction(base.kind, new, self.rename(body, renaming))
        return self.rebuild(base, lambda x: self.rename(x, renaming), lambda p: self.rename_cond(p, renaming))

    def reduction(self, kind: str, ixs: tuple[Index, ...], body: Rational) -> Rational:
        match kind:
            case "sum":
                return self.sum(ixs, body) if ixs else ZERO
            case "prod":
                return self.prod(ixs, body)
        return self.extreme(kind, ixs, body)

    def rename_places(self, places: tuple[Place, ...], renaming: Mapping[Index, Place]) -> tuple[Place, ...]:
        return tuple(renaming.get(i, i) if isinstance(i, Index) else self.place(i.cls, self.rename(i.term, renaming)) for i in places)

    def rename_cond(self, cond: Proposition, renaming: Mapping[Index, Place]) -> Proposition:
        if not cond.ixs & renaming.keys():
            return cond
        match cond.kind:
            case ">" | ">=" | "=":
                return self.relation(cond.kind, self.rename(cond.args[0], renaming))
            case "cap":
                return Proposition("cap", cond.args[0], self.rename_places(cond.args[1], renaming))
            case "not":
                return negation(self.rename_cond(cond.args[0], renaming))
        return Proposition(cond.kind, *(self.rename_cond(part, renaming) for part in cond.args))

    def replace_atoms(self, x: Rational, table: dict[Atom, Rational]) -> Rational:
        """x with atoms replaced by equal terms, at every depth outside binders."""
        if not deep_atoms(x) & table.keys():
            return x

        def image(base: Atom) -> Rational | None:
            if base in table:
                return table[base]
            if base.kind in ("cap", "size", "ix"):
                return self._moved(base, table)
            return self.rebuild(base, lambda y: self.replace_atoms(y, table), lambda p: p)

        return self.map_atoms(x, image)

    def _moved(self, base: Atom, table: dict[Atom, Rational]) -> Rational | None:
        """A captured element whose place is computed from what the table replaces."""
        if base.kind != "cap" or not base.places:
            return None
        places = tuple(p if isinstance(p, Index) else self.place(p.cls, self.replace_atoms(p.term, table)) for p in base.args[1])
        return None if places == base.args[1] else self.capture(base.args[0], places)

    def rebuild(self, base: Atom, term: Callable[[Rational], Rational], cond: Callable[[Proposition], Proposition]) -> Rational:
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
            case "sin":
                return self.sin(term(args[0]))
            case "cos":
                return self.cos(term(args[0]))
            case "erf" | "atan" | "asin":
                return self.odd(base.kind, term(args[0]))
            case "i0":
                return self.even(base.kind, term(args[0]))
            case "sum" | "prod" | "max" | "min":
                return self.reduction(base.kind, *self.copies(args[0], term(args[1])))
            case "ind":
                return self.ite(cond(args[0]), ONE, ZERO, True)
            case "ite":
                return self.ite(cond(args[0]), term(args[1]), term(args[2]), False)
            case "floor":
                return self.floor(term(args[0]))
            case "size" | "cap" | "ix":
                return of_atom(base)
        return of_atom(atom(base.kind, *(term(a) if isinstance(a, Rational) else a for a in args)))


def terms_of(cond: Proposition) -> Iterator[Rational]:
    """The terms that the condition compares with 0."""
    for part in cond.args:
        if isinstance(part, Rational):
            yield part
        elif isinstance(part, Proposition):
            yield from terms_of(part)


def named(place: Place) -> frozenset[Index]:
    """The indices that the place is made of."""
    return frozenset((place,)) if isinstance(place, Index) else place.term.ixs


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
            elif isinstance(arg, Proposition):
                queue += arg.args
            elif type(arg) is tuple:
                queue += [place.term for place in arg if isinstance(place, ComputedIndex)]
    return frozenset(seen)


__all__ = ["CaseSplit", "Contradiction", "Normalizer", "NotProved", "connect", "deep_atoms", "negation"]
