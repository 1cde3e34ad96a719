"""Faults planted in the prover's normal forms: with each, the prover proves a wrong rule, and Coq accepts no certificate of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hnfc.dsl.certificates.checking import Folder
from hnfc.dsl.soundness.axis_classes import AxisClasses
from hnfc.dsl.soundness.judge import FITTING, NONEMPTY
from hnfc.dsl.soundness.normal_form import Normalizer
from hnfc.dsl.soundness.proof import Blocked, Proof
from hnfc.dsl.soundness.signs import POS
from hnfc.dsl.soundness.sym import Sym
from hnfc.dsl.soundness.symbolic import SymMath
from hnfc.dsl.soundness.term import ONE, Rational
from hnfc.dsl.soundness.verdict import Status, Verdict
from tests.soundness.reading import rule_of

WEAKEST = Verdict(Status.PROVED, "", shape_conditions=(NONEMPTY, FITTING))
"""A verdict that assumes most, so that its certificate claims least."""

Plant = Callable[[pytest.MonkeyPatch], None]


def on(owner: type, name: str, faulty: Callable[..., object]) -> Plant:
    """The method replaced by `faulty(right, self, *operands)`."""
    right = getattr(owner, name)
    return lambda patch: patch.setattr(owner, name, lambda *operands: faulty(right, *operands))


def without_sign(right: Callable[..., Rational], n: Normalizer, *operands: object) -> Rational:
    *others, x = operands
    assert isinstance(x, Rational)
    return right(n, *others, x if x.zero or x.leading() > 0 else -x)


def sign_outside(right: Callable[..., Rational], n: Normalizer, kind: str, ixs: object, body: Rational) -> Rational:
    return right(n, kind, ixs, body) if body.zero or body.leading() > 0 else -right(n, kind, ixs, -body)


def term_by_term(right: Callable[..., Rational], n: Normalizer, x: Rational) -> Rational:
    result = right(n, Rational({}))
    for mono, c in x.num.items():
        result = result + right(n, Rational({mono: c}))
    return result


def varying_alike(right: Callable[..., None], layout: AxisClasses) -> None:
    layout.seen_by_reductions.clear()
    right(layout)


def one(math: SymMath) -> Sym:
    return Sym(math.layout, {}, lambda n, env: ONE)


FAULTS: dict[str, tuple[Plant, str]] = {
    "a constant loses its factor below a sum": (on(Normalizer, "size_of", lambda right, n, c: ONE), "sum[k](x * 0 + 3) => 3"),
    "a sum is along another axis": (
        on(SymMath, "sum", lambda right, math, x, axes: right(math, x, (-1,))),
        "sum[-1](x) + 0 * sum[-2](x) => sum[-2](x) + 0 * sum[-1](x)",
    ),
    "an exponential misses a sign": (on(Normalizer, "exp", without_sign), "exp(-x) => exp(x)"),
    "a sine misses a sign": (on(Normalizer, "odd", without_sign), "sin(-x) => sin(x)"),
    "a maximum of negatives stays a maximum": (on(Normalizer, "extreme", sign_outside), "max[k](-x) => -max[k](x)"),
    "every factor of a logarithm is positive": (on(Normalizer, "sign", lambda right, n, x: POS), "log(a * b) => log(a) + log(b)"),
    "a root of a square loses its sign": (on(Normalizer, "sign", lambda right, n, x: POS), "sqrt(x * x) => x"),
    "what must be defined is forgotten": (on(Normalizer, "require", lambda right, n, cond: None), "x + 0 => x * x / x"),
    "a transposition does nothing": (on(SymMath, "transpose", lambda right, math, x, perm: x), "transpose(a @ b) => a @ b"),
    "a reversal does nothing": (on(SymMath, "reverse", lambda right, math, x, axes: x), "reverse[k](x) => x"),
    "parts are in another order": (
        on(SymMath, "concat", lambda right, math, parts, axis: right(math, parts[::-1], axis)),
        "slice[k](concat[k](x, y), 0, size[k](y)) => y",
    ),
    "an error function misses a sign": (on(Normalizer, "odd", without_sign), "erf(-x) => erf(x)"),
    "a size is 1": (on(SymMath, "size", lambda right, math, x, axes: one(math)), "mean[k](x) => sum[k](x)"),
    "a floor is linear": (on(Normalizer, "floor", term_by_term), "floor(x + y) => floor(x) + floor(y)"),
    "a broadcast tensor varies": (on(AxisClasses, "finish", varying_alike), "sum[k](x) + sum[k](y) => sum[k](x + y)"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_fault_is_at_work(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    plant, text = FAULTS[fault]
    rule = rule_of(text)
    with pytest.raises(Blocked):
        Proof(rule).run()
    plant(monkeypatch)
    Proof(rule).run()


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_coq_does_not_accept_what_the_fault_proves(folder: Folder, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    plant, text = FAULTS[fault]
    plant(monkeypatch)
    rule = rule_of(text)
    Proof(rule).run()
    assert folder.write(rule, WEAKEST).reason
    assert not (folder.directory / f"{rule.name}.v").exists()
