"""Errors of a user's input, as data that the command line renders."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any


class ModelError(Exception):
    """A model that cannot be read: what is wrong, and where."""

    def __init__(self, message: str, file: str | None = None, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.message, self.file, self.line, self.column = message, file, line, column

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        return f"{place}: {self.message}" if place else self.message


class NodeError(ModelError):
    """An operation that a runner cannot run. node: the name of the node of ONNX that it comes from; empty for any other."""

    def __init__(self, message: str, *place: Any, node: str = "") -> None:
        super().__init__(message, *place)
        self.node = node


class UsageError(Exception):
    """The command line does not fit together."""


_FEW = 8


def suggestion(given: str, known: Iterable[str]) -> str:
    """The words `; did you mean …?` with the closest of the known names; empty where none is close."""
    # callers in Python may give anything
    close = difflib.get_close_matches(str(given), list(known), n=1)
    return f"; did you mean `{close[0]}`?" if close else ""


def alternatives(given: str, known: Iterable[str]) -> str:
    """The closest of the known names, as `suggestion` has it, and all of them where none is close or they are few."""
    names = list(known)
    meant, listed = suggestion(given, names), f"here are {', '.join(names) or 'none'}"
    if meant and len(names) > _FEW:
        return meant
    return f"{meant} T{listed}" if meant else f"; t{listed}"


def first_line(error: BaseException) -> str:
    """The first line of an error's message; its class where it has none."""
    return next(iter(str(error).splitlines()), type(error).__name__)


def missing(file: str | Path) -> ModelError:
    """Error of a file that is not there, with the name beside it that was probably meant."""
    path = Path(file)
    if path.exists():
        return ModelError("this is not a file", str(file))
    try:
        beside = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return ModelError(f"there is no such file, and no folder {path.parent}", str(file))
    return ModelError("there is no such file" + suggestion(path.name, beside), str(file))
