"""Options of `hnfc discover`."""

from __future__ import annotations

import argparse

from hnfc.cli.parsing import CommandParser


def parser(command: str) -> argparse.ArgumentParser:
    """The options of the command."""
    made = CommandParser(
        command,
        "Finds rules: all terms over the operations up to a size are compared at points, equalities are proved, and what follows "
        "from others is dropped. The rules come as a file, each towards the side that loses fewer digits, with a test.",
        'examples:\n  hnfc discover "exp, log, +, -" -o found.hnf\n'
        '  hnfc discover "exp, sum, /, softmax" --given algebra\n  hnfc discover "a / (1 + a), exp, neg" --size 2',
    )  # fmt: skip
    made.add_argument("over", metavar="OPERATIONS", help="operations with commas: exp, +, sum, sum[k]; or expressions of a, b and c")
    made.add_argument("--size", type=int, default=3, metavar="N", help="operations in the larger side (default 3)")
    made.add_argument("--captures", type=int, default=2, metavar="N", help="names that stand for any tensor (default 2)")
    made.add_argument("--constants", default="1", metavar="C,…", help="numbers that terms may hold (default 1)")
    made.add_argument("--given", default="", metavar="G,…", help="groups of shipped rules, or files, that are known already")
    made.add_argument("-o", "--output", metavar="OUT.hnf", help="the file to write (default: stdout)")
    made.add_argument("--library", default="found", metavar="NAME", help="name of the library in the file (default found)")
    made.add_argument("--json", metavar="OUT.json", help="write the rules with their proofs and the counts as JSON too")
    made.add_argument("--jobs", type=int, metavar="N", help="processes (default: one for each processor)")
    made.add_argument("--limit", type=float, default=5.0, metavar="S", help="seconds that a proof may take (default 5)")
    made.add_argument("--seconds", type=float, default=1800.0, metavar="S", help="seconds after which no more is proved (default 1800)")
    made.add_argument("--terms", type=int, default=200_000, metavar="N", help="terms that are looked at (default 200000)")
    return made
