"""`hnfc completion SHELL`: a script of shtab's that completes commands, options, their values and files."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

import shtab

from hnfc.cli.parsing import COMMANDS, command_parser
from hnfc.cli.terminal import DONE, show, write
from hnfc.dsl.ieee import FORMATS_JUDGED
from hnfc.dsl.rulebook import shipped, shipped_targets
from hnfc.egraph.search import SEARCHES
from hnfc.pipeline.levels import LEVELS

_FILES = {
    "zsh": ("_describe 'hnfc commands' _commands\n", "_describe 'hnfc commands' _commands\n  _files\n", 1),
    "fish": ("\ncomplete -c hnfc -f\n", "\ncomplete -c hnfc -f\ncomplete -c hnfc -n _shtab_hnfc_using -F\n", 1),
}
"""Additions to a script: the first word may also be the file of a model."""


def run(options: argparse.Namespace) -> int:
    """Prints the script; the exit code."""
    parsers = {name: _with_values(command_parser(name)) for name in COMMANDS}
    script = shtab.complete(_whole(parsers), shell=options.shell)
    show(script.replace(*_FILES.get(options.shell, ("", "", 0))))
    if options.json:
        write(options.json, (json.dumps({name: _described(parser) for name, parser in parsers.items()}, indent=1) + "\n").encode())
    return DONE


def _with_values(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """The parser with all values that an option takes, where they are known, and with files or folders where it takes these."""
    rules = [rule.name for rule in shipped().rules]
    known: dict[str, Sequence[str]] = {
        "-O": list(LEVELS), "--search": SEARCHES, "--target": shipped_targets().names(), "--formats": FORMATS_JUDGED,
        "--why-not": rules, "--assume": rules, "--allow-unproved": rules, "RULE": rules, "NAME": [*rules, *shipped().groups()],
    }  # fmt: skip
    for action in parser._actions:
        takes = str(action.metavar)
        flag = action.option_strings[0] if action.option_strings else takes
        if takes in ("RULE", "NAME", "LEVEL", "KIND", "F,…") and flag in known and action.choices is None:
            action.choices = list(known[flag])
        elif takes in ("DIR", "FOLDER"):
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif takes.startswith(("F.", "OUT", "MODEL", "FILE", "SAMPLE")):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    return parser


def _whole(parsers: dict[str, argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """All commands as subcommands of one parser, which is for this alone: each run reads the options of one command only."""
    whole = argparse.ArgumentParser(prog="hnfc")
    commands = whole.add_subparsers()
    for command, own in parsers.items():
        if command != "model":
            added = commands.add_parser(command, parents=[own], add_help=False, help=(own.description or "").split(".")[0])
            added.set_defaults(command=command)
    for action in parsers["model"]._actions:
        if action.option_strings and action.dest != "help":
            whole._add_action(action)
    return whole


def _described(parser: argparse.ArgumentParser) -> dict[str, Any]:
    """A command's description and its arguments."""
    arguments = [
        {
            "flags": list(action.option_strings), "name": str(action.metavar or action.dest), "help": str(action.help),
            "values": None if action.choices is None else [str(choice) for choice in action.choices],
            "takes_value": action.nargs != 0,
        }
        for action in parser._actions
    ]  # fmt: skip
    return {"description": parser.description or "", "arguments": arguments}
