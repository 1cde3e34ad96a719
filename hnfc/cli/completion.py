"""`hnfc completion SHELL`: a script of shtab's that completes commands and options."""

from __future__ import annotations

import argparse

import shtab

from hnfc.cli.parsing import COMMANDS, command_parser
from hnfc.cli.terminal import DONE, show


def run(options: argparse.Namespace) -> int:
    """Prints the script; the exit code."""
    show(shtab.complete(_whole(), shell=options.shell))
    return DONE


def _whole() -> argparse.ArgumentParser:
    """All commands as subcommands of one parser, which is for this alone: each run reads the options of one command only."""
    whole = argparse.ArgumentParser(prog="hnfc")
    commands = whole.add_subparsers()
    for command in COMMANDS:
        if command == "model":
            continue
        own = command_parser(command)
        added = commands.add_parser(command, parents=[own], add_help=False, help=(own.description or "").split(".")[0])
        added.set_defaults(command=command)
    for action in command_parser("model")._actions:
        if action.option_strings and action.dest != "help":
            whole._add_action(action)
    return whole
