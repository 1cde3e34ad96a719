"""The commands, and their options by argparse, with the exit codes in each help and suggestions for what was misspelt."""

from __future__ import annotations

import argparse
import re
import textwrap
from importlib import import_module
from typing import NoReturn

from hnfc.cli.terminal import USAGE, fault
from hnfc.core.errors import suggestion

COMMANDS = {
    "check": "rule_options", "explain": "rule_options", "test": "rule_options", "fmt": "rule_options", "rules": "rule_options",
    "discover": "discover_options", "run": "run_options", "analyze": "analyze_options", "precision": "precision_options",
    "trace": "trace_options", "replay": "replay_options", "doctor": "own_options", "completion": "own_options", "lsp": "lsp_options",
    "serve": "serve_options", "model": "model_options",
}  # fmt: skip
"""By command the module of its options, which loads nothing heavy; the module that runs it has its name."""
EXIT_CODES = """exit code:
  0 done; 1 the input is wrong, or a rule is refuted; 2 usage;
  3 a rule is not proved within its limits; 130 interrupted;
  141 the reader of the output has gone"""


def command_parser(command: str) -> argparse.ArgumentParser:
    """The options of a command, those of every command among them."""
    parser: argparse.ArgumentParser = import_module(f"hnfc.cli.{COMMANDS[command]}").parser(command)
    if command != "check":  # which has its own: it judges shipped rules anew too
        parser.add_argument("--no-cache", action="store_true", help="read and write nothing of what was judged before")
    parser.add_argument("--trust-cache", action="store_true", help="believe a cache that another machine made, as one that CI restores")
    words = parser.add_mutually_exclusive_group()
    words.add_argument("-q", "--quiet", action="store_true", help="say nothing on stderr but what is wrong; results go to stdout as ever")
    words.add_argument("-v", "--verbose", action="store_true",
                       help="say on stderr which options and files are taken, and the time of each stage")  # fmt: skip
    _group(parser)
    return parser


GROUPS = {
    "inputs": "range calibrate inputs function model in until with",
    "rules": "O rules given assume allow-unproved unproved no-validate why-not compare on",
    "search": "search cost target deepening size captures constants terms limit seconds",
    "bounds": "bound probability estimate per weights top certified width",
    "formats": "target-accuracy absolute formats no-ieee pin no-cast policy memory-budget least plain headroom margin",
    "output": "o output emit library all why json sarif report picture smt2 coq",
    "running": "watch jobs cluster work no-cache trust-cache quiet verbose version help",
}
"""Headings of a help with many options, and the options below each."""
_FEW = 9
"""Options that need no headings."""


def _group(parser: argparse.ArgumentParser) -> None:
    """Moves the options below their headings, where there are many."""
    own = parser._optionals._group_actions
    if len(own) <= _FEW:
        return
    by_name = {action.option_strings[-1].lstrip("-"): action for action in own}
    for title, names in GROUPS.items():
        if found := [by_name.pop(name) for name in names.split() if name in by_name]:
            parser.add_argument_group(title)._group_actions.extend(found)
    own[:] = by_name.values()


class _HelpFormatter(argparse.HelpFormatter):
    """Help at the width of the terminal: paragraphs are filled, and indented lines, which are commands, stay lines."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines: list[str] = []
        for block in re.split(r"\n(?= |$)|\n\n|(?<=:)\n", text):
            deeper = " " * (len(block) - len(block.lstrip()) + 4 if block.startswith(" ") else 0)
            explained = re.fullmatch(r"( +\S.*?\S) {2,}(\S.*)", block) if len(block) > width else None
            if explained:
                lines += [explained[1], *textwrap.wrap(explained[2], width, initial_indent=deeper, subsequent_indent=deeper)]
            elif block.startswith(" "):
                lines += textwrap.wrap(block, width, subsequent_indent=deeper, break_long_words=False, break_on_hyphens=False)
            else:
                lines += ["", *textwrap.wrap(block, width, break_long_words=False, break_on_hyphens=False)]
        return "\n".join(lines).strip("\n")


class CommandParser(argparse.ArgumentParser):
    """Parser of a command's options. A wrong one is named in one line, with what was probably meant."""

    def __init__(self, command: str, description: str, examples: str, usage: str | None = None) -> None:
        super().__init__(
            prog=f"hnfc {command}".strip(), usage=usage, description=description, epilog=f"{examples}\n\n{EXIT_CODES}", allow_abbrev=False,
            formatter_class=_HelpFormatter,
        )  # fmt: skip

    def error(self, message: str) -> NoReturn:
        """Says what is wrong, and ends the process."""
        fault(f"{self.prog}: {message}{self._meant(message)}\n  `{self.prog} --help` lists the options")
        self.exit(USAGE)

    def _meant(self, message: str) -> str:
        if unknown := re.match(r"unrecognized arguments: (-[^ =]*)", message):
            return suggestion(unknown[1], self._option_string_actions)
        if wrong := re.match(r"argument ([^:]+): invalid choice: '([^']*)'", message):
            named = wrong[1].split("/")[-1]
            chosen = next((action for action in self._actions if named in (*action.option_strings, action.dest)), None)
            return suggestion(wrong[2], map(str, chosen.choices)) if chosen is not None and chosen.choices else ""
        return ""
