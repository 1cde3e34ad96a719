"""Use of what a rescaling of exponentials made: a change of a program with a name, which is recorded or undone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from xdsl.ir import Block, Operation, SSAValue

from hnfc.accuracy.losses import float_type
from hnfc.accuracy.rescaling import Rescaling
from hnfc.accuracy.widening import marks_of
from hnfc.core.dead_code import erase_dead
from hnfc.core.verdicts import verdicts
from hnfc.dsl.rulebook import shipped
from hnfc.pipeline.request import RESCALED, Found
from hnfc.rewrite.record import Rewrite, RewriteOutcome


def starts_of(block: Block, upstream: Collection[Operation]) -> list[Operation]:
    """The exponentials that the operations hold."""
    return [op for op in block.ops if op.name == "num.exp" and op in upstream and float_type(op.results[0])]


def name_of(made: Rescaling) -> str:
    """The name of a part that is rescaled from its exponentials on."""
    digest = hashlib.sha256(" ".join(map(marks_of(made.block).__getitem__, made.starts)).encode()).hexdigest()[:4]
    return f"rescaled_{digest}" if made.zeros else f"rescaled_without_zeros_{digest}"


@dataclass
class Change:
    """Use of what a rescaling made, which can be undone."""

    made: Rescaling
    name: str
    marks: frozenset[str]
    _uses: list[tuple[Operation, int, SSAValue, SSAValue]] = field(default_factory=list)

    @staticmethod
    def of(made: Rescaling) -> Change:
        """The change with the operations inserted and nothing replaced."""
        marks, name = marks_of(made.block), name_of(made)
        made.apply()
        return Change(made, name, frozenset(marks[op] for op in made.starts))

    def do(self) -> None:
        for old, new in self.made.replaced.items():
            for use in list(old.uses):
                if use.operation not in self.made.made:
                    self._uses.append((use.operation, use.index, old, new))
        for operation, index, _, new in self._uses:
            operation.operands[index] = new

    def undo(self) -> None:
        for operation, index, old, _ in self._uses:
            operation.operands[index] = old
        erase_dead(reversed(self.made.made))

    def recorded(self, outcome: RewriteOutcome, place: Callable[[Operation], str]) -> tuple[Found, dict[Operation, Operation]]:
        """Enters what was replaced into the record, with the identities; without a proof of each nothing stays."""
        known = [rule for rule in shipped().only((RESCALED,)).rules if rule.name in self.made.identities]
        found = verdicts(known)
        if not known or not all(verdict.proved for verdict in found.values()):
            self.undo()
            return Found(), {}
        many = len(self.made.starts) > 1
        counted = f"{len(self.made.starts)} exponential{'s' if many else ''}, and what is computed of {'them' if many else 'it'},"
        reason = (
            f"{counted} as numbers of moderate size times another exponential, which leaves sums and enters logarithms: nothing overflows "
            "on the way"
        )
        rule = replace(known[0], name=self.name, reason=reason, source=", ".join(rule.name for rule in known))
        for old, new in self.made.replaced.items():
            assert isinstance(old.owner, Operation)
            outcome.rewrites.append(Rewrite(rule, place(old.owner), old, new, made=tuple(self.made.made)))
            outcome.replaced[old] = new
        erase_dead([*reversed(self.made.made), *(old.owner for old in self.made.replaced if isinstance(old.owner, Operation))])
        return Found(parts={rule: found[known[0].name]}, rescaled={(mark, self.made.zeros) for mark in self.marks}), dict(self.made.made)
