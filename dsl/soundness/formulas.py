"""One claim of a proof as formulas: variables with names that can be read, what may be assumed, and the goal.

A function that has its normal form by a theorem becomes a variable t with the theorem's instance as an assumption, `t = …`; where the
normal form is a quotient, t is the numerator and d the denominator. Quotients are multiplied out: no formula contains a division.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import z3

from hnfc.dsl.soundness import axioms
from hnfc.dsl.soundness.claims import Claim, ClaimNode, Equivalent, Fact, Same
from hnfc.dsl.soundness.closing import in_mask
from hnfc.dsl.soundness.monomial import BINDERS
from hnfc.dsl.soundness.normal_form import deep_atoms
from hnfc.dsl.soundness.proof_obligation import Assumption
from hnfc.dsl.soundness.signs import ANY, assignments
from hnfc.dsl.soundness.term import FALSE, ONE, Atom, Place, Proposition, Rational, Terms, of_atom
from hnfc.dsl.soundness.theorems import theorems_of
from hnfc.dsl.soundness.tracing import TracingNormalizer
from hnfc.dsl.soundness.translation import SolverTranslation


@dataclass(frozen=True)
class Quotient:
    """num/den; den is None for 1."""

    num: z3.ArithRef
    den: z3.ArithRef | None = None

    def times(self, other: z3.ArithRef | None) -> z3.ArithRef:
        return self.num if other is None else self.num * other


def common(x: z3.ArithRef | None, y: z3.ArithRef | None) -> z3.ArithRef | None:
    return y if x is None else x if y is None else x * y


def alike(x: z3.ArithRef | None, y: z3.ArithRef | None) -> bool:
    return x is y or (x is not None and y is not None and bool(x.eq(y)))


def equal(x: Quotient, y: Quotient) -> z3.BoolRef:
    return x.num == y.num if alike(x.den, y.den) else x.times(y.den) == y.times(x.den)


def difference(x: Quotient, y: Quotient) -> z3.ArithRef:
    """A product of x - y with a positive number."""
    if alike(x.den, y.den):
        return x.num - y.num if x.den is None else (x.num - y.num) * x.den
    return (x.times(y.den) - y.times(x.den)) * common(x.den, y.den)


STEMS = {"exp": "e", "log": "l", "root": "r", "size": "n", "ix": "i", "sum": "s", "prod": "p", "max": "m", "min": "m", "ite": "w"}

RESERVED = frozenset((
    "abs", "and", "as", "assert", "distinct", "div", "exists", "exp", "false", "forall", "implies", "is_int", "ite", "let", "log", "max",
    "min", "mod", "not", "or", "par", "pi", "pow", "root", "select", "sin", "cos", "sqrt", "store", "tan", "to_int", "to_real", "true",
    "xor",
))  # fmt: skip
"""Words with a meaning of their own to some solver."""


class Sheet:
    """The formulas of one claim."""

    def __init__(self, claim: Claim, n: TracingNormalizer) -> None:
        self.claim, self.n = claim, n
        self.translation = SolverTranslation(self.name)
        self.legend: dict[str, str] = {}
        self.named: dict[Proposition, str] = {}
        self.assumptions: list[Assumption] = []
        self.bodies: dict[Atom, int] = {}
        """The reductions whose sign was used, with the sign of every element."""
        self._quotients: dict[ClaimNode, Quotient] = {}
        self._seen: set[ClaimNode] = set()
        # renaming may look up signs; it sees what the claim rests on
        signs, n.signs = n.signs, claim.signs
        n.inside += 1
        try:
            self.prepare()
        finally:
            n.inside -= 1
            n.signs = signs
        self.goal = self.goal_formula()
        facts = [Assumption(name.replace(" ", "-"), self.translation.cond(cond)) for cond, name in self.named.items()]
        roots = [Assumption(name, formula) for name, formula in self.translation.roots()]
        self.assumptions = [*facts, *roots, *self.assumptions]

    # names

    def name(self, x: Atom | Proposition) -> str:
        """A new name for the variable that stands for x: that of a captured tensor, or a letter for the function and a number."""
        if isinstance(x, Proposition) or x.kind == "cap":
            stem = "".join(c if c.isascii() and c.isalnum() else "_" for c in str(x.args[0]))
            return self.fresh(stem if stem[0].isalpha() else f"v{stem}", str(x), numbered=stem in RESERVED)
        return self.fresh(STEMS.get(x.kind, x.kind[0]), str(x))

    def fresh(self, stem: str, meaning: str, numbered: bool = True) -> str:
        number = 1 if numbered else 0
        name = f"{stem}_1" if numbered else stem
        while name in self.legend:
            number += 1
            name = f"{stem}_{number}"
        self.legend[name] = meaning
        return name

    # what may be used

    def prepare(self) -> None:
        goal, conds = self.claim.goal, list[Proposition]()
        if isinstance(goal, Proposition):
            conds = [goal]
        else:
            self.walk(goal.left)
            self.walk(goal.right)
            conds = [goal.cond] if isinstance(goal, Equivalent) else []
        self.translation.collect(conds)
        if self.claim.query is not None:
            self.named.update(self.claim.query.named)
            self.translation.collect(self.named)
            self.bodies = {base: mask for base in self.atoms if base.kind in BINDERS and (mask := self.claim.signs.atom_sign(base)) != ANY}
            return
        for lemma in self.claim.lemmas:
            self.add((lemma.theorem, cond) for cond in lemma.conds)
        self.add(self.facts())
        for _ in range(2):
            self.translation.collect([cond for base in list(self.atoms) for _, cond in axioms.of(base)])
        for base in list(self.atoms):
            self.add(axioms.of(base))
            if base.kind in BINDERS and (mask := self.claim.signs.atom_sign(base)) != ANY:
                self.add([("sign-of-reduction", in_mask(of_atom(base), mask))])
                self.bodies[base] = mask
        for x in dict.fromkeys(x for cond in (*conds, *(c for c in self.named if c.kind != ">=")) for x in comparisons(cond)):
            if self.claim.signs.whole(x):
                self.add(
                    ("integers-are-discrete", Proposition("or", Proposition(">=", y), Proposition(">=", -y - ONE))) for y in (x, x - ONE)
                )

    @property
    def atoms(self) -> dict[Atom, None]:
        return self.translation.atoms

    def add(self, named: Iterator[tuple[str, Proposition]] | Sequence[tuple[str, Proposition]]) -> None:
        for name, cond in named:
            self.named.setdefault(cond, name)
            self.translation.collect([cond])

    def walk(self, node: ClaimNode) -> None:
        """Collects what is written out below the node."""
        if node in self._seen:
            return
        self._seen.add(node)
        self.translation.collect(node.guards)
        if node.op == "ite":
            self.translation.collect([node.detail])
        if node.leaf:
            self.translation.collect_term(node.value)
            if node.op == "capture":
                self.translation.collect_term(of_atom(node.detail))
            return
        for operand in node.operands:
            self.walk(operand)

    def facts(self) -> list[tuple[str, Proposition]]:
        """The facts that share an atom with the claim, directly or through others; universal ones at the places in sight."""
        places: frozenset[Place] = frozenset(p for base in self.atoms for part in (base.ixs, base.places) for p in part)
        pool = [fact for given in (*self.claim.given, *self.claim.signs.log) for fact in self.instances(given, places)]
        known = {base for x in self.atoms for base in deep_atoms(of_atom(x))}
        if self.claim.goal == FALSE:
            return [(fact.why, fact.cond) for fact in pool]
        found: list[tuple[str, Proposition]] = []
        changed = True
        while changed:
            changed = False
            for fact in list(pool):
                atoms = {base for x in comparisons(fact.cond) for base in deep_atoms(x)}
                if not atoms or atoms & known:
                    pool.remove(fact)
                    found.append((fact.why, fact.cond))
                    known |= atoms
                    changed = True
        return found

    def instances(self, fact: Fact, places: frozenset[Place]) -> Iterator[Fact]:
        if not fact.quantified:
            yield fact
            return
        for renaming in assignments(fact.quantified, places):
            yield Fact(fact.why, self.n.rename_cond(fact.cond, renaming))

    # terms

    def normal_form(self, x: Rational) -> Quotient:
        """x with the powers of atoms that its terms are divided by as a part of its denominator."""
        t = self.translation
        above, below = t.shifts(x.num, even=False), t.shifts(x.den, even=False)
        one: Terms = {(): Fraction(1)}
        num = t.terms(x.num, above) if not below else t.terms(x.num, above) * t.terms(one, below)
        den = common(t.terms(one, above) if above else None, None if x.polynomial else t.terms(x.den, below))
        return Quotient(num, den)

    def quotient(self, node: ClaimNode) -> Quotient:
        if node not in self._quotients:
            self._quotients[node] = self._quotient(node)
        return self._quotients[node]

    def _quotient(self, node: ClaimNode) -> Quotient:
        if node.op == "value":
            return self.normal_form(node.value)
        if node.op == "capture":
            return Quotient(self.translation.variable(node.detail)[0])
        if node.leaf:
            return self.by_theorem(node)
        parts = [self.quotient(operand) for operand in node.operands]
        match node.op:
            case "+" | "-":
                x, y = parts
                sign = 1 if node.op == "+" else -1
                if alike(x.den, y.den):
                    return Quotient(x.num + y.num if sign > 0 else x.num - y.num, x.den)
                left, right = x.times(y.den), y.times(x.den)
                return Quotient(left + right if sign > 0 else left - right, common(x.den, y.den))
            case "*":
                return Quotient(parts[0].num * parts[1].num, common(parts[0].den, parts[1].den))
            case "/":
                x, y = parts
                return Quotient(x.times(y.den), common(x.den, y.num))
            case "neg":
                return Quotient(-parts[0].num, parts[0].den)
            case "power":
                return self.power(parts[0], node.detail)
        return self.choice(node, parts)

    @staticmethod
    def power(x: Quotient, exponent: int) -> Quotient:
        def raised(base: z3.ArithRef) -> z3.ArithRef:
            return z3.Product(*[base] * abs(exponent)) if exponent else z3.RealVal(1)

        num, den = raised(x.num), None if x.den is None else raised(x.den)
        return Quotient(num, den) if exponent >= 0 else Quotient(z3.RealVal(1) if den is None else den, num)

    def choice(self, node: ClaimNode, parts: list[Quotient]) -> Quotient:
        """max, min, |·| or where as a variable that is one of the branches."""
        zero = Quotient(z3.RealVal(0))
        match node.op:
            case "ite":
                first, yes, no = self.translation.cond(node.detail), parts[0], parts[1]
            case "abs":
                first, yes, no = difference(parts[0], zero) >= 0, parts[0], Quotient(-parts[0].num, parts[0].den)
            case _:
                first = difference(*parts) >= 0
                yes, no = parts if node.op == "max" else parts[::-1]
        what = {"ite": "a choice", "abs": "an absolute value", "max": "a maximum", "min": "a minimum"}[node.op]
        value = Quotient(z3.Real(self.fresh("c", what)))
        for cond, branch in ((first, yes), (z3.Not(first), no)):
            self.assume("choice-as-written", [*self.guards(node), cond], equal(value, branch), what)
        return value

    def by_theorem(self, node: ClaimNode) -> Quotient:
        """A function or reduction as a variable; that it is its normal form is the theorem's claim."""
        value = self.normal_form(node.value)
        names = theorems_of(node)
        meaning = f"{node.op}({', '.join(str(operand.value) for operand in node.operands)})"
        comment = f"by {', '.join(names)}" if names else "a name for it"
        number = self.fresh("t", meaning if value.den is None else f"the numerator of {meaning}")
        self.assume(names[0] if names else "definition", self.guards(node), z3.Real(number) == value.num, comment)
        if value.den is None:
            return Quotient(z3.Real(number))
        below = self.fresh("d", f"its denominator, for {number}")
        self.assume(names[0] if names else "definition", self.guards(node), z3.Real(below) == value.den, comment)
        return Quotient(z3.Real(number), z3.Real(below))

    def guards(self, node: ClaimNode) -> list[z3.BoolRef]:
        return [self.translation.cond(cond) for cond in node.guards]

    def assume(self, name: str, guards: list[z3.BoolRef], formula: z3.BoolRef, comment: str) -> None:
        guarded = z3.Implies(z3.And(*guards) if len(guards) > 1 else guards[0], formula) if guards else formula
        self.assumptions.append(Assumption(name, guarded, comment))

    # the goal

    def goal_formula(self) -> z3.BoolRef:
        goal = self.claim.goal
        if isinstance(goal, Proposition):
            return self.translation.cond(goal)
        left, right = self.quotient(goal.left), self.quotient(goal.right)
        if isinstance(goal, Same):
            return equal(left, right)
        order = difference(left, right)
        relations = {
            "eq": order == 0, "ne": order != 0, "gt": order > 0, "ge": order >= 0, "lt": order < 0, "le": order <= 0,
        }  # fmt: skip
        return relations[goal.predicate] == self.translation.cond(goal.cond)


def comparisons(cond: Proposition) -> Iterator[Rational]:
    """The terms that the condition compares with 0."""
    for arg in cond.args:
        if isinstance(arg, Proposition):
            yield from comparisons(arg)
        elif isinstance(arg, Rational):
            yield arg


__all__ = ["Assumption", "Sheet"]
