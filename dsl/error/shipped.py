"""Error reports of the shipped rules, made when the library was built: `python -m hnfc.dsl.error.shipped` makes them anew.

A report is found by what it depends on: the rule, the formulas of its operations, and this package. That it took the prover's help is
no part of that: what was proved once stays true.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from hnfc.dsl.core import Apply, Rule
from hnfc.dsl.error.analysis import error_of
from hnfc.dsl.error.report import ErrorReport
from hnfc.dsl.soundness.cache import formula_text
from hnfc.dsl.soundness.scan import rule_expressions

NAME = "shipped.json"


def error_reports(rules: Iterable[Rule]) -> dict[str, ErrorReport]:
    """The reports by the rules' names; only those that did not ship are made now."""
    known = _stored()
    return {rule.name: known.get(error_fingerprint(rule)) or error_of(rule) for rule in rules}


def error_fingerprint(rule: Rule) -> str:
    """A hash of what the report depends on."""
    operations = {node.operation.name: node.operation for node in rule_expressions(rule) if isinstance(node, Apply)}
    content = {
        "rule": [_plain(x) for x in (rule.name, rule.pattern, rule.replacement, rule.where)],
        "formulas": [[name, formula_text(operations[name]), operations[name].FACTS.ulps] for name in sorted(operations)],
        "analysis": _version(),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _plain(x: Any) -> Any:
    """The value as lists and texts; where a rule stands in its file is no part of it."""
    if is_dataclass(x) and not isinstance(x, type):
        return [type(x).__name__, *(_plain(getattr(x, f.name)) for f in fields(x) if f.compare)]
    if isinstance(x, type):
        return x.__name__
    return [_plain(part) for part in x] if isinstance(x, tuple | list) else repr(x)


@cache
def _version() -> str:
    """A hash of the sources of this package."""
    digest = hashlib.sha256()
    for source in sorted((f for f in (files("hnfc") / "dsl" / "error").iterdir() if f.name.endswith(".py")), key=lambda f: f.name):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()


@cache
def _stored() -> dict[str, ErrorReport]:
    try:
        text = (files("hnfc") / "dsl" / "error" / NAME).read_text(encoding="utf-8")
        return {key: ErrorReport.from_json(entry) for key, entry in json.loads(text).items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        # without them every report is made when it is asked for
        return {}


def write(rules: Iterable[Rule], path: str) -> None:
    """Makes every report anew and writes them."""
    entries = {error_fingerprint(rule): error_of(rule).to_json() for rule in rules}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(entries, file, indent=0, sort_keys=True, ensure_ascii=False, allow_nan=False)
        file.write("\n")


if __name__ == "__main__":
    from hnfc.dsl.rulebook import shipped

    write(shipped().rules, str(files("hnfc") / "dsl" / "error" / NAME))
