"""Levels of `-O`: groups of rules, phase by phase. Each phase runs to its end before the next one starts."""

from __future__ import annotations

from enum import Enum, auto

from hnfc.core.errors import suggestion

_STABLE = ("canonical", "stability", "cancellation")
_LIMITS = ("limits",)

LEVELS: dict[str, tuple[tuple[str, ...], ...]] = {
    "none": (),
    "stability": (_STABLE, _LIMITS),
    "fusion": (_STABLE, _LIMITS, ("fusion", "movement")),
    "reassociation": (("reassociation", "movement"),),
    "folding": (_STABLE, ("folding",)),
    "precision": (("precision",),),
    "compensated": (("compensated",),),
    "accuracy": (_STABLE, _LIMITS),
    "all": (_STABLE, _LIMITS, ("fusion", "movement"), ("reassociation",), ("precision",)),
}

FORMS = ("algebra", "reassociation")
"""Groups of equal forms, which searches beyond greedy go through at every level."""

SEARCHED = "accuracy"
"""The level that searches for better forms of all pointwise regions after the rules, and the group of rules that only this search tries."""


class Searches(Enum):
    """Search for better forms after the rules: none, where digits are lost on the samples, or everywhere."""

    NOTHING = auto()
    WHERE_LOST = auto()
    EVERYWHERE = auto()


SEARCHES = {SEARCHED: Searches.EVERYWHERE, "stability": Searches.WHERE_LOST, "fusion": Searches.WHERE_LOST, "all": Searches.WHERE_LOST}


class UnknownLevel(Exception):
    """No level and no group of rules has this name."""


def phases(level: str, groups: set[str]) -> tuple[tuple[str, ...], ...]:
    """The phases of `-O level`: a named level, or names of rule groups joined by commas (one phase)."""
    if level in LEVELS:
        return LEVELS[level]
    names = tuple(part.strip() for part in level.split(","))
    unknown = [name for name in names if name not in groups]
    if unknown:
        known = [*LEVELS, *sorted(groups - set(LEVELS))]
        meant = suggestion(unknown[0], known) or f"; there are {', '.join(known)}"
        raise UnknownLevel(f"there is no level or rule group `{unknown[0]}`{meant}")
    if SEARCHED in names:
        raise UnknownLevel(f"-O {SEARCHED} is a level by itself: the rules of that group pay for some numbers only")
    return (names,)
