"""Rules of rewriting: the language, and why they are true. `check` judges a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hnfc.dsl.core import Rule
    from hnfc.dsl.soundness.verdict import Verdict


def check(rule: Rule | str, *, timeout_ms: int | None = None) -> Verdict:
    """The verdict over the reals on a rule, or on the one rule of a text in the rule language.

    Raises HnfError where the text is wrong, and ValueError where it holds no rule or several.
    """
    # the prover is loaded when it is needed: most of this package is imported without it
    from hnfc.dsl.soundness.checking import check as judge

    return judge(rule, timeout_ms)


__all__ = ["check"]
