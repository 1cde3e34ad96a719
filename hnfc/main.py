"""The command line `hnfc`. IR goes to stdout, words to stderr; heavy imports wait until a command needs them."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from hnfc.errors import ModelError

DONE, WRONG, USAGE, NOT_PROVED, INTERRUPTED = 0, 1, 2, 3, 130

_EXAMPLE = """example:
  hnfc examples/naive_attention.mlir -O stability --range -40:40 -o stable.mlir

`hnfc COMMAND --help` explains a command: check, test, fmt, rules."""


class UsageError(Exception):
    """The command line does not fit together."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code: 0 done, 1 the input is wrong or a rule is refuted, 2 usage, 3 not proved."""
    given = _join_ranges(list(sys.argv[1:] if arguments is None else arguments))
    try:
        command = given[0] if given else ""
        if command in _COMMANDS:
            parser, run = _COMMANDS[command]
            return run(parser().parse_args(given[1:]))
        return _optimize(_model_parser().parse_args(given))
    except KeyboardInterrupt:
        _say("interrupted; nothing was written")
        return INTERRUPTED
    except BrokenPipeError:
        # whoever read our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return WRONG
    except UsageError as error:
        _say(f"hnfc: {error}")
        return USAGE
    except ModelError as error:
        _say(f"error: {error}")
        return WRONG
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        _say(f"error: {place}{error.strerror or error}")
        return WRONG
    except MemoryError:
        _say("error: not enough memory for this model")
        return WRONG


def _join_ranges(given: list[str]) -> list[str]:
    """`--range -40:40` as `--range=-40:40`: argparse would take the bound for an option."""
    joined: list[str] = []
    for argument in given:
        if joined and joined[-1] == "--range" and ":" in argument:
            joined[-1] = f"--range={argument}"
        else:
            joined.append(argument)
    return joined


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


# The model --------------------------------------------------------------------------------------------------------


def _model_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hnfc", description="Rewrites a model so that it stays finite and accurate, and says why that is safe.",
        epilog=_EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("model", metavar="MODEL", help="a .mlir or .mlirbc file in the torch dialect; - is stdin")
    parser.add_argument(
        "-O", dest="level", default="stability", metavar="LEVEL",
        help="stability (default), fusion, folding, reassociation, precision, compensated, all, none; or rule groups",
    )  # fmt: skip
    parser.add_argument("-o", dest="output", metavar="OUT", help="write the model to this file instead of stdout")
    parser.add_argument(
        "--emit", choices=("torch", "num", "linalg", "mlirbc"), default="torch", help="the form of the output (default torch)"
    )
    parser.add_argument("--rules", action="append", default=[], metavar="F.hnf", help="rules of your own, run with those of the level")
    parser.add_argument("--range", dest="ranges", action="append", default=[], metavar="arg0=LO:HI",
                        help="all values of an input lie there (LO:HI alone: of every input); samples are drawn from it")  # fmt: skip
    parser.add_argument("--calibrate", metavar="F.npz", help="samples of the inputs: arrays arg0, arg1, …")
    parser.add_argument("--assume", action="append", default=[], metavar="RULE", help="you vouch for the `where` of this rule")
    parser.add_argument("--allow-unproved", action="append", default=[], metavar="RULE", help="let this rule run without a proof")
    parser.add_argument("--no-validate", action="store_true", help="do not run old and new on the samples")
    parser.add_argument("--json", metavar="OUT.json", help="write the report as JSON too")
    parser.add_argument("-q", "--quiet", action="store_true", help="no report")
    parser.add_argument("--version", action="version", version=f"hnfc {_version()}")
    return parser


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("hnfc")
    except PackageNotFoundError:
        return "(not installed)"


def _optimize(options: argparse.Namespace) -> int:
    from hnfc.pipelines import UnknownLevel, phases
    from hnfc.samples import parse_range

    ranges = [parse_range(text) for text in options.ranges]
    with _Progress() as progress:
        progress("reading …")
        from hnfc.compile import Request, allowed, compile_module
        from hnfc.dsl.diagnostics import HnfError
        from hnfc.dsl.rulebook import load_files, shipped
        from hnfc.frontend.torch_mlir import read
        from hnfc.report.text import json_report, text_report
        from hnfc.verdicts import verdicts

        book = shipped()
        try:
            own = load_files(options.rules)
        except HnfError as error:
            progress.stop()
            return _report_diagnostics(error)
        try:
            plan = [list(book.only(names).rules) for names in phases(options.level, set(book.groups()))]
        except UnknownLevel as error:
            raise UsageError(str(error)) from None
        plan = [phase + own.rules for phase in plan] or ([own.rules] if own.rules else [])
        known = {rule.name for phase in plan for rule in phase}
        for name in [*options.assume, *options.allow_unproved]:
            if name not in known:
                raise UsageError(f"there is no rule `{name}` in this run; `hnfc rules` lists the shipped ones")
        source = read(options.model)
        found = verdicts([rule for phase in plan for rule in phase], progress=progress)
        unproved = frozenset(options.allow_unproved)
        request = Request(
            phases=[allowed(phase, found, unproved) for phase in plan], ranges=ranges, calibrate=options.calibrate,
            assume=frozenset(options.assume), validate=not options.no_validate,
        )  # fmt: skip
        compiled = compile_module(source, request, progress)
        progress("writing …")
        output = _emit(compiled, options.emit)
    if not options.quiet:
        withheld = sorted({rule.name for rule in own.rules if not found[rule.name].proved} - unproved)
        _say(text_report(compiled, found, withheld, _width()))
    if options.json:
        _write(options.json, json_report(compiled, found).encode())
    _write(options.output, output)
    return DONE


