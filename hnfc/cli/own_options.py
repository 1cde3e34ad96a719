"""Options of the commands about hnfc itself: doctor, completion."""

from __future__ import annotations

import argparse

from hnfc.cli.parsing import CommandParser

SHELLS = ("bash", "zsh", "fish")


def parser(command: str) -> argparse.ArgumentParser:
    """The options of the command."""
    return _PARSERS[command]()


def _doctor() -> argparse.ArgumentParser:
    made = CommandParser("doctor", "Says which versions are installed, which optional parts are there, and where the cache is.",
                         "example:\n  hnfc doctor")  # fmt: skip
    made.add_argument("--json", metavar="OUT.json", help="write the facts as JSON too")
    return made


def _completion() -> argparse.ArgumentParser:
    made = CommandParser(
        "completion", "Writes a script that completes commands, options and files in a shell.",
        'examples:\n  eval "$(hnfc completion bash)"        in ~/.bashrc\n'
        "  hnfc completion zsh > ~/.zfunc/_hnfc      a folder of $fpath\n"
        "  hnfc completion fish > ~/.config/fish/completions/hnfc.fish",
    )  # fmt: skip
    made.add_argument("shell", choices=SHELLS)
    made.add_argument("--json", metavar="OUT.json", help="write all commands and their options as JSON too, for other shells and editors")
    return made


_PARSERS = {"doctor": _doctor, "completion": _completion}
