"""Is a rule true? Over the reals: a proof, a counterexample, or a proof that it speaks of no input; else an honest UNKNOWN."""

from __future__ import annotations

from hnfc.dsl.core import Rule
from hnfc.dsl.soundness import refute
from hnfc.dsl.soundness.cache import VerdictCache
from hnfc.dsl.soundness.judge import verdict
from hnfc.dsl.soundness.parallel import is_passing, prove_all
from hnfc.dsl.soundness.verdict import DEFAULT_TIMEOUT_MS, Counterexample, Status, Tensor, Verdict


def prove(rule: Rule, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> Verdict:
    """The verdict over the reals. It ends within about the timeout; `prove_all` kills what does not."""
    return verdict(rule, timeout_ms)


def replayed(rule: Rule, example: Counterexample) -> bool:
    """Return whether the sides differ at the counterexample, evaluated anew with more digits."""
    return refute.replayed(rule, example)


__all__ = [
    "DEFAULT_TIMEOUT_MS", "Counterexample", "Status", "Tensor", "Verdict", "VerdictCache",
    "is_passing", "prove", "prove_all", "replayed",
]  # fmt: skip
