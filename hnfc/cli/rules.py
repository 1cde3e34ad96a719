"""The commands on rule files: check, explain, test, fmt, rules."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable, Sequence
from typing import Any

from hnfc.cli.terminal import DONE, NOT_PROVED, WRONG, Progress, report_diagnostics, say, write
from hnfc.core.errors import UsageError
from hnfc.report.check_cache import Question
from hnfc.report.table import table, width


def run(command: str, arguments: Sequence[str]) -> int:
    """Runs one of the commands; the exit code."""
    parser, execute = _COMMANDS[command]
    options = parser().parse_args(arguments)
    # imports and trees make many objects and little garbage: looking for it often is an eighth of a run in which all is known
    gc.set_threshold(100_000)
    return execute(options)


def _rules_parser(name: str, description: str, example: str, files: str = "+") -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"hnfc {name}", description=description, epilog=f"example:\n  {example}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs=files, metavar="F.hnf")
    return parser


def _check_parser() -> argparse.ArgumentParser:
    parser = _rules_parser(
        "check",
        "Proves each rule over the reals, or refutes it with an input that is replayed; then says what it changes in each "
        "floating-point format. A rule from a stranger cannot hang it: a rule takes at most --limit seconds and 4 GiB, files are "
        "at most a million characters, brackets 200 deep, rules 2000 nodes. Exit code 0: all proved; 1: one is refuted, "
        "or speaks of no input; 3: one is not decided.",
        "hnfc check my.hnf",
    )  # fmt: skip
    parser.add_argument("--why", action="store_true", help="print the proofs and what differs in each format, in words")
    parser.add_argument("--json", metavar="OUT.json", help="write the verdicts as JSON too")
    parser.add_argument("--smt2", metavar="DIR", help="write every obligation of the proofs as SMT-LIB 2, for another solver to check")
    parser.add_argument(
        "--formats", metavar="F,…", help="the formats to judge: f64, f32, f16, bf16, f8E4M3FN, f8E5M2 (default: all of them)"
    )
    parser.add_argument("--assume", metavar="A,…", default="", help="no-nans, no-infs, no-signed-zeros: such inputs do not count")
    parser.add_argument("--no-ieee", action="store_true", help="only the verdict over the reals")
    parser.add_argument("--limit", type=float, default=20.0, metavar="S", help="seconds that a rule may take (default 20)")
    parser.add_argument("--jobs", type=int, metavar="N", help="processes (default: one for each processor)")
    parser.add_argument("--no-cache", action="store_true", help="judge anew what is known already")
    return parser


def _explain_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hnfc explain", epilog="example:\n  hnfc explain softmax_fusion", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Explains a rule: what it is for, both verdicts, the proof in steps, and the errors of both sides as formulas.",
    )  # fmt: skip
    parser.add_argument("names", nargs="+", metavar="RULE", help="shipped rules, or rules of the files in --rules")
    parser.add_argument("--rules", action="append", default=[], metavar="F.hnf", help="a file of your own that has the rule")
    return parser


def _test_parser() -> argparse.ArgumentParser:
    return _rules_parser("test", "Runs the tests inside rule files.", "hnfc test my.hnf")


def _fmt_parser() -> argparse.ArgumentParser:
    parser = _rules_parser("fmt", "Formats rule files in place; comments stay.", "hnfc fmt my.hnf")
    parser.add_argument("--check", action="store_true", help="change nothing; exit code 1 if a file is not formatted")
    return parser


def _list_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hnfc rules", description="Lists the shipped rules with their verdicts, or shows some of them.",
        epilog="example:\n  hnfc rules softmax_fusion", formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("names", nargs="*", metavar="NAME", help="rules or groups; all of them if none is named")
    return parser


def _with_book(paths: list[str], run: Callable[[Any], int], lenient: bool = False) -> int:
    """Runs it on the rules of the files. lenient: also where some declarations are faulty, which are told of first."""
    from hnfc.dsl.diagnostics import HnfError
    from hnfc.dsl.rulebook import load_files

    faults: list[Any] = []
    try:
        book = load_files(paths, faults if lenient else None)
    except HnfError as error:
        return report_diagnostics(error)
    wrong = report_diagnostics(HnfError(faults)) if any(fault.severity == "error" for fault in faults) else DONE
    if not book.rules and wrong:
        return wrong
    return max(run(book), wrong, key=_GRAVITY.index)


_GRAVITY = (DONE, NOT_PROVED, WRONG)
"""Exit codes, the gravest last."""


def _check(options: argparse.Namespace) -> int:
    if options.limit <= 0:
        raise UsageError("--limit takes a number of seconds above 0")
    # what is written beside the report is made anew each time
    kept = None if options.no_cache or options.smt2 or options.json else _question(options)
    if kept is not None and (known := kept.answer()) is not None:
        say(known.text(table))
        return known.code
    formats, assume = _judged(options.formats, options.assume)

    def run(book: Any) -> int:
        from hnfc.core.verdicts import ieee, verdicts
        from hnfc.report.rules import check_report, verdicts_json

        how = {"jobs": options.jobs, "limit": options.limit, "cached": not options.no_cache}
        with Progress() as progress:
            found = verdicts(book.rules, progress=progress, **how)
            judged = {} if options.no_ieee else ieee(book.rules, formats, assume, progress=progress, **how)
            if options.smt2:
                progress("writing obligations …")
                _write_obligations(book.rules, found, options.smt2)
        statuses = {verdict.status.value for verdict in found.values()}
        code = WRONG if statuses & {"REFUTED", "VACUOUS"} else NOT_PROVED if "UNKNOWN" in statuses else DONE
        report = check_report(book, found, judged, options.why, code)
        say(report.text(table))
        if options.json:
            write(options.json, verdicts_json(book.rules, found, judged).encode())
        unknown = "UNKNOWN" in statuses or any(each.status.value == "unknown" for several in judged.values() for each in several)
        if kept is not None and not unknown and not book.faults:
            kept.keep(book.sources, report)
        return code

    return _with_book(options.files, run, lenient=True)


def _question(options: argparse.Namespace) -> Question:
    asked = {name: getattr(options, name) for name in ("why", "formats", "assume", "no_ieee")}
    return Question(options.files, asked)


def _judged(formats: str | None, assume: str) -> tuple[tuple[str, ...], frozenset[str]]:
    """The formats and assumptions that the options name. Raises UsageError for others."""
    from hnfc.dsl.ieee import ASSUMPTIONS, FORMATS_JUDGED

    chosen = tuple(name.strip() for name in formats.split(",")) if formats else FORMATS_JUDGED
    assumed = frozenset(name.strip() for name in assume.split(",") if name.strip())
    for given, known, what in ((chosen, FORMATS_JUDGED, "format"), (sorted(assumed), sorted(ASSUMPTIONS), "assumption")):
        for name in given:
            if name not in known:
                raise UsageError(f"there is no {what} `{name}`; there are {', '.join(known)}")
    return chosen, assumed


def _write_obligations(rules: list[Any], found: dict[str, Any], directory: str) -> None:
    from pathlib import Path

    from hnfc.dsl.soundness.smtlib import write_smt2

    count = sum(len(write_smt2(rule, Path(directory))) for rule in rules if found[rule.name].proved)
    say(f"{count} obligations of {sum(found[rule.name].proved for rule in rules)} proofs are in {directory}")


def _explain(options: argparse.Namespace) -> int:
    from hnfc.dsl.rulebook import shipped
    from hnfc.report.explain import explain_page

    def run(own: Any) -> int:
        pages = []
        for name in options.names:
            book = own if own.named(name) is not None else shipped()
            rule = book.named(name)
            if rule is None:
                raise UsageError(f"there is no rule `{name}`" + _close(name, [r.name for r in [*own.rules, *shipped().rules]]))
            with Progress() as progress:
                pages.append(explain_page(book, rule, width(), progress))
        print("\n\n".join(pages))
        return DONE

    return _with_book(options.rules, run)


def _close(name: str, known: list[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean `{close[0]}`?" if close else ""


def _test(options: argparse.Namespace) -> int:
    def run(book: Any) -> int:
        from hnfc.dsl.diagnostics import render
        from hnfc.rewrite.rule_tests import run_tests

        results = list(run_tests(book))
        for result in results:
            if result.diagnostic is not None:
                say(render(result.diagnostic, book.sources.get(result.diagnostic.file)))
                say("")
        failed = sum(not result.passed for result in results)
        untested = [rule.name for rule in book.rules if rule.name not in {result.rule for result in results}]
        say(f"{len(results) - failed} of {len(results)} tests passed" + (f"; no test: {', '.join(untested)}" if untested else ""))
        return WRONG if failed else DONE

    return _with_book(options.files, run)


def _fmt(options: argparse.Namespace) -> int:
    from pathlib import Path

    from hnfc.dsl.diagnostics import HnfError
    from hnfc.dsl.parser import parse
    from hnfc.dsl.printer import print_file

    code = DONE
    for path in options.files:
        try:
            source = Path(path).read_text(encoding="utf-8")
            formatted = print_file(parse(source, path))
        except HnfError as error:
            code = report_diagnostics(error)
            continue
        except UnicodeDecodeError:
            say(f"error: {path}: the file is not text in UTF-8")
            code = WRONG
            continue
        if formatted == source:
            continue
        if options.check:
            say(f"{path} is not formatted")
            code = WRONG
        else:
            write(path, formatted.encode())
            say(f"{path} formatted")
    return code


def _list(options: argparse.Namespace) -> int:
    from hnfc.core.verdicts import verdicts
    from hnfc.dsl.rulebook import shipped
    from hnfc.report.rules import rule_page, rule_table

    book = shipped()
    groups = book.groups()
    rules = book.rules
    if options.names:
        rules = []
        for name in options.names:
            rule = book.named(name)
            if rule is None and name not in groups:
                raise UsageError(f"there is no rule or group `{name}`" + _close(name, [r.name for r in book.rules] + list(groups)))
            rules += [rule] if rule is not None else groups[name]
    with Progress() as progress:
        found = verdicts(rules, progress=progress)
    if options.names and all(name not in groups for name in options.names):
        print("\n\n".join(rule_page(book, rule, found[rule.name]) for rule in rules))
    else:
        print(rule_table(rules, found, width()))
    return DONE


_COMMANDS: dict[str, tuple[Callable[[], argparse.ArgumentParser], Callable[[argparse.Namespace], int]]] = {
    "check": (_check_parser, _check),
    "explain": (_explain_parser, _explain),
    "test": (_test_parser, _test),
    "fmt": (_fmt_parser, _fmt),
    "rules": (_list_parser, _list),
}
