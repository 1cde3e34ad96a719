"""Sudden jumps of the loss."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from hnfc.watching.record import Bad

_FAR_BACK = 20
"""Losses whose median a jump is measured against."""


class LossJumps:
    """Losses of a run. factor: a loss so many times as large as the median of those before counts as a fault; None: none does."""

    def __init__(self, factor: float | None) -> None:
        self._factor, self._past = factor, deque[float](maxlen=_FAR_BACK)

    def found(self, losses: Sequence[float]) -> list[Bad]:
        """Notes the losses of a step; the jump, if they are one."""
        if self._factor is None or not losses:
            return []
        past, now = sorted(self._past), sum(losses) / len(losses)
        self._past.append(now)
        usual = past[len(past) // 2] if len(past) == _FAR_BACK else math.inf
        return [Bad("jump", f"{usual:.3g}", now)] if 0 < usual < math.inf and now > self._factor * usual else []
