"""The command line `hnfc`. IR goes to stdout, words to stderr; heavy imports wait until a command needs them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from hnfc.errors import ModelError, UsageError
from hnfc.terminal import DONE, INTERRUPTED, USAGE, WRONG, Progress, report_diagnostics, say, width, write

_EXAMPLE = """example:
  hnfc examples/naive_attention.mlir -O stability --range -40:40 -o stable.mlir

`hnfc COMMAND --help` explains a command: check, explain, test, fmt, rules."""


_RULE_COMMANDS = ("check", "explain", "test", "fmt", "rules")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code: 0 done, 1 the input is wrong or a rule is refuted, 2 usage, 3 not proved."""
    given = _join_ranges(list(sys.argv[1:] if arguments is None else arguments))
    try:
        command = given[0] if given else ""
        if command in _RULE_COMMANDS:
            from hnfc.rule_commands import run

            return run(command, given[1:])
        return _optimize(_model_parser().parse_args(given))
    except KeyboardInterrupt:
        say("interrupted; nothing was written")
        return INTERRUPTED
    except BrokenPipeError:
        # whoever read our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return WRONG
    except UsageError as error:
        say(f"hnfc: {error}")
        return USAGE
    except ModelError as error:
        say(f"error: {error}")
        return WRONG
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        say(f"error: {place}{error.strerror or error}")
        return WRONG
    except MemoryError:
        say("error: not enough memory for this model")
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
    with Progress() as progress:
        progress("reading …")
        from hnfc.compile import Request, allowed, compile_module
        from hnfc.dsl.diagnostics import HnfError
        from hnfc.dsl.rulebook import load_files, shipped
        from hnfc.frontend.models import read_model
        from hnfc.report.text import json_report, text_report
        from hnfc.verdicts import verdicts

        book = shipped()
        try:
            own = load_files(options.rules)
        except HnfError as error:
            progress.stop()
            return report_diagnostics(error)
        try:
            plan = [list(book.only(names).rules) for names in phases(options.level, set(book.groups()))]
        except UnknownLevel as error:
            raise UsageError(str(error)) from None
        plan = [phase + own.rules for phase in plan] or ([own.rules] if own.rules else [])
        known = {rule.name for phase in plan for rule in phase}
        for name in [*options.assume, *options.allow_unproved]:
            if name not in known:
                raise UsageError(f"there is no rule `{name}` in this run; `hnfc rules` lists the shipped ones")
        source = read_model(options.model)
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
        say(text_report(compiled, found, withheld, width()))
    if options.json:
        write(options.json, json_report(compiled, found).encode())
    write(options.output, output)
    return DONE


def _emit(compiled: Any, form: str) -> bytes:
    from hnfc.backend.torch_mlir import emit_bytecode, emit_linalg, emit_torch

    if form == "num":
        return (str(compiled.imported.module) + "\n").encode()
    module = compiled.export()
    if form == "mlirbc":
        return bytes(emit_bytecode(module))
    return (emit_linalg(module) if form == "linalg" else emit_torch(module, compiled.imported.located)).encode()


if __name__ == "__main__":
    sys.exit(main())
