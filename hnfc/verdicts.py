"""Which rules may run: verdicts, shipped with the rules and looked up by fingerprint, or found now and kept in the user's cache."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import cache
from importlib.resources import files

from hnfc.dsl import core
from hnfc.dsl.soundness import Verdict, VerdictCache, fingerprint, prove_all

Progress = Callable[[str], None]


@cache
def _shipped() -> dict[str, dict[str, object]]:
    """Verdicts that were found when the library was built; a rule, definition or prover that has changed since misses here."""
    source = files("hnfc") / "rules" / "verdicts.json"
    try:
        loaded = json.loads(source.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return loaded if isinstance(loaded, dict) else {}


def verdicts(rules: Iterable[core.Rule], *, jobs: int | None = None, progress: Progress | None = None) -> dict[str, Verdict]:
    """The verdict on each rule, by name. Only what is nowhere known is proved now."""
    rules_given = list(rules)
    found: dict[str, Verdict] = {}
    unknown: list[core.Rule] = []
    known = _shipped()
    for rule in rules_given:
        entry = known.get(fingerprint(rule))
        if entry is None:
            unknown.append(rule)
        else:
            found[rule.name] = Verdict.from_json(entry)
    if unknown:
        if progress is not None:
            progress(f"proving {len(unknown)} rule{'s' if len(unknown) > 1 else ''} …")

        def done(rule: core.Rule, verdict: Verdict) -> None:
            found[rule.name] = verdict
            if progress is not None:
                progress(f"proving {len(rules_given)} rules: {len(found)} done …")

        prove_all(unknown, jobs=jobs, cache=VerdictCache(), done=done)
    return found


def write_shipped(rules: list[core.Rule], path: str) -> None:
    """Proves every rule anew and writes the verdicts that ship."""
    proved = zip(rules, prove_all(rules), strict=True)
    # without the time it took, which differs from run to run
    entries = {fingerprint(rule): {**verdict.to_json(), "seconds": 0.0} for rule, verdict in proved}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(entries, file, indent=0, sort_keys=True)
        file.write("\n")


if __name__ == "__main__":
    from hnfc.dsl.rulebook import shipped

    write_shipped(shipped().rules, str(files("hnfc") / "rules" / "verdicts.json"))
