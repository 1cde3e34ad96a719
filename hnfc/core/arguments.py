"""Checks of what Python callers pass: names, ranges and numbers, refused in words where they are something else."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hnfc.core.errors import UsageError
from hnfc.dialects.interval import Interval


def names_of(value: Any, option: str) -> tuple[str, ...]:
    """The names that an option was given: one, or several. Raises UsageError."""
    several = [value] if isinstance(value, str | Path) else list(value) if isinstance(value, Iterable) else [None]
    for name in several:
        if not isinstance(name, str | Path):
            raise UsageError(f"`{option}` takes a name or several, but got {value!r}")
    return tuple(map(str, several))


def intervals_of(ranges: Any, names: Sequence[str]) -> dict[str, Interval]:
    """The declared range of each input that has one. Raises UsageError for an input that there is not, and for bounds that are none."""
    if not isinstance(ranges, Mapping):
        raise UsageError(f'`ranges` takes bounds by the name of the input, as {{"x": (-10, 10)}}, or "sample", but got {ranges!r}')
    found = {}
    for name, bounds in ranges.items():
        if name not in names:
            raise UsageError(f"there is no input `{name}`; the inputs are {', '.join(names)}")
        try:
            lo, hi = map(float, bounds)
        except (TypeError, ValueError):
            raise UsageError(f"the range of `{name}` is two numbers, as (-10, 10), but got {bounds!r}") from None
        if not lo <= hi:
            raise UsageError(f"the range of `{name}` is empty: {lo:g} is not at most {hi:g}")
        found[name] = Interval(lo, hi, minus=0 in (lo, hi))
    return found


def number_of(value: Any, option: str, least: float = 0.0) -> float:
    """A finite number from `least` on. Raises UsageError."""
    if isinstance(value, int | float) and math.isfinite(value) and value >= least:
        return float(value)
    raise UsageError(f"`{option}` takes a number from {least:g} on, but got {value!r}")


def callable_of(value: Any, option: str) -> Callable[..., Any] | None:
    """A function, or None. Raises UsageError."""
    if value is None or callable(value):
        return value  # type: ignore[no-any-return]
    raise UsageError(f"`{option}` takes a function, but got {value!r}")


def check_kind(value: Any, kind: type, function: str, what: str = "an nn.Module", advice: str = "") -> None:
    """Raises UsageError where the first argument of a function is of another class."""
    if not isinstance(value, kind):
        raise UsageError(f"{function} takes {what}, not {type(value).__name__}{advice}")
