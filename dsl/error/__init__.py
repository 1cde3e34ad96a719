"""Forward error analysis of rules: how sensitive each side is to its inputs, how large its rounding error is, and which is smaller."""

from hnfc.dsl.error.analysis import ErrorFormula, error_of, lipschitz_of, rounding_of, sensitivity_of
from hnfc.dsl.error.context import context_of
from hnfc.dsl.error.report import DEPENDS, NEVER_BETTER, NEVER_WORSE, UNKNOWN, ErrorReport, SideError
from hnfc.dsl.error.search import Example
from hnfc.dsl.error.shipped import error_fingerprint, error_reports

__all__ = [
    "DEPENDS",
    "NEVER_BETTER",
    "NEVER_WORSE",
    "UNKNOWN",
    "ErrorFormula",
    "ErrorReport",
    "Example",
    "SideError",
    "context_of",
    "error_fingerprint",
    "error_of",
    "error_reports",
    "lipschitz_of",
    "rounding_of",
    "sensitivity_of",
]  # fmt: skip
