"""Limits of a proof: counts, so that it stops at the same step on every machine. The clock is only a guard for who waits for the answer."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

QUERY = 400_000
"""Resource units of Z3 for one question: a third of a second or less."""
CASE = 20_000
"""Cost of a case besides its questions."""
PROOF = 6_000_000


class OutOfWork(Exception):
    """The count is used up."""


@dataclass
class Work:
    """Work left to a proof, in resource units of Z3. deadline: of `time.monotonic`; beyond it there is no answer at all."""

    left: int = PROOF
    deadline: float = math.inf

    def spend(self, units: int) -> None:
        """Raises OutOfWork or TimeoutError."""
        if time.monotonic() > self.deadline:
            raise TimeoutError
        self.left -= units
        if self.left < 0:
            raise OutOfWork

    def part(self, units: int) -> Work:
        """A smaller amount of work under the same guard."""
        return Work(units, self.deadline)


def milliseconds_until(deadline: float) -> int:
    """The time limit that Z3 takes; 0 is none."""
    return 0 if math.isinf(deadline) else max(1, int(1000 * (deadline - time.monotonic())) + 1)
