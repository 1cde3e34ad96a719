"""Many rules at once, each in a process that is killed when its time is up, and verdicts that are known already."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any

from hnfc.dsl.core import Rule
from hnfc.dsl.fingerprint import IEEE, fingerprint
from hnfc.dsl.ieee.judge import judged, judged_formats
from hnfc.dsl.ieee.verdict import FORMATS_JUDGED, IeeeStatus, IeeeVerdict
from hnfc.dsl.soundness import parallel

LIMIT_SECONDS = 20.0

Verdicts = tuple[IeeeVerdict, ...]


def ieee_fingerprint(rule: Rule, formats: Sequence[str] = FORMATS_JUDGED, assume: frozenset[str] = frozenset()) -> str:
    """The fingerprint of the verdicts in these formats under these assumptions."""
    return fingerprint(rule, IEEE, tuple(formats), sorted(assume))


def ieee_all(
    rules: Sequence[Rule],
    *,
    formats: Sequence[str] = FORMATS_JUDGED,
    assume: frozenset[str] = frozenset(),
    jobs: int | None = None,
    limit: float = LIMIT_SECONDS,
    done: Callable[[Rule, Verdicts], None] | None = None,
    cache: MutableMapping[str, Any] | None = None,
    executor: Executor | None = None,
) -> list[Verdicts]:
    """The verdicts in the order of the rules. `limit`: seconds a rule may take. `done` is called as each is known.

    cache: from `ieee_fingerprint` to what `to_json` gives for each verdict. What is there is not judged again, what is found is added,
    but for rules that ran out of time or memory. An entry that cannot be read counts as none. executor: as in `parallel.run`.
    """
    keys = [ieee_fingerprint(rule, formats, assume) for rule in rules] if cache is not None else []
    found: dict[int, Verdicts] = {}
    for i, key in enumerate(keys):
        known = stored_verdicts(cache.get(key)) if cache is not None else None
        if known is not None:
            found[i] = known
            if done is not None:
                done(rules[i], known)

    def finish(i: int, verdicts: Verdicts) -> None:
        found[i] = verdicts
        if cache is not None and not any(v.status is IeeeStatus.UNKNOWN and parallel.is_passing(v.method) for v in verdicts):
            cache[keys[i]] = [v.to_json() for v in verdicts]
        if done is not None:
            done(rules[i], verdicts)

    todo = [i for i in range(len(rules)) if i not in found]
    if todo:
        judge = partial(_judge, formats=tuple(formats), assume=assume)
        parallel.run(rules, todo, jobs, limit, judge, partial(_failed, formats=tuple(formats)), finish, executor)
    return [found[i] for i in range(len(rules))]


def _judge(rule: Rule, limit: float, formats: tuple[str, ...], assume: frozenset[str]) -> Verdicts:
    return judged(rule, formats, assume, limit)


def _failed(rule: Rule, reason: str, seconds: float, formats: tuple[str, ...]) -> Verdicts:
    return tuple(IeeeVerdict(form, IeeeStatus.UNKNOWN, reason, seconds=seconds) for form in judged_formats(rule, formats))


def stored_verdicts(stored: Any) -> Verdicts | None:
    """Verdicts in an entry of the cache; None where there is none, or it cannot be read."""
    if stored is None:
        return None
    try:
        return tuple(IeeeVerdict.from_json(data) for data in stored)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
