"""Errors of a user's input, as data that the command line renders."""

from __future__ import annotations


class ModelError(Exception):
    """A model that cannot be read: what is wrong, and where."""

    def __init__(self, message: str, file: str | None = None, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.message, self.file, self.line, self.column = message, file, line, column

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        return f"{place}: {self.message}" if place else self.message


class UsageError(Exception):
    """The command line does not fit together."""
