"""Options of the commands on rule files: check, explain, test, fmt, rules."""

from __future__ import annotations

import argparse

from hnfc.cli.jobs_options import add_jobs
from hnfc.cli.parsing import CommandParser
from hnfc.cli.report_options import add_report


def parser(command: str) -> argparse.ArgumentParser:
    """The options of the command."""
    return _PARSERS[command]()


def _rules_parser(name: str, description: str, example: str) -> argparse.ArgumentParser:
    parser = CommandParser(name, description, f"example:\n  {example}")
    parser.add_argument("files", nargs="+", metavar="F.hnf", help="files of rules; - alone is stdin")
    return parser


def _check() -> argparse.ArgumentParser:
    parser = _rules_parser(
        "check",
        "Proves each rule over the reals, or refutes it with an input that is replayed; then says what it changes in each "
        "floating-point format. A rule from a stranger cannot hang it: a rule takes at most --limit seconds and 4 GiB, files are "
        "at most a million characters, brackets 200 deep, rules 2000 nodes. Exit code 0: all proved; 1: one is refuted, "
        "or speaks of no input; 3: one is not decided.",
        "hnfc check my.hnf",
    )  # fmt: skip
    parser.add_argument("--why", action="store_true", help="print the proofs and what differs in each format, in words")
    parser.add_argument("--watch", action="store_true", help="check again whenever a rule file in their folders changes, until Ctrl-C")
    parser.add_argument("--json", metavar="OUT.json", help="write the verdicts as JSON too")
    parser.add_argument("--sarif", metavar="OUT.sarif", help="write what is wrong in SARIF 2.1, which code hosts show beside the lines")
    add_report(parser)
    parser.add_argument("--smt2", metavar="DIR", help="write every obligation of the proofs as SMT-LIB 2, for another solver to check")
    parser.add_argument(
        "--coq", metavar="DIR", help="write a certificate of each proof, a theorem for Coq, and check it if coqc is installed"
    )
    parser.add_argument(
        "--formats", metavar="F,…", help="the formats to judge: f64, f32, f16, bf16, f8E4M3FN, f8E5M2 (default: all of them)"
    )
    parser.add_argument("--assume", metavar="A,…", default="", help="no-nans, no-infs, no-signed-zeros: such inputs do not count")
    parser.add_argument("--no-ieee", action="store_true", help="only the verdict over the reals")
    parser.add_argument("--limit", type=float, default=20.0, metavar="S", help="seconds that a rule may take (default 20)")
    add_jobs(parser, "one for each processor")
    parser.add_argument("--no-cache", action="store_true", help="judge anew what is known already")
    return parser


def _explain() -> argparse.ArgumentParser:
    description = "Explains a rule: what it is for, both verdicts, the proof in steps, and the errors of both sides as formulas."
    parser = CommandParser("explain", description, "example:\n  hnfc explain softmax_fusion")
    parser.add_argument("names", nargs="+", metavar="RULE", help="shipped rules, or rules of the files in --rules")
    parser.add_argument("--rules", action="append", default=[], metavar="F.hnf", help="a file of your own that has the rule")
    parser.add_argument("--json", metavar="OUT.json", help="write the verdicts as JSON too")
    add_report(parser)
    return parser


def _test() -> argparse.ArgumentParser:
    parser = _rules_parser("test", "Runs the tests inside rule files.", "hnfc test my.hnf")
    parser.add_argument("--json", metavar="OUT.json", help="write the results as JSON too")
    return parser


def _fmt() -> argparse.ArgumentParser:
    parser = _rules_parser("fmt", "Formats rule files in place, or stdin to stdout; comments stay.", "hnfc fmt my.hnf")
    parser.add_argument("--check", action="store_true", help="change nothing; exit code 1 if a file is not formatted")
    parser.add_argument("--json", metavar="OUT.json", help="write the state of each file as JSON too")
    return parser


def _list() -> argparse.ArgumentParser:
    examples = "examples:\n  hnfc rules softmax_fusion\n  hnfc rules my.hnf --emit pdl"
    parser = CommandParser("rules", "Lists rules with their verdicts, or shows some of them.", examples)
    parser.add_argument("names", nargs="*", metavar="NAME", help="shipped rules or groups, or files (.hnf); by default all shipped rules")
    parser.add_argument("--json", metavar="OUT.json", help="write the rules with their verdicts as JSON too")
    parser.add_argument("--emit", choices=("pdl",), help="write the proved rules in MLIR's PDL dialect; stderr names the others")
    return parser


_PARSERS = {"check": _check, "explain": _explain, "test": _test, "fmt": _fmt, "rules": _list}
