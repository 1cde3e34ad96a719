"""Error reports of the shipped rules, made when the library was built and found by their fingerprints."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files

from hnfc.dsl.core import Rule
from hnfc.dsl.error.analysis import error_of
from hnfc.dsl.error.report import ErrorReport
from hnfc.dsl.fingerprint import ERROR, fingerprint
from hnfc.dsl.soundness.parallel import run

NAME = "shipped.json"
LIMIT_SECONDS = 1800.0
"""After which a report would be given up: far beyond what any takes."""


def error_reports(rules: Iterable[Rule]) -> dict[str, ErrorReport]:
    """The reports by the rules' names; only those that did not ship are made now."""
    known = _stored()
    return {rule.name: known.get(error_fingerprint(rule)) or error_of(rule) for rule in rules}


def error_fingerprint(rule: Rule) -> str:
    """The fingerprint of the report."""
    return fingerprint(rule, ERROR)


@cache
def _stored() -> dict[str, ErrorReport]:
    try:
        text = (files("hnfc") / "dsl" / "error" / NAME).read_text(encoding="utf-8")
        return {key: ErrorReport.from_json(entry) for key, entry in json.loads(text).items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        # without them every report is made when it is asked for
        return {}


def write(rules: Sequence[Rule], path: str) -> None:
    """Makes every report anew and writes them."""
    reports: dict[str, ErrorReport] = {}

    def finish(number: int, report: ErrorReport) -> None:
        reports[error_fingerprint(rules[number])] = report

    run(rules, list(range(len(rules))), None, LIMIT_SECONDS, _report, _failed, finish)
    entries = {key: reports[key].to_json() for key in reports}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(entries, file, indent=0, sort_keys=True, ensure_ascii=False, allow_nan=False)
        file.write("\n")


def _report(rule: Rule, limit: float) -> ErrorReport:
    return error_of(rule)


def _failed(rule: Rule, reason: str, seconds: float) -> ErrorReport:
    raise RuntimeError(f"no error report of {rule.name}: {reason}")
