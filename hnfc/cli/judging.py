"""Rules of files, judged and reported, for `hnfc check`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from hnfc.cli.doctor import version_of
from hnfc.cli.progress import Progress
from hnfc.cli.rule_files import with_book
from hnfc.cli.terminal import DONE, NOT_PROVED, WRONG, fault, say, write
from hnfc.core.errors import UsageError, alternatives
from hnfc.core.executors import executor_of
from hnfc.core.verdicts import ieee, verdicts
from hnfc.dsl.certificates.checking import Folder
from hnfc.dsl.diagnostics import Diagnostic
from hnfc.dsl.ieee import ASSUMPTIONS, FORMATS_JUDGED
from hnfc.dsl.soundness.smtlib import write_smt2
from hnfc.report.check_cache import CheckQuery
from hnfc.report.rule_data import sarif
from hnfc.report.rules import check_report, finding, verdicts_json
from hnfc.report.table import table


def judge(options: argparse.Namespace, kept: CheckQuery | None) -> int:
    """Judges the rules and prints the report; the exit code. kept: where an answer is kept in which every rule is decided."""
    formats, assume = _judged(options.formats, options.assume)
    wrong: list[Diagnostic] = []

    def report_on(book: Any) -> int:
        # without a cluster rules are judged in processes that are killed one by one
        with Progress() as progress, executor_of(1, options.cluster) as executor:
            how = {"jobs": options.jobs, "limit": options.limit, "cached": not options.no_cache, "executor": executor}
            found = verdicts(book.rules, progress=progress, **how)
            judged = {} if options.no_ieee else ieee(book.rules, formats, assume, progress=progress, **how)
            if options.smt2:
                progress("writing obligations …")
                _write_obligations(book.rules, found, options.smt2)
            if options.coq:
                _write_certificates(book.rules, found, options.coq, progress)
        statuses = {verdict.status.value for verdict in found.values()}
        code = WRONG if statuses & {"REFUTED", "VACUOUS"} else NOT_PROVED if "UNKNOWN" in statuses else DONE
        report = check_report(book, found, judged, options.why, code)
        (say if code == DONE else fault)(report.text(table))
        if options.json:
            write(options.json, verdicts_json(book.rules, found, judged).encode())
        if options.report:
            from hnfc.cli import pages

            pages.write_page(options.report, pages.check_page, book, found, judged)
        wrong.extend(finding(rule, found[rule.name]) for rule in book.rules if not found[rule.name].proved)
        unknown = "UNKNOWN" in statuses or any(each.status.value == "unknown" for several in judged.values() for each in several)
        if kept is not None and not unknown and not book.faults:
            kept.keep(book.sources, report)
        return code

    code = with_book(options.files, report_on, lenient=True, found=wrong)
    if options.sarif:
        write(options.sarif, sarif(wrong, version_of("hnfc")).encode())
    return code


def _write_certificates(rules: list[Any], found: dict[str, Any], directory: str, progress: Any) -> None:
    folder = Folder(Path(directory))
    proved = [rule for rule in rules if found[rule.name].proved]
    results = []
    for count, rule in enumerate(proved):
        progress(f"certificates: {count} of {len(proved)} written, next {rule.name} …")
        try:
            results.append(folder.write(rule, found[rule.name]))
        except RuntimeError as error:
            raise UsageError(f"{directory}: {error}") from None
    for result in results:
        if not result.accepted:
            say(f"{result.rule}: no certificate: {result.reason}")
    say(f"{sum(result.accepted for result in results)} of {len(proved)} proofs have a certificate that coqc accepts, in {directory}")


def _judged(formats: str | None, assume: str) -> tuple[tuple[str, ...], frozenset[str]]:
    """The formats and assumptions that the options name. Raises UsageError for others."""
    chosen = tuple(name.strip() for name in formats.split(",")) if formats else FORMATS_JUDGED
    assumed = frozenset(name.strip() for name in assume.split(",") if name.strip())
    for given, known, what in ((chosen, FORMATS_JUDGED, "format"), (sorted(assumed), sorted(ASSUMPTIONS), "assumption")):
        for name in given:
            if name not in known:
                raise UsageError(f"there is no {what} `{name}`{alternatives(name, known)}")
    return chosen, assumed


def _write_obligations(rules: list[Any], found: dict[str, Any], directory: str) -> None:
    count = sum(len(write_smt2(rule, Path(directory))) for rule in rules if found[rule.name].proved)
    say(f"{count} obligations of {sum(found[rule.name].proved for rule in rules)} proofs are in {directory}")
