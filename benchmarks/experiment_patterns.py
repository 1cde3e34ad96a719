"""Are the known unstable patterns fixed? Each is optimized, and its error set beside that of the form that the literature gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from experiment_measures import Function, Pair, both, curvature, largest_relative
from experiment_pages import Claim, Data, Section, number, plain, short, table
from experiment_pattern_list import Formula, Pattern, patterns
from experiment_pictures import bars

from hnfc.dialects.types import format_of
from hnfc.pytorch.settings import Settings
from hnfc.rewriter import LEVELS, load_rules

TARGET = 10
LEVELS_TRIED = ("stability", "all", "accuracy")
"""In this order; a level that there is not is left out."""
FACTOR, UNITS = 4, 16


def measure(count: int | None = None, progress: Callable[[str], None] = lambda text: None) -> Data:
    """Of each of the first `count` patterns: the error before, after the level that is tried last, and of the form of the literature."""
    settings = {level: Settings(load_rules(level)) for level in LEVELS_TRIED if level in LEVELS}
    rows = []
    for pattern in patterns()[:count]:
        progress(pattern.name)
        row: Data = {}
        for level, chosen in settings.items():
            row = _measured(pattern, level, chosen)
            if _fixed(row):
                break
        rows.append(row)
    return {"patterns": rows, "levels": list(settings)}


def _measured(pattern: Pattern, level: str, settings: Settings) -> Data:
    pair = both(Formula(pattern.unstable), pattern.inputs, settings, _looked)
    stable = both(Formula(pattern.stable), pattern.inputs, Settings(load_rules("none")), _looked).before
    truth = pair.before["truth"]
    assert truth is not None, f"the reference of {pattern.name} is not decided"
    return {
        "name": pattern.name, "source": pattern.source, "level": level, "rules": list(dict.fromkeys(pair.rules)),
        "unit": pair.before["unit"], "elements": int(np.size(truth)),
        "not finite": [_lost(side, truth) for side in (pair.before, pair.after)],
        "error": [plain(_error_of(side, truth)) for side in (pair.before, pair.after)],
        "finite error": [plain(_error_of(side, truth, np.isfinite(side["computed"]))) for side in (pair.before, pair.after)],
        "achievable": plain(_error_of(stable, truth)),
        "curvature": _curvatures(pair),
    }  # fmt: skip


def _looked(function: Function) -> Data:
    form = format_of(function.output.type)
    assert form is not None
    return {"truth": function.exact(), "computed": function.run(), "curvature": curvature(function), "unit": form.unit_roundoff,
            "least": form.tiny / (2 * form.unit_roundoff)}  # fmt: skip


def _curvatures(pair: Pair) -> list[float | str]:
    return [plain(side["curvature"]) for side in (pair.before, pair.after)]


def _lost(side: Data, truth: np.ndarray) -> int:
    return int((np.isfinite(truth) & ~np.isfinite(side["computed"])).sum())


def _error_of(side: Data, truth: np.ndarray, where: np.ndarray | None = None) -> float:
    good = np.ones(np.shape(truth), bool) if where is None else where
    return largest_relative(side["computed"][good], truth[good], side["least"])


def _fixed(row: Data) -> bool:
    """Finite everywhere, and an error of at most 4 times that of the form of the literature, or of 16 units."""
    return number(row["error"][1]) <= _limit(row)


def _was_unstable(row: Data) -> bool:
    return number(row["error"][0]) > _limit(row)


def _limit(row: Data) -> float:
    return max(FACTOR * number(row["achievable"]), UNITS * float(row["unit"]))


# the page


def section(data: Data) -> Section:
    rows = data["patterns"]
    headings = [
        "pattern",
        "source",
        "error before",
        "after",
        "the literature's form",
        "level",
        "rules",
        "curvature before",
        "after",
        "fixed",
    ]
    text = (
        "Fixed is what is finite everywhere and has a largest relative error of at most "
        f"{FACTOR} times that of the form which the literature gives, in the same format, or of {UNITS}u. Errors are relative to the value "
        "over the reals, by ball arithmetic, or to the smallest normal number where that is larger. Formats are float32 unless a name says "
        f"otherwise. Each pattern is optimized at the levels {', '.join(data['levels'])}, in this order, until it is fixed; shown is the "
        "last that was tried. Curvature is Σκ by the sources' formulas."
    )
    picture = bars("Largest relative error of each pattern", [row["name"] for row in rows], {
        "as written": [number(row["error"][0]) for row in rows], "rewritten": [number(row["error"][1]) for row in rows],
        "the literature's form": [number(row["achievable"]) for row in rows],
    }, "relative error")  # fmt: skip
    parts = [text, table(headings, [_row(row) for row in rows]), "![errors of the patterns](experiments/patterns.svg)"]
    return Section("\n\n".join(parts), _claims(rows), {"patterns.svg": picture})


def _row(row: Data) -> list[str]:
    errors = [_error(row, side) for side in (0, 1)]
    curvatures = [short(number(c)) for c in row["curvature"]]
    rules = ", ".join(f"`{rule}`" for rule in row["rules"]) or "none"
    return [row["name"], row["source"], *errors, short(number(row["achievable"])), row["level"], rules, *curvatures,
            "yes" if _fixed(row) else "**no**"]  # fmt: skip


def _error(row: Data, side: int) -> str:
    lost = row["not finite"][side]
    text = short(number(row["finite error"][side]))
    return f"{lost} of {row['elements']} not finite, else {text}" if lost else text


def _claims(rows: Sequence[Data]) -> list[Claim]:
    unstable = [row for row in rows if _was_unstable(row)]
    fixed = [row for row in unstable if _fixed(row)]
    others = ", ".join(row["name"] for row in unstable if not _fixed(row)) or "none"
    lower = [row for row in fixed if _orders(row) > 0]
    return [
        Claim("Ten known unstable patterns are all fixed", f"{TARGET} of {TARGET}",
              f"{len(fixed)} of {len(unstable)} that fail here; not fixed: {others}", len(fixed), max(len(unstable), TARGET)),
        Claim("A pattern that is fixed has a lower curvature", "all of those fixed", f"{len(lower)} of {len(fixed)}", len(lower),
              max(len(fixed), 1)),
    ]  # fmt: skip


def _orders(row: Data) -> float:
    """log₁₀ of how many times smaller the curvature became."""
    before, after = (number(c) for c in row["curvature"])
    if not math.isfinite(before) or before == after:
        return math.inf if before != after else 0.0
    return math.log10(before / after) if before and after else math.copysign(math.inf, before - after)
