"""Terms without the functions that are short for others, so that identities of exp and log see what is inside.

`log1p(-exp(x))` is accurate for its operand and loses the digits of the whole; only as `log(1 - exp(x))` do identities apply to it.
"""

from __future__ import annotations

from collections.abc import Callable

from hnfc.accuracy.points import Domain
from hnfc.accuracy.terms import Term, Terms, subterms

Unfolding = Callable[[Terms, Term], Term]


def _inverse_of_growth(terms: Terms, x: Term) -> Term:
    """1 + e^-x."""
    return terms.make("add", terms.one, terms.make("exp", terms.make("neg", x)))


_UNFOLDED: dict[str, Unfolding] = {
    "log1p": lambda t, x: t.make("log", t.make("add", t.one, x)),
    "expm1": lambda t, x: t.make("sub", t.make("exp", x), t.one),
    "sigmoid": lambda t, x: t.make("div", t.one, _inverse_of_growth(t, x)),
    "silu": lambda t, x: t.make("div", x, _inverse_of_growth(t, x)),
    "log_sigmoid": lambda t, x: t.make("neg", t.make("log", _inverse_of_growth(t, x))),
    "softplus": lambda t, x: t.make("log", t.make("add", t.one, t.make("exp", x))),
}


def unfolded(terms: Terms, term: Term, domain: Domain) -> Term:
    """The term with such functions written out, and powers of a positive argument as exponentials."""
    made: dict[Term, Term] = {}
    for node in subterms(term):
        operands = tuple(made[a] for a in node.args)
        if not operands:
            made[node] = node
        elif node.op in _UNFOLDED:
            made[node] = _UNFOLDED[node.op](terms, operands[0])
        elif node.op == "pow" and node.args[0].op == "var" and domain.interval(str(node.args[0].value))[0] > 0:
            made[node] = terms.make("exp", terms.make("mul", operands[1], terms.make("log", operands[0])))
        else:
            made[node] = terms.make(node.op, *operands, value=node.value)
    return made[term]
