"""Goals that a proof leaves open, in the author's names: the case in which the sides were compared, and the smallest parts that differ."""

from __future__ import annotations

from fractions import Fraction

from hnfc.dsl import core
from hnfc.dsl.soundness.axis_classes import Member
from hnfc.dsl.soundness.conditions import NotProved, negation
from hnfc.dsl.soundness.denote import Denotation
from hnfc.dsl.soundness.monomial import BINDERS, Atom, Mono
from hnfc.dsl.soundness.proof_observer import Case
from hnfc.dsl.soundness.readable import condition, shown
from hnfc.dsl.soundness.scan import rule_expressions
from hnfc.dsl.soundness.term import Proposition, Rational

LONGEST = 400
"""Greatest length of a goal that is shown."""


def what_is_left(meaning: Denotation, rule: core.Rule, assumptions: Case, error: NotProved) -> str:
    """`where y has size 1 along k, if x ≥ 0: it remains to show that x = y`"""
    text = " ".join([str(error), *([condition(error.goal)] if error.goal is not None else [])])
    if assumptions:
        text = f"if {' and '.join(condition(c if value else negation(c)) for c, value in assumptions)}: {text}"
    names = {n.name for n in rule_expressions(rule) if isinstance(n, core.Capture)}
    text = shown(text, names, sizes(meaning))
    shapes = " and ".join(map(broadcast_text, sorted(meaning.layout.broadcast, key=repr)))
    text = f"where {shapes}, {text}" if shapes else text
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"


def broadcast_text(member: Member) -> str:
    name, axis = member
    name = f"the result of {name.split('#')[0]}" if "#" in name else name
    return f"{name} has another shape than what it meets" if axis == core.ALL else f"{name} has size 1 along {axis}"


def sizes(meaning: Denotation) -> dict[int, str]:
    """The sizes of the classes along which alone a capture varies on one axis."""
    layout = meaning.layout
    found: dict[int, str] = {}
    for c, members in enumerate(layout.classes):
        own = [m for m in sorted(members, key=repr) if m not in layout.extents and layout.of(frozenset((m,))) == (c,) and m[1] != core.ALL]
        if own:
            name, axis = own[0]
            found[c] = f"size[{axis}]({name})"
    return found


def narrowed(difference: Rational) -> Proposition:
    """Goal that the difference is 0, or one from which it follows: f(a) - f(b) is 0 where a - b is."""
    x = difference
    while True:
        x = Rational(_without_common(x))
        pair = _alike(x)
        if pair is None:
            return Proposition("=", x)
        a, b = pair
        open_arguments = [p - q for p, q in zip(a.args, b.args, strict=True) if isinstance(p, Rational) and p != q]
        if len(open_arguments) != 1:
            return Proposition("=", x)
        (x,) = open_arguments


def _without_common(x: Rational) -> dict[Mono, Fraction]:
    """The numerator without the powers that all its terms share."""
    terms = list(x.num)
    shared = set(terms[0]).intersection(*map(set, terms[1:])) if len(terms) > 1 else set()
    return {tuple(p for p in mono if p not in shared): c for mono, c in x.num.items()}


def _alike(x: Rational) -> tuple[Atom, Atom] | None:
    """(f(a), f(b)) where x is a multiple of f(a) - f(b)."""
    if len(x.num) != 2:
        return None
    (one, c), (other, d) = x.num.items()
    if c != -d or len(one) != 1 or len(other) != 1 or one[0][1] != other[0][1]:
        return None
    a, b = one[0][0], other[0][0]
    if a.kind != b.kind or len(a.args) != len(b.args) or (a.kind in BINDERS and a.args[0] != b.args[0]):
        return None
    same = all(p == q for p, q in zip(a.args, b.args, strict=True) if not (isinstance(p, Rational) and isinstance(q, Rational)))
    return (a, b) if same else None
