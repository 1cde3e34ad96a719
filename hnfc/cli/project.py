"""Options of a project: `[tool.hnfc]` in the pyproject.toml of the folder or of one above it.

`[tool.hnfc.check]` holds the options of `hnfc check`, and so on; `[tool.hnfc.model]` those of `hnfc MODEL`. What is given on the command
line comes first.
"""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path
from typing import Any

from hnfc.cli.parsing import COMMANDS
from hnfc.core.errors import UsageError, suggestion
from hnfc.core.plain_files import read_text


def apply(parser: argparse.ArgumentParser, command: str) -> str:
    """Makes the project's options the defaults of the command; says where they stand. Raises UsageError where they cannot be."""
    file = next((path for folder in (Path.cwd(), *Path.cwd().parents) if (path := folder / "pyproject.toml").is_file()), None)
    if file is None:
        return "no pyproject.toml here or above"
    try:
        tables = tomllib.loads(read_text(file)).get("tool", {}).get("hnfc", {})
    except (OSError, ValueError, RecursionError, AttributeError):
        # whoever cannot read the project's file says so; a rule can be checked all the same
        return f"{file} cannot be read"
    if not isinstance(tables, dict):
        raise UsageError(f"{file}: `hnfc` in [tool] is a table, with one table for each command")
    for name in tables:
        if name not in COMMANDS:
            raise UsageError(f"{file}: [tool.hnfc.{name}]: there is no command `{name}`{suggestion(name, COMMANDS)}")
    own = tables.get(command, {})
    _set(parser, own, f"{file}: [tool.hnfc.{command}]")
    return f"{file}: {', '.join(f'{key} = {value}' for key, value in own.items()) or f'nothing for {command}'}"


def _set(parser: argparse.ArgumentParser, given: Any, where: str) -> None:
    actions = {text.lstrip("-"): action for action in parser._actions for text in action.option_strings if text.startswith("--")}
    actions |= {action.dest: action for action in parser._actions if action.option_strings}
    if not isinstance(given, dict):
        raise UsageError(f"{where} is no table")
    for key, value in given.items():
        action = actions.get(key) or actions.get(key.replace("_", "-"))
        if action is None or action.dest == "help":
            raise UsageError(f"{where}: there is no option `{key}`{suggestion(key, actions)}")
        parser.set_defaults(**{action.dest: _value(action, value, f"{where}: {key}")})


def _value(action: argparse.Action, value: Any, where: str) -> Any:
    """The value as the command line would read it."""
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise UsageError(f"{where} is true or false")
        return value
    many = isinstance(action, argparse._AppendAction) or action.nargs in ("+", "*")
    values = value if isinstance(value, list) and many else [value]
    if not all(isinstance(part, str | int | float) and not isinstance(part, bool) for part in values):
        raise UsageError(f"{where} is a text or a number" + (", or several of them" if many else ""))
    kind: Any = action.type or str
    try:
        read = [kind(str(part)) for part in values]
    except (ValueError, argparse.ArgumentTypeError):
        raise UsageError(f"{where}: cannot read {value!r}") from None
    if action.choices is not None and not all(part in action.choices for part in read):
        raise UsageError(f"{where} is one of {', '.join(map(str, action.choices))}")
    return read if many else read[0]
