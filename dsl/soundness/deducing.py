"""Facts about the elements of a reduction, from facts about its result: where a maximum is not positive, none of them is.

    max a ≤ 0           gives  aⱼ ≤ 0   (a maximum is above every element; likewise for a minimum)
    Σ a ≤ 0, all a ≥ 0  gives  aⱼ ≤ 0   (a sum of what is not negative is above every term), so that every term vanishes
    Π a ≠ 0             gives  aⱼ ≠ 0   (a product with a factor 0 is 0)

That all a ≥ 0 is a fact about every element, or the sign of the term that is summed.
"""

from __future__ import annotations

from collections.abc import Iterator

from hnfc.dsl.soundness.normal_form import Normalizer
from hnfc.dsl.soundness.signs import ANY, NEG, NONNEG, NONPOS, NONZERO, POS, ZEROS, Contradiction, flip
from hnfc.dsl.soundness.term import Index, Proposition, Rational, TooLarge

MAX_ROUNDS = 4


def deduce(n: Normalizer) -> None:
    """Tells the normalizer's signs what follows for elements. Raises Contradiction where the facts exclude each other."""
    deduced: set[tuple[Rational, int]] = set()
    for _ in range(MAX_ROUNDS):
        before = len(deduced)
        for x, mask in list(n.signs.ground.items()):
            if (x, mask) not in deduced and _of_reduction(n, x, mask):
                deduced.add((x, mask))
        for quantified, x, mask in list(n.signs.universal):
            if (x, mask) not in deduced and any(base.kind == "sum" for base in x.atoms) and _of_total(n, quantified, x, mask):
                deduced.add((x, mask))
        if len(deduced) == before:
            return
        for x, mask in n.signs.ground.items():
            if not mask & n.signs.base_sign(x):
                raise Contradiction


def _of_reduction(n: Normalizer, x: Rational, mask: int) -> bool:
    """Return whether the sign of x, a reduction, says something of its elements."""
    lone = x.single()
    if lone is None or lone[1] != 1 or len(lone[0]) != 1 or lone[0][0][1] != 1:
        return False
    base = lone[0][0][0]
    for theorem, allowed in _signs_of_elements(n, base.kind, base.args, mask):
        bound, body = n.copies(*base.args)
        match theorem:
            case "extremum-bounds":
                says = Proposition(">=", x - body)
            case "extremum-bounds-below":
                says = Proposition(">=", body - x)
            case "term-below-sum":
                says = Proposition(">=", x - body if allowed == NONPOS else body - x)
            case _:
                says = Proposition("or", Proposition("=", x), Proposition("not", Proposition("=", body)))
        _tell(n, theorem, says, body, allowed, bound)
        return True
    return False


def _tell(n: Normalizer, theorem: str, says: Proposition, x: Rational, mask: int, quantified: tuple[Index, ...]) -> None:
    """An element |a| that is not positive is that of an a which is 0."""
    hypothesis = None
    if theorem == "term-below-sum":
        hypothesis = Proposition(">=", x if mask == NONPOS else -x)
    lone = x.single()
    if not mask & POS and lone is not None and lone[1] > 0 and len(lone[0]) == 1 and (base := lone[0][0][0]).kind == "abs":
        x, mask = base.args[0], ZEROS
    n.tell(theorem, says, x, mask, quantified, hypothesis)


def _signs_of_elements(n: Normalizer, kind: str, args: tuple[tuple[Index, ...], Rational], mask: int) -> Iterator[tuple[str, int]]:
    """The theorem and the signs that every element may have."""
    match kind:
        case "max" if not mask & POS:
            yield "extremum-bounds", mask | NEG
        case "min" if not mask & NEG:
            yield "extremum-bounds-below", mask | POS
        case "sum" if mask != ANY:
            inner = n.signs.sign(args[1])
            if not inner & NEG and not mask & POS:
                yield "term-below-sum", NONPOS
            elif not inner & POS and not mask & NEG:
                yield "term-below-sum", NONNEG
        case "prod" if not mask & ZEROS:
            yield "product-vanishes", NONZERO


def _of_total(n: Normalizer, quantified: tuple[Index, ...], x: Rational, mask: int) -> bool:
    """Return whether the sum over all elements of what none is negative of, or none positive, says that each is 0."""
    if mask & POS and mask & NEG:
        return False
    try:
        total = n.sum(quantified, x)
        allowed = NONPOS if mask & POS else NONNEG
        if n.signs.sign(total) & flip(allowed) & ~ZEROS:
            return False
        bound, body = n.copies(quantified, x)
    except TooLarge:
        return False
    _tell(n, "term-below-sum", Proposition(">=", total - body if allowed == NONPOS else body - total), body, allowed, bound)
    return True
