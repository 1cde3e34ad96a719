"""The cheapest format for every site so that the estimated error of the outputs stays below a target; or why there is none."""

from __future__ import annotations

from hnfc.formats.named import format_named
from hnfc.precision.infeasibility import refusal_of
from hnfc.precision.problem import AssignmentProblem
from hnfc.precision.requirements import Assignment, Infeasible, Relaxation, Requirements, bytes_of, machine_of
from hnfc.precision.targets import Errors
from hnfc.precision.timing import time_of
from hnfc.precision.values import PrecisionSites

__all__ = ["Assignment", "Infeasible", "Relaxation", "Requirements", "assign", "bytes_of", "machine_of", "time_of"]


def assign(
    sites: PrecisionSites, requirements: Requirements, margins: Errors | None = None, strict: bool = False
) -> Assignment | Infeasible:
    """The assignment of fewest bytes, or of least time, proved or with a bound of how few there could be; or the reasons why there is none.

    margins: the part of each target that estimates may use up, by output. strict: whether no value that is not 0 may become 0.
    Raises UsageError for a pin or a target that names nothing, and HnfError for an unknown format.
    """
    for form in (*requirements.formats, *requirements.pins.values()):
        format_named(form)
    problem = AssignmentProblem(sites, requirements, margins, strict)
    found = problem.solve()
    return refusal_of(problem) if found is None else problem.assignment(found)
