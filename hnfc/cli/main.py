"""The command line `hnfc`. IR goes to stdout, words to stderr; a command is imported once its options are read."""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import sys
import time
from collections.abc import Iterator, Sequence
from importlib import import_module

from hnfc.cli import project
from hnfc.cli.parsing import COMMANDS, command_parser
from hnfc.cli.progress import loading
from hnfc.cli.streams import taken
from hnfc.cli.terminal import (
    INTERRUPTED,
    PIPE_CLOSED,
    USAGE,
    WRONG,
    Verbosity,
    detail,
    fault,
    is_fpcore,
    is_verbose,
    prepare,
    speaking,
)
from hnfc.core.errors import ModelError, UsageError, missing, suggestion
from hnfc.dsl.depth import with_room
from hnfc.dsl.store import cache_directory, no_store, trusted_store


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code (see `parsing.EXIT_CODES`)."""
    prepare()
    given = _join_ranges(list(sys.argv[1:] if arguments is None else arguments))
    try:
        if given[:1] == ["help"]:
            given = [*given[1:2], "--help"]
        named = bool(given) and given[0] in COMMANDS and given[0] != "model"
        command = given.pop(0) if named else "model"
        if not given and not named:
            command_parser(command).print_help(sys.stderr)
            return USAGE
        if given and not named:
            _check_word(given[0])
        parser = command_parser(command)
        settings = project.apply(parser, command)
        options = parser.parse_args(given)
        words = Verbosity.QUIET if options.quiet else Verbosity.VERBOSE if options.verbose else Verbosity.NORMAL
        if options.no_cache and options.trust_cache:
            raise UsageError("--no-cache reads no cache, so that --trust-cache has none to trust")
        cache = no_store() if options.no_cache else trusted_store() if options.trust_cache else contextlib.nullcontext()
        with speaking(words, taken(options)), cache:
            return _timed(command, options, settings)
    except KeyboardInterrupt:
        fault("interrupted; nothing was written")
        return INTERRUPTED
    except BrokenPipeError:
        # whoever read our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except UsageError as error:
        fault(f"hnfc: {error}")
        return USAGE
    except ModelError as error:
        fault(f"error: {error}")
        return WRONG
    except FileNotFoundError as error:
        fault(f"error: {missing(error.filename) if error.filename else error.strerror}")
        return WRONG
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        fault(f"error: {place}{error.strerror or error}")
        return WRONG
    except RuntimeError as error:
        if "conversion error" not in str(error):  # of MLIR's bindings, wherever they meet a name of the model
            raise
        fault("error: a name in the model is not text in UTF-8")
        return WRONG
    except MemoryError:
        fault("error: not enough memory for this model")
        return WRONG


def _timed(command: str, options: argparse.Namespace, settings: str) -> int:
    """Runs the command. --verbose names its options and files first, and its time last."""
    began = time.monotonic()
    for line in _taken(options) if is_verbose() else ():
        detail(line)
    detail(settings)
    code = _chosen(command, options)
    detail(f"{time.monotonic() - began:7.2f} s  in all")
    return code


def _taken(options: argparse.Namespace) -> Iterator[str]:
    given = {name: value for name, value in vars(options).items() if value not in (None, False, [], "") and name != "verbose"}
    yield "options: " + (", ".join(f"{name} {value}" for name, value in sorted(given.items())) or "none")
    if not options.no_cache:
        yield f"cache: {cache_directory()}"


def _chosen(command: str, options: argparse.Namespace) -> int:
    _check_folders(options)
    if str(getattr(options, "model", None)).endswith(".hnf"):
        raise UsageError(f"{options.model} holds rules, not a model: `hnfc check {options.model}` judges them")
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
        with loading():
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
        commands = [name for name in COMMANDS if name != "model"]
        raise UsageError(f"there is no command and no file `{word}`{suggestion(word, [*commands, 'help'])}")


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
