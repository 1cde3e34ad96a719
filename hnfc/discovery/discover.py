"""`hnfc.discovery.discover`: from a list of operations to rules."""

from __future__ import annotations

from collections.abc import Sequence

from hnfc.core.progress import Progress, reporting
from hnfc.dialects.num import NumOp
from hnfc.dialects.num.arithmetic import SubOp
from hnfc.discovery.enumeration import FREE, Enumeration
from hnfc.discovery.operations import Operation, has_axis, leaf, operations
from hnfc.discovery.selection import Discovery, RuleSearch
from hnfc.dsl.core import Rule

CAPTURES = ("x", "y", "z")
NEG = "neg"


@reporting("enumerating terms …")
def discover(
    over: str,
    size: int = 3,
    *,
    captures: int = 2,
    constants: str = "1",
    given: Sequence[Rule] = (),
    jobs: int | None = None,
    limit: float = 5.0,
    seconds: float = 1800.0,
    terms: int = 200_000,
    progress: Progress | None = None,
) -> Discovery:
    """Find the rules over some operations that are proved and do not follow from one another.

    over: operations of the rule language and expressions of the operands a, b, c, with commas: "exp, sum[k], a / (1 + a)".
    size: operations in the larger side. captures: 1 to 3. constants: numbers that terms may hold. given: rules that are known already.
    jobs: processes. limit: seconds a proof. seconds: after these no more is proved. terms: no more than these are looked at.
    progress: takes the stage at hand in words; without it notebooks show a bar. With `-` comes `neg`: hnfc writes 0 - x so. Raises
    UsageError for a list that cannot be read.
    """
    chosen = operations(f"{over}, {NEG}" if any(_is(operation, SubOp) for operation in operations(over)) else over)
    along = any(has_axis(operation.expression) for operation in chosen)
    names = [*CAPTURES[:captures], *([FREE] if along else [])]
    numbers = [leaf(text.strip()) for text in constants.split(",") if text.strip()]
    return RuleSearch(Enumeration(chosen, names, numbers, terms), given, jobs, limit, seconds).run(size)


def _is(operation: Operation, kind: type[NumOp]) -> bool:
    return operation.simple is not None and operation.simple.operation is kind
