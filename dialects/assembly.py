"""Types in the assembly of `num`, each once: one for operands that are alike, and none for a result that follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import (
    CustomDirective,
    FunctionalTypeDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

TYPES = "attr-dict custom<Types>(functional-type(operands, results))"
"""End of an assembly format."""


@irdl_custom_directive
class Types(CustomDirective):
    """`: operand types -> result types`, of a class with `implied_results`."""

    both: FunctionalTypeDirective

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        operation: Any = op
        types = list(op.operand_types)
        printer.print_string(" : ")
        printer.print_list(types[:1] if len(set(types)) == 1 else types, printer.print_attribute)
        try:
            implied = operation.implied_results(types, op.properties)
        except VerifyException:
            implied = None
        if implied != list(op.result_types):
            printer.print_string(" -> ")
            printer.print_list(op.result_types, printer.print_attribute)
        state.should_emit_space, state.last_was_punctuation = True, False

    def parse(self, parser: Parser, state: ParsingState) -> None:
        position = parser.pos
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        count = sum(len(operands or ()) for operands in state.operands)
        types = types * count if len(types) == 1 else types
        operation: Any = state.op_type
        results: Sequence[Attribute] | None = None
        if parser.parse_optional_punctuation("->"):
            results = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        try:
            results = operation.implied_results(types, state.properties) if results is None else results
            if results is None:
                parser.raise_error("expected `->` and the type of the result", position)
            self.both.operand_typeable_directive.set_types(state, types)
            self.both.result_typeable_directive.set_types(state, results)
        except VerifyException as error:
            parser.raise_error(str(error), position)
