"""Verdicts of rules: shipped ones by fingerprint, those of the user's cache, or found now."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from functools import cache, partial
from importlib.resources import files
from typing import Any

from hnfc.core.progress import Progress, tell
from hnfc.dsl import core
from hnfc.dsl.error.shipped import write as write_reports
from hnfc.dsl.fingerprint import fingerprint
from hnfc.dsl.ieee import FORMATS_JUDGED, IeeeVerdict, ieee_all, ieee_fingerprint, stored_verdicts
from hnfc.dsl.rulebook import shipped
from hnfc.dsl.soundness import Verdict, VerdictCache, is_passing, prove_all
from hnfc.dsl.store import add_to_store, cache_directory, read_store

LIMIT = 20.0
"""Seconds that a rule may take."""


@cache
def _shipped(name: str) -> dict[str, Any]:
    """Verdicts that were found when the library was built; a rule, definition or prover that has changed since misses here."""
    source = files("hnfc") / "rules" / name
    try:
        loaded = json.loads(source.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return loaded if isinstance(loaded, dict) else {}


def verdicts(
    rules: Iterable[core.Rule],
    *,
    jobs: int | None = None,
    limit: float = LIMIT,
    cached: bool = True,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> dict[str, Verdict]:
    """The verdict over the reals on each rule, by name. Only what is nowhere known is proved now (`cached=False`: everything).

    executor: where that is done, instead of in `jobs` processes here.
    """
    given = list(rules)
    known = _shipped("verdicts.json") if cached else {}
    # the sources are read for a fingerprint, which takes as long as a proof
    found = {rule.name: Verdict.from_json(known[key]) for rule in given if known and (key := fingerprint(rule)) in known}
    unknown = [rule for rule in given if rule.name not in found]
    if unknown:
        observer = _JudgingProgress("proving", unknown, progress)
        stored = VerdictCache() if cached else None
        fresh_verdicts = _VerdictsSoFar(stored.put) if stored is not None else None

        def done(rule: core.Rule, verdict: Verdict) -> None:
            observer(rule, verdict)
            if fresh_verdicts is not None and not is_passing(verdict.reason):
                fresh_verdicts[fingerprint(rule)] = verdict

        proved = prove_all(unknown, jobs=jobs, limit=limit, cache=stored, done=done, executor=executor)
        found.update({rule.name: verdict for rule, verdict in zip(unknown, proved, strict=True)})
    return found


def ieee(
    rules: Iterable[core.Rule],
    formats: tuple[str, ...] | None = None,
    assume: frozenset[str] = frozenset(),
    *,
    jobs: int | None = None,
    limit: float = LIMIT,
    cached: bool = True,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> dict[str, tuple[IeeeVerdict, ...]]:
    """The verdicts in floating-point arithmetic on each rule, by name: one for each format (None: all that can be judged)."""
    formats = FORMATS_JUDGED if formats is None else formats
    given = list(rules)
    path = cache_directory() / "ieee.json"
    keys = {rule.name: ieee_fingerprint(rule, formats, assume) for rule in given} if cached else {}
    known = _shipped("ieee.json") if cached else {}
    if any(key not in known for key in keys.values()):
        known = {**read_store(path), **known}
    found = {name: verdicts for name, key in keys.items() if (verdicts := stored_verdicts(known.get(key))) is not None}
    unknown = [rule for rule in given if rule.name not in found]
    if unknown:
        observer = _JudgingProgress("rounding", unknown, progress)
        fresh = _VerdictsSoFar(partial(add_to_store, path)) if cached else None
        judged = ieee_all(unknown, formats=formats, assume=assume, jobs=jobs, limit=limit, cache=fresh, done=observer, executor=executor)
        found.update({rule.name: verdicts for rule, verdicts in zip(unknown, judged, strict=True)})
        if fresh is not None:
            add_to_store(path, fresh)
    return found


class _VerdictsSoFar(dict[str, Any]):
    """Verdicts as they are found, which `save` writes every few seconds: long work that is stopped goes on from there."""

    def __init__(self, save: Callable[[Mapping[str, Any]], None]) -> None:
        super().__init__()
        self.save, self.unsaved, self.last = save, dict[str, Any](), time.monotonic()

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        self.unsaved[key] = value
        if time.monotonic() - self.last > _SAVED_SECONDS:
            self.save(self.unsaved)
            self.unsaved, self.last = {}, time.monotonic()


_SAVED_SECONDS = 5.0


class _JudgingProgress:
    """Says how many rules are judged, as each is."""

    def __init__(self, what: str, rules: list[core.Rule], progress: Progress | None) -> None:
        self.what, self.progress = what, progress or tell
        self.left = {rule.name for rule in rules}
        self.count = len(self.left)
        if rules:
            self.progress(f"{what} rules: 0 of {self.count} …")

    def __call__(self, rule: core.Rule, _: object) -> None:
        if rule.name in self.left:
            self.left.discard(rule.name)
            self.progress(f"{self.what} rules: {self.count - len(self.left)} of {self.count}, last {rule.name} …")


def proposed(verdict: Verdict) -> str:
    """The condition under which the rule is proved, if the verdict offers one, or an empty text."""
    found = re.search(r"`where (.*)`", verdict.help)
    return found[1] if found else ""


def backwards(rules: Iterable[core.Rule]) -> list[core.Rule]:
    """The rules as if they were written `<=>`, but for approximations: what is to be proved before one is read from right to left."""
    return [replace(rule, both_ways=True) for rule in rules if rule.within is None]


SHIPPING_LIMIT = 1800.0
"""Seconds after which a rule would be given up: far beyond what any takes, so that no clock has a say in what ships."""


def write_shipped(rules: list[core.Rule], root: str) -> None:
    """Judges every rule anew and writes what ships, without the time that it took. The same sources give the same bytes."""
    read = [*rules, *(rule for rule in backwards(rules) if rule not in rules)]
    proved = prove_all(read, limit=SHIPPING_LIMIT)
    judged = ieee_all(rules, limit=SHIPPING_LIMIT)
    faults = [f"{rule.name}: {v.reason}" for rule, v in zip(read, proved, strict=True) if is_passing(v.reason)]
    faults += [f"{rule.name}: {v.method}" for rule, found in zip(rules, judged, strict=True) for v in found if is_passing(v.method)]
    if faults:
        raise RuntimeError(f"verdicts that another run may change: {'; '.join(faults)}")
    _write(f"{root}/rules/verdicts.json", {fingerprint(r): _without_time(v) for r, v in zip(read, proved, strict=True)})
    _write(f"{root}/rules/ieee.json", {ieee_fingerprint(r): [*map(_without_time, found)] for r, found in zip(rules, judged, strict=True)})
    write_reports(rules, f"{root}/dsl/error/shipped.json")


def _without_time(verdict: Verdict | IeeeVerdict) -> dict[str, Any]:
    return {**verdict.to_json(), "seconds": 0.0}


def _write(path: str, entries: dict[str, Any]) -> None:
    """One line for each rule, so that a change shows which verdicts it changed."""
    lines = [f"{json.dumps(key)}:{json.dumps(entries[key], separators=(',', ':'), ensure_ascii=False)}" for key in sorted(entries)]
    with open(path, "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    write_shipped(shipped().rules, str(files("hnfc")))
