"""Verdicts of rules: shipped ones by fingerprint, those of the user's cache, or found now."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from hnfc.dsl import core
from hnfc.dsl.ieee import FORMATS_JUDGED, IeeeVerdict, ieee_all, ieee_fingerprint, stored_verdicts
from hnfc.dsl.rulebook import shipped
from hnfc.dsl.soundness import Verdict, VerdictCache, fingerprint, prove_all
from hnfc.dsl.store import add_to_store, cache_directory, read_store

Progress = Callable[[str], None]


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
    rules: Iterable[core.Rule], *, jobs: int | None = None, limit: float = LIMIT, cached: bool = True, progress: Progress | None = None
) -> dict[str, Verdict]:
    """The verdict over the reals on each rule, by name. Only what is nowhere known is proved now (`cached=False`: everything)."""
    given = list(rules)
    known = _shipped("verdicts.json") if cached else {}
    found = {rule.name: Verdict.from_json(known[key]) for rule in given if (key := fingerprint(rule)) in known}
    unknown = [rule for rule in given if rule.name not in found]
    if unknown:
        told = _Told("proving", unknown, progress)
        proved = prove_all(unknown, jobs=jobs, limit=limit, cache=VerdictCache() if cached else None, done=told)
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
        told = _Told("rounding", unknown, progress)
        fresh: dict[str, Any] = {}
        judged = ieee_all(unknown, formats=formats, assume=assume, jobs=jobs, limit=limit, cache=fresh, done=told)
        found.update({rule.name: verdicts for rule, verdicts in zip(unknown, judged, strict=True)})
        if cached:
            add_to_store(path, fresh)
    return found


class _Told:
    """Says how many rules are judged, as each is."""

    def __init__(self, what: str, rules: list[core.Rule], progress: Progress | None) -> None:
        self.what, self.progress = what, progress
        self.left = {rule.name for rule in rules}
        self.count = len(self.left)
        if progress is not None and rules:
            progress(f"{what} {self.count} rule{'s' if self.count > 1 else ''} …")

    def __call__(self, rule: core.Rule, _: object) -> None:
        if rule.name in self.left:
            self.left.discard(rule.name)
            if self.progress is not None:
                self.progress(f"{self.what} {self.count} rules: {self.count - len(self.left)} done, last {rule.name} …")


def backwards(rules: Iterable[core.Rule]) -> list[core.Rule]:
    """The rules as if they were written `<=>`, but for approximations: what is to be proved before one is read from right to left."""
    return [replace(rule, both_ways=True) for rule in rules if rule.within is None]


def write_shipped(rules: list[core.Rule], directory: str) -> None:
    """Judges every rule anew and writes the verdicts that ship, without the time they took, which differs from run to run."""
    read = [*rules, *(rule for rule in backwards(rules) if rule not in rules)]
    proved = {fingerprint(rule): {**v.to_json(), "seconds": 0.0} for rule, v in zip(read, prove_all(read), strict=True)}
    _write(f"{directory}/verdicts.json", proved)
    judged = {
        ieee_fingerprint(rule): [{**v.to_json(), "seconds": 0.0} for v in found] for rule, found in zip(rules, ieee_all(rules), strict=True)
    }
    _write(f"{directory}/ieee.json", judged)


def _write(path: str, entries: dict[str, Any]) -> None:
    """One line for each rule, so that a change shows which verdicts it changed."""
    lines = [f"{json.dumps(key)}:{json.dumps(entries[key], separators=(',', ':'), ensure_ascii=False)}" for key in sorted(entries)]
    with open(path, "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    write_shipped(shipped().rules, str(files("hnfc") / "rules"))
