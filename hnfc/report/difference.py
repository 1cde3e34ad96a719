"""Differences between a model or function and its optimized form, as people and programs read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hnfc.core.notebook import NotebookTable, notebook_html
from hnfc.validation.measurement import Error


@dataclass(frozen=True, repr=False)
class Difference:
    """`text` is for people, and notebooks show it as HTML; `data` the same as the command line's `--json`, one entry for each kind of call
    that was captured."""

    text: str
    data: tuple[dict[str, Any], ...]

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        rewrites = sum(len(entry["rewrites"]) for entry in self.data)
        return f"Difference({rewrites} rewrites in {len(self.data)} captured calls)"

    def _repr_html_(self) -> str:
        parts: list[str | NotebookTable] = []
        for entry in self.data:
            changes = [
                [r["rule"], r["place"], r["reason"], r["verdict"].lower(), _error(r["error_before"]), _error(r["error_after"])]
                for r in entry["rewrites"]
            ]
            if changes:
                parts.append(NotebookTable(("rule", "at", "why", "over the reals", "error before", "error after"), changes))
            outputs = [[o["name"], _error(o["error_before"]), _error(o["error_after"])] for o in entry["outputs"]]
            parts.append(NotebookTable(("output", "error before", "error after"), outputs))
            parts += entry["notes"]
        count = sum(len(entry["rewrites"]) for entry in self.data)
        return notebook_html(f"{count} rewrites" if count else "nothing to rewrite", "good" if count else "plain", *parts)

    def __bool__(self) -> bool:
        return any(entry["rewrites"] for entry in self.data)


def _error(data: dict[str, Any] | None) -> str:
    """An error of a report, in words."""
    if data is None:
        return "not known"
    return str(Error(data["not_finite"], data["relative"], data["elements"], 0.0, 0.0, data["undefined"]))