def _emit(compiled: Any, form: str) -> bytes:
    from hnfc.backend.torch_mlir import emit_bytecode, emit_linalg, emit_torch

    if form == "num":
        return (str(compiled.imported.module) + "\n").encode()
    module = compiled.export()
    if form == "mlirbc":
        return bytes(emit_bytecode(module))
    return (emit_linalg(module) if form == "linalg" else emit_torch(module, compiled.imported.located)).encode()


def _write(path: str | None, content: bytes) -> None:
    """Writes the file whole or not at all; None is stdout."""
    if path is None or path == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    temporary = f"{path}.{os.getpid()}.part"
    try:
        with open(temporary, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, path) from None
        raise


def _width() -> int:
    import shutil

    return min(shutil.get_terminal_size((100, 24)).columns, 140)


class _Progress:
    """A spinner with the stage at hand, on a terminal, once a command takes more than two seconds."""

    def __init__(self) -> None:
        self._status: Any = None
        self._started = 0.0
        self._text = ""

    def __enter__(self) -> _Progress:
        import time

        self._started = time.monotonic()
        return self

    def __call__(self, text: str) -> None:
        import time

        self._text = text
        if not sys.stderr.isatty():
            return
        if self._status is not None:
            self._status.update(text)
        elif time.monotonic() - self._started > 2 or text.startswith("proving"):
            from rich.console import Console

            self._status = Console(stderr=True).status(text)
            self._status.start()

    def stop(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def __exit__(self, *_: object) -> None:
        self.stop()


# Rule files -------------------------------------------------------------------------------------------------------


def _rules_parser(name: str, description: str, example: str, files: str = "+") -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"hnfc {name}", description=description, epilog=f"example:\n  {example}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs=files, metavar="F.hnf")
    return parser


def _check_parser() -> argparse.ArgumentParser:
    parser = _rules_parser(
        "check", "Proves each rule over the reals, or refutes it with an input; at most 20 s and 4 GiB a rule. "
        "Exit code 1: one is refuted; 3: one is not decided.",
        "hnfc check my.hnf",
    )  # fmt: skip
    parser.add_argument("--why", action="store_true", help="print the proofs, in words")
    parser.add_argument("--json", metavar="OUT.json", help="write the verdicts as JSON too")
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


def _report_diagnostics(error: Any) -> int:
    from pathlib import Path

    from hnfc.dsl.diagnostics import render

    for diagnostic in error.diagnostics:
        try:
            source: str | None = Path(diagnostic.file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            source = None
        _say(render(diagnostic, source))
        _say("")
    return WRONG


def _with_book(paths: list[str], run: Callable[[Any], int]) -> int:
    from hnfc.dsl.diagnostics import HnfError
    from hnfc.dsl.rulebook import load_files

    try:
        book = load_files(paths)
    except HnfError as error:
        return _report_diagnostics(error)
    return run(book)


def _check(options: argparse.Namespace) -> int:
    def run(book: Any) -> int:
        from hnfc.report.rules import check_report, verdicts_json
        from hnfc.verdicts import verdicts

        with _Progress() as progress:
            found = verdicts(book.rules, progress=progress)
        _say(check_report(book, found, options.why, _width()))
        if options.json:
            _write(options.json, verdicts_json(book.rules, found).encode())
        statuses = {verdict.status.value for verdict in found.values()}
        return WRONG if "REFUTED" in statuses else NOT_PROVED if "UNKNOWN" in statuses else DONE

    return _with_book(options.files, run)


def _test(options: argparse.Namespace) -> int:
    def run(book: Any) -> int:
        from hnfc.dsl.diagnostics import render
        from hnfc.ruletest import run_tests

        results = list(run_tests(book))
        for result in results:
            if result.diagnostic is not None:
                _say(render(result.diagnostic, book.sources.get(result.diagnostic.file)))
                _say("")
        failed = sum(not result.passed for result in results)
        untested = [rule.name for rule in book.rules if rule.name not in {result.rule for result in results}]
        _say(f"{len(results) - failed} of {len(results)} tests passed" + (f"; no test: {', '.join(untested)}" if untested else ""))
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
            code = _report_diagnostics(error)
            continue
        except UnicodeDecodeError:
            _say(f"error: {path}: the file is not text in UTF-8")
            code = WRONG
            continue
        if formatted == source:
            continue
        if options.check:
            _say(f"{path} is not formatted")
            code = WRONG
        else:
            _write(path, formatted.encode())
            _say(f"{path} formatted")
    return code


def _list(options: argparse.Namespace) -> int:
    from hnfc.dsl.rulebook import shipped
    from hnfc.report.rules import rule_page, rule_table
    from hnfc.verdicts import verdicts

    book = shipped()
    groups = book.groups()
    rules = book.rules
    if options.names:
        rules = []
        for name in options.names:
            rule = book.named(name)
            if rule is None and name not in groups:
                import difflib

                close = difflib.get_close_matches(name, [r.name for r in book.rules] + list(groups), n=1)
                raise UsageError(f"there is no rule or group `{name}`" + (f"; did you mean `{close[0]}`?" if close else ""))
            rules += [rule] if rule is not None else groups[name]
    with _Progress() as progress:
        found = verdicts(rules, progress=progress)
    if options.names and all(name not in groups for name in options.names):
        print("\n\n".join(rule_page(book, rule, found[rule.name]) for rule in rules))
    else:
        print(rule_table(rules, found, _width()))
    return DONE


_COMMANDS: dict[str, tuple[Callable[[], argparse.ArgumentParser], Callable[[argparse.Namespace], int]]] = {
    "check": (_check_parser, _check),
    "test": (_test_parser, _test),
    "fmt": (_fmt_parser, _fmt),
    "rules": (_list_parser, _list),
}

if __name__ == "__main__":
    sys.exit(main())
