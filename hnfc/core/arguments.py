"""Checks of what Python callers pass: names, numbers and functions, refused in words where they are something else."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from hnfc.core.errors import UsageError


def names_of(value: Any, option: str) -> tuple[str, ...]:
    """The names that an option was given: one, or several. Raises UsageError."""
    several = [value] if isinstance(value, str | Path) else list(value) if isinstance(value, Iterable) else [None]
    for name in several:
        if not isinstance(name, str | Path):
            raise UsageError(f"`{option}` takes a name or several, but got {value!r}")
    return tuple(map(str, several))


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
