"""Rules, tests and findings as JSON, and findings in SARIF, which code hosts show beside the lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hnfc.dsl import core
from hnfc.dsl.diagnostics import Diagnostic
from hnfc.dsl.rulebook import Rulebook
from hnfc.dsl.soundness import Verdict
from hnfc.report.explain import rule_text

if TYPE_CHECKING:
    from hnfc.rewrite.rule_tests import TestResult

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning"}


def rules_json(book: Rulebook, rules: Iterable[core.Rule], verdicts: dict[str, Verdict]) -> str:
    """By rule: its group, text, reason and source, and the verdict over the reals."""
    data = {}
    for rule in rules:
        about = {"group": rule.group, "text": rule_text(book, rule), "reason": rule.reason, "source": rule.source}
        data[rule.name] = about | verdicts[rule.name].to_json()
    return text_of(data)


def results_json(results: Iterable[TestResult]) -> str:
    """Each test of a rule file: its rule, whether it passed, and where and why not."""
    data = []
    for result in results:
        found = {"rule": result.rule, "passed": result.passed}
        if (fault := result.diagnostic) is not None:
            found |= {"message": fault.message, "file": fault.file, "line": fault.span.line if fault.span else None}
        data.append(found)
    return text_of(data)


def sarif(diagnostics: Sequence[Diagnostic], version: str) -> str:
    """The diagnostics in SARIF 2.1.0 (OASIS, 2020)."""
    codes = sorted({diagnostic.code for diagnostic in diagnostics})
    driver = {"name": "hnfc", "version": version, "rules": [{"id": code} for code in codes]}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": [_result(d) for d in diagnostics]}
    return text_of({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]})


def _result(diagnostic: Diagnostic) -> dict[str, Any]:
    path = Path(diagnostic.file)
    place: dict[str, Any] = {"artifactLocation": {"uri": path.as_uri() if path.is_absolute() else path.as_posix()}}
    if (span := diagnostic.span) is not None:
        place["region"] = {"startLine": span.line, "startColumn": span.column}
    text = "\n".join(filter(None, (diagnostic.message, diagnostic.note, diagnostic.help)))
    return {
        "ruleId": diagnostic.code, "level": _LEVELS.get(diagnostic.severity, "note"), "message": {"text": text},
        "locations": [{"physicalLocation": place}],
    }  # fmt: skip


def text_of(data: Any) -> str:
    """The data as JSON that people can read too."""
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"
