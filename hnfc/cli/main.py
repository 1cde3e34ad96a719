"""The command line `hnfc`. IR goes to stdout, words to stderr; a command is imported once its options are read."""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from hnfc.cli import project
from hnfc.cli.parsing import COMMANDS
from hnfc.cli.terminal import INTERRUPTED, PIPE_CLOSED, USAGE, WRONG, is_fpcore, prepare, say
from hnfc.core.errors import ModelError, UsageError, suggestion
from hnfc.dsl.depth import with_room
from hnfc.dsl.store import no_store


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code (see `parsing.EXIT_CODES`)."""
    prepare()
    given = _join_ranges(list(sys.argv[1:] if arguments is None else arguments))
    try:
        if given[:1] == ["help"]:
            given = [*given[1:2], "--help"]
        named = bool(given) and given[0] in COMMANDS and given[0] != "model"
        command = given.pop(0) if named else "model"
        if given and not named:
            _check_word(given[0])
        parser = import_module(f"hnfc.cli.{COMMANDS[command]}").parser(command)
        if command != "check":  # which has its own: it judges shipped rules anew too
            parser.add_argument("--no-cache", action="store_true", help="read and write nothing of what was judged before")
        project.apply(parser, command)
        options = parser.parse_args(given)
        with no_store() if options.no_cache else contextlib.nullcontext():
            return _chosen(command, options)
    except KeyboardInterrupt:
        say("interrupted; nothing was written")
        return INTERRUPTED
    except BrokenPipeError:
        # whoever read our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
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


def _chosen(command: str, options: argparse.Namespace) -> int:
    _check_folders(options)
    if command == "model" and is_fpcore(options.model):
        command = "accuracy"
    if command in ("model", "analyze", "precision") and os.path.isdir(options.model):
        options.folder_command, command = command, "folders"
    if COMMANDS.get(command) == "rule_options":
        # imports and trees make many objects and little garbage: looking for it often is an eighth of a run in which all is known
        gc.set_threshold(100_000)
        return with_room(_run, command, options)
    if getattr(options, "rules", None):
        # the user's rules may be nested deeply
        return with_room(_run, command, options)
    return _run(command, options)


_PARTS = {"torch": "torch", "egglog": "discover"}
"""Optional packages that whole commands need, and the extras that hold them."""


def _run(command: str, options: argparse.Namespace) -> int:
    try:
        module = import_module(f"hnfc.cli.{command}")
    except ModuleNotFoundError as error:
        if error.name not in _PARTS:
            raise
        raise ModelError(f"hnfc {command} needs {error.name}, which is not installed: pip install 'hnfc[{_PARTS[error.name]}]'") from None
    code: int = module.run(options)
    return code


def _check_folders(options: argparse.Namespace) -> None:
    """Raises ModelError for a file to be written in a folder that is not there: after minutes of work is too late."""
    for name in ("output", "json", "report", "sarif", "picture"):
        file = getattr(options, name, None)
        folder = os.path.dirname(file or "")
        if folder and not os.path.isdir(folder):
            raise ModelError(f"there is no folder {folder}", file)


def _check_word(word: str) -> None:
    """Raises UsageError for what is no option and no file, and looks like a command."""
    if word.isalpha() and not os.path.exists(word):
        raise UsageError(f"there is no command and no file `{word}`{suggestion(word, [*COMMANDS, 'help'])}")


def _join_ranges(given: list[str]) -> list[str]:
    """`--range -40:40` as `--range=-40:40`: argparse would take the bound for an option."""
    joined: list[str] = []
    for argument in given:
        if joined and joined[-1] == "--range" and ":" in argument:
            joined[-1] = f"--range={argument}"
        else:
            joined.append(argument)
    return joined


if __name__ == "__main__":
    sys.exit(main())
