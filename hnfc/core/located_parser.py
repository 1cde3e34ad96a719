"""xDSL's parser with the place of each operation in the file, for the messages of its verifier."""

from __future__ import annotations

from bisect import bisect_right

from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr, UnknownLoc
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException


class LocatedParser(Parser):
    """Operations without a location get that of their first character. lines_before: lines of the file that precede the text."""

    def __init__(self, context: Context, text: str, name: str, lines_before: int = 0) -> None:
        super().__init__(context, text, name)
        self._file, self._lines_before = StringAttr(name), lines_before
        self._starts = [0, *(index + 1 for index, character in enumerate(text) if character == "\n")]

    def parse_operation(self) -> Operation:
        start = self.pos
        operation = super().parse_operation()
        if isinstance(operation.location, UnknownLoc):
            line = bisect_right(self._starts, start)
            column = start - self._starts[line - 1] + 1
            operation.location = FileLineColLoc(self._file, IntAttr(self._lines_before + line), IntAttr(column))
        return operation


def located(error: VerifyException, module: ModuleOp) -> str:
    """The message of a verifier, after the location and the name of the first operation that does not verify."""
    operation = next((operation for operation in module.walk() if not _verifies(operation)), module)
    text = str(error) if str(error).startswith(operation.name) else f"{operation.name}: {error}"
    place = operation.location
    return f"{place.filename.data}:{place.line.data}:{place.column.data}: {text}" if isinstance(place, FileLineColLoc) else text


def _verifies(operation: Operation) -> bool:
    try:
        operation.verify(verify_nested_ops=False)
    except VerifyException:
        return False
    return True
