"""The rules that the options of a command name, and a model rewritten by them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hnfc.accuracy.searches import searches
from hnfc.backend.on_iree import IREE, STABLEHLO, sentence, written
from hnfc.backend.on_onnx import ONNX
from hnfc.cli.progress import Progress
from hnfc.cli.terminal import is_quiet, report_diagnostics, say, write
from hnfc.core.errors import UsageError
from hnfc.core.samples import parse_range
from hnfc.dsl.diagnostics import HnfError
from hnfc.egraph.search import search_of
from hnfc.pipeline.request import Request
from hnfc.pipeline.rulesets import load_rules
from hnfc.report.table import width
from hnfc.report.text import json_report, text_report

_WRITTEN = (".mlir", ".mlirbc", ".vmfb", ".vhlo", ".stablehlo", ".onnx", ".txt")
_FORM_OF = {".mlirbc": "mlirbc", ".vmfb": "iree", ".vhlo": "vhlo", ".stablehlo": "stablehlo", ".onnx": "onnx"}
"""By suffix: the form that is written where --emit names none."""


def form_of(path: str | None, emit: str | None) -> str:
    """The form that a model is written in. Raises UsageError for a file whose name promises another, or one that no model is written in."""
    suffix = Path(path or "").suffix.lower()
    if suffix and suffix not in _WRITTEN:
        raise UsageError(f"-o {path}: hnfc writes no {suffix} files; it writes {', '.join(_WRITTEN)}, in the form that --emit names")
    named = _FORM_OF.get(suffix, "torch")
    if (suffix == ".onnx") != (emit == "onnx") and emit is not None and suffix:
        raise UsageError(f"-o {path}: --emit {emit} does not write {suffix} files")
    return emit or named


@dataclass
class Rewriting:
    """The rules that the options of a command name, and what is known of them."""

    options: argparse.Namespace
    request: Any
    rules: Any

    def report(self, compiled: Any, more: Sequence[Any] = ()) -> None:
        """The report, where the options want it. more: parts of the page of a command that also runs the model."""
        if not is_quiet():
            say(text_report(compiled, self.rules.verdicts, self.rules.withheld, width()))
        if self.options.json:
            write(self.options.json, json_report(compiled, self.rules.verdicts).encode())
        if self.options.report:
            from hnfc.cli import pages

            rules = self.rules
            pages.write_page(self.options.report, pages.model_page, compiled, rules.verdicts, rules.withheld, self.options.model, more=more)


def rewriting(options: argparse.Namespace, progress: Progress, **request: Any) -> Rewriting | None:
    """The rules, judged. None after a diagnostic of a rule file has been shown. Raises UsageError and ModelError."""
    ranges = [parse_range(text) for text in options.ranges]
    try:
        rules = load_rules(options.level, *options.rules, allow_unproved=options.allow_unproved, progress=progress)
    except HnfError as error:
        progress.stop()
        report_diagnostics(error)
        return None
    rules.check(options.assume)
    given = (options.search, options.cost, options.target, options.deepening, options.seconds)
    rules, search = rules.for_search(search_of(*given, targets=rules.targets), progress)
    made = Request(
        phases=rules.allowed(),
        ranges=ranges,
        assume=frozenset(options.assume),
        unproved=rules.unproved,
        validate=not options.no_validate,
        drawn=bool(options.report),
        search=search,
        **searches(rules.searches),
        **request,
    )
    return Rewriting(options, made, rules)


def prepared(compiled: Any, runner: str) -> Any:
    """The rewritten module as it is written for a runner; a note says which operations have another form there."""
    if runner == "torch":
        return compiled.export()
    forms = _FORMS[runner]
    module, counted = written(compiled.export(), forms)
    if counted:
        compiled.notes.append(sentence(counted, forms.runner))
    return module


_FORMS = {"iree": IREE, "stablehlo": STABLEHLO, "onnx": ONNX}
