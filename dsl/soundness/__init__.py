"""Is a rule true? Over the reals: a proof or a counterexample, and nothing in between but an honest UNKNOWN."""

from hnfc.dsl.core import Rule
from hnfc.dsl.soundness.cache import VerdictCache, fingerprint
from hnfc.dsl.soundness.judge import DEFAULT_TIMEOUT_MS
from hnfc.dsl.soundness.judge import verdict as _verdict
from hnfc.dsl.soundness.parallel import prove_all
from hnfc.dsl.soundness.refute import replayed
from hnfc.dsl.soundness.verdict import PROVER_VERSION, Counterexample, Status, Tensor, Verdict


def prove(rule: Rule, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> Verdict:
    """The verdict over the reals. It ends within about the timeout; `prove_all` kills what does not."""
    return _verdict(rule, timeout_ms)


__all__ = [
    "DEFAULT_TIMEOUT_MS", "PROVER_VERSION", "Counterexample", "Status", "Tensor", "Verdict", "VerdictCache",
    "fingerprint", "prove", "prove_all", "replayed",
]  # fmt: skip
