"""A live table of a run in the terminal: the values that are nearest to the end of their types."""

from __future__ import annotations

import math
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hnfc.watching.history import ObservedStep, ObservedValue

_NEAR = 3.0
"""Bits left from which a row is red."""


class LiveTable:
    """A table on stderr that is drawn anew at each look; elsewhere than on a terminal, nothing.

    rows: how many values it has, those with the fewest bits left first. It ends with the process, or at `close`.
    """

    def __init__(self, rows: int = 12, console: Console | None = None) -> None:
        self._rows = rows
        self._console = console or Console(stderr=True)
        self._live: Live | None = None
        self._before: dict[str, float] = {}

    def __call__(self, step: ObservedStep) -> None:
        if not self._console.is_terminal:
            return
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, transient=False)
            self._live.start()
        self._live.update(self.table(step), refresh=True)
        self._before = {each.name: each.largest for each in step.values}

    def close(self) -> None:
        """Leaves the table as it is, and the terminal to others."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def table(self, step: ObservedStep) -> Table:
        """The table of a step that was looked at."""
        loss = "" if step.loss is None else f", loss {step.loss:.5g}"
        scale = "" if step.scale is None else f", loss scale {step.scale:g}"
        made = Table(title=f"step {step.step}{loss}{scale}", title_justify="left", expand=False)
        made.add_column("value", overflow="ellipsis", no_wrap=True, max_width=64)
        for heading in ("type", "largest", "bits left", "grew", "not finite", "0", "subnormal", "saturated"):
            made.add_column(heading, justify="left" if heading == "type" else "right", no_wrap=True)
        for each in sorted(step.values, key=lambda each: each.headroom)[: self._rows]:
            made.add_row(*self._row(each))
        return made

    def _row(self, each: ObservedValue) -> list[Any]:
        left, old = each.headroom, self._before.get(each.name, math.nan)
        both = 0 < old < math.inf and 0 < each.largest < math.inf
        grew = f"{math.log2(each.largest / old):+.1f}" if both else ""
        shares = each.shares
        style = "bold red" if left <= 0 or shares.not_finite else "red" if left < _NEAR else ""
        bits = f"{left:.1f}" if math.isfinite(left) else "none" if left < 0 else "all"
        counted = (shares.not_finite, shares.zeros, shares.subnormal, shares.saturated)
        cells = [each.name, each.format, f"{each.largest:.3g}", bits, grew, *(f"{100 * share:.1f} %" if share else "" for share in counted)]
        return [Text(cell, style=style) for cell in cells]
