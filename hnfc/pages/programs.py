"""Pages of FPCore programs: those that `-O accuracy` improved, and those whose largest error `hnfc analyze` bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from hnfc.accuracy.account import BranchAccount, ProgramResult
from hnfc.accuracy.improving import ImprovedProgram, ProgramErrors
from hnfc.accuracy.reading import expression
from hnfc.analysis.programs import Bounded
from hnfc.pages.bits import bits_plots
from hnfc.pages.document import (
    Block,
    CardBlock,
    CodeBlock,
    FactsBlock,
    Page,
    PageCell,
    PageSection,
    PairBlock,
    TableBlock,
    TextBlock,
    Tone,
    anchor,
)
from hnfc.pages.graphs import short
from hnfc.report.text import counted

_MOST_POINTS = 8_000
"""Points of all plots of a page together."""
_LEAST_POINTS = 40


def improved_page(results: Sequence[ProgramResult], file: str, command: str) -> Page:
    """The page of improved programs, the most improved first."""
    measured = [r for r in results if r.improved is not None]
    better = sorted((r for r in measured if r.improved is not None and r.improved.improved), key=_gain, reverse=True)
    others = [r for r in results if r not in better]
    plots = sum(len(r.improved.program.arguments) for r in better if r.improved is not None)
    points = max(_LEAST_POINTS, _MOST_POINTS // max(1, plots))
    before, after = (_mean([getattr(r.improved, key) for r in measured]) for key in ("before", "after"))
    cards = [_improved_card(r, points, len(better) == 1) for r in better]
    sections = []
    if len(measured) > 1:
        sections.append(
            PageSection(
                "table",
                "Programs",
                "Bits of error are the mean over points of which nothing was chosen; 0 is exact, 64 has no digit right.",
                [_table(results)],
            )
        )
    if cards:
        sections.append(
            PageSection("improved", "Improved", "Each plot has one argument on its axis, whose floating-point numbers stand evenly.", cards)
        )
    if others:
        rows = [
            (f"`{r.name}`", f"{r.improved.before:.2f}" if r.improved else "not measured", r.problem or "no better form was found")
            for r in others
        ]
        sections.append(PageSection("same", "Left as they are", "", [TableBlock(("program", "bits of error", "reason"), rows)]))
    count = len(measured)
    headline = (
        f"{len(better)} of {len(results)} programs improved: {before:.2f} → {after:.2f} bits of error on average."
        if count > 1
        else (
            f"`{better[0].name}`: {before:.2f} → {after:.2f} bits of error."
            if better
            else "No better form was found."
            if count
            else "Nothing was measured."
        )
    )
    return Page(
        file,
        "accuracy",
        command,
        headline,
        "good" if better else "plain" if measured else "warn",
        [
            ("What happened", [f"{len(better)} of {len(results)} programs have a new form."]),
            ("Where", [f"`{r.name}`: {_gain(r):.1f} bits fewer" for r in better[:4]] or ["nowhere"]),
            ("Why it is safe", _safe(better)),
            (
                "What next",
                ["`-o FILE` writes the programs; `--emit c` and `--emit python` write functions."]
                + (
                    [f"{sum(bool(r.problem) for r in results)} programs were not measured, for the reason below."]
                    if any(r.problem for r in results)
                    else []
                ),
            ),
        ],
        sections,
    )


def _gain(result: ProgramResult) -> float:
    return result.improved.before - result.improved.after if result.improved is not None else 0.0


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0


def _safe(better: Sequence[ProgramResult]) -> list[str]:
    if not better:
        return ["Nothing was changed."]
    uses = [use for r in better for branch in r.branches for use in branch.uses]
    shown = sum(use.shown or use.step.condition is None for use in uses)
    lines = [f"{counted(len(uses), 'step')} by rules that are proved over the reals."]
    if shown:
        lines.append(f"{counted(shown, 'condition')} of them shown wherever the form is used.")
    if shown < len(uses):
        lines.append(f"{counted(len(uses) - shown, 'condition')} held at all points that were tried, and not proved: marked below.")
    series = [branch.series for r in better for branch in r.branches if branch.series is not None]
    bounded = sum(each.remainder is not None for each in series)
    if series:
        lines.append(f"{len(series)} series, of which {bounded} have a proved bound of what they leave off.")
    return lines


def _table(results: Sequence[ProgramResult]) -> Block:
    rows: list[Sequence[PageCell | str]] = []
    for r in results:
        target = anchor("program", r.name) if r.improved is not None and r.improved.improved else ""
        name = PageCell(r.name, code=True, target=target)
        if r.improved is None:
            rows.append((name, "not measured", "", r.problem))
        else:
            after = PageCell(f"{r.improved.after:.2f}", "good" if r.improved.improved else "plain")
            rows.append((name, f"{r.improved.before:.2f}", after, f"{r.improved.seconds:.2f} s"))
    return TableBlock(("program", "bits before", "bits after", "remark"), rows, numbers=frozenset((1, 2)))


def _improved_card(result: ProgramResult, points: int, opened: bool) -> CardBlock:
    improved = result.improved
    assert improved is not None
    forms = (CodeBlock(expression(improved.original)), CodeBlock(expression(improved.term)))
    blocks: list[Block] = [PairBlock(("Before", "After"), ([forms[0]], [forms[1]])), *_bits_plots(result.name, improved, points)]
    for branch in result.branches:
        blocks.append(
            FactsBlock([("where", f"`{branch.where}`" if branch.where != "everywhere" else "everywhere"), ("points", str(branch.points))])
        )
        blocks += _branch(branch)
    blocks.append(TextBlock(f"Compared at {improved.everyday} everyday points too: nowhere it is more than a few bits worse."))
    badge: tuple[str, Tone] = (f"{improved.before:.2f} → {improved.after:.2f} bits", "good")
    return CardBlock(anchor("program", result.name), result.name, f"measured at {len(improved.test)} points", [badge], blocks, opened)


def _branch(branch: BranchAccount) -> list[Block]:
    blocks: list[Block] = []
    if branch.uses:
        rows = [
            (
                PageCell(use.step.name, code=True),
                PageCell(expression(use.step.before), code=True),
                PageCell(expression(use.step.after), code=True),
                PageCell(use.text, "plain" if use.shown or use.step.condition is None else "warn"),
            )
            for use in branch.uses
        ]
        blocks.append(TableBlock(("rule", "before", "after", "why it holds"), rows))
    if branch.series is not None:
        blocks.append(TextBlock(f"Series: {branch.series.text}."))
    if not blocks:
        blocks.append(TextBlock("As it was, up to exact arithmetic."))
    return blocks


def _bits_plots(name: str, improved: ImprovedProgram, points: int) -> list[Block]:
    """One plot for each argument: bits of error before and after."""
    return bits_plots(name, improved.test.inputs, improved.bits(), points, most=64)


def _measured_plots(name: str, errors: ProgramErrors | str, points: int) -> list[Block]:
    """One plot for each argument: bits of error of the program as it is; or the reason why it has none."""
    if isinstance(errors, str):
        return [TextBlock(f"Errors were not measured: {errors}.")]
    return bits_plots(name, errors.sample.inputs, [errors.bits], points, most=64)


def _badge(bound: float) -> tuple[str, Tone]:
    return ("no bound", "warn") if math.isinf(bound) else (f"error ≤ {short(bound)}", "good")


def _bounded_headline(worst: str, bound: float, count: int) -> str:
    if math.isinf(bound):
        return f"No bound was found for the error of `{worst}`: in its ranges it may have no value."
    return f"The error of `{worst}` is at most {short(bound)}" + (f", the largest of {count} programs." if count > 1 else ".")


def bounded_page(
    found: Mapping[str, Bounded], errors: Mapping[str, ProgramErrors | str], refused: Sequence[str], file: str, command: str
) -> Page:
    """The page of programs whose largest error is bounded, with errors measured at points.

    errors: of each program in `found`, or the reason why they were not measured.
    """
    points = max(_LEAST_POINTS, _MOST_POINTS // max(1, sum(len(bounded.ranges) for bounded in found.values())))
    rows: list[Sequence[PageCell | str]] = []
    cards = []
    for name, bounded in found.items():
        most = bounded.maximum
        culprit = bounded.shares[0] if bounded.shares else None
        rows.append(
            (
                PageCell(name, code=True, target=anchor("program", name)),
                short(most.bound),
                short(most.attained),
                f"`{culprit[0]}` {culprit[1]:.0%}" if culprit else "none",
            )
        )
        at = ", ".join(f"{argument} = {value!r}" for argument, value in zip(bounded.ranges, most.point, strict=True))
        facts = [
            ("error at most", f"{most.bound!r}"),
            ("attained by the error model", f"{most.attained!r}"),
            ("at", f"`{at}`"),
            ("for", ", ".join(f"`{lo:g} <= {argument} <= {hi:g}`" for argument, (lo, hi) in bounded.ranges.items())),
        ]
        shares = [(PageCell(part, code=True), f"{share:.1%}") for part, share in bounded.shares]
        blocks: list[Block] = [FactsBlock(facts)]
        if shares:
            blocks.append(TableBlock(("operation whose rounding contributes", "share there"), shares, numbers=frozenset((1,))))
        blocks += _measured_plots(name, errors[name], points)
        cards.append(CardBlock(anchor("program", name), name, "", [_badge(most.bound)], blocks, len(found) == 1))
    problems = [TextBlock(text, "warn") for text in refused]
    worst = max(found, key=lambda name: found[name].maximum.bound)
    unbounded = sum(math.isinf(bounded.maximum.bound) for bounded in found.values())
    sections = [
        PageSection(
            "programs",
            "Programs",
            "The bound holds for every input of the precondition; the attained error is what the error model reaches at one point. "
            "Plots show errors that were measured: bits of the result that are wrong at points of the precondition.",
            [TableBlock(("program", "error at most", "attained", "most of it from"), rows), *cards],
        )
    ]
    if problems:
        sections.append(PageSection("refused", "Not analyzed", "", problems))
    return Page(
        file,
        "analysis",
        command,
        _bounded_headline(worst, found[worst].maximum.bound, len(found)),
        "warn" if refused or unbounded else "good",
        [
            ("What was found", [f"{counted(len(found) - unbounded, 'program')} with a bound, {len(refused) + unbounded} without."]),
            (
                "What it means",
                ["Bounds hold for every input that meets the precondition, each operation being rounded correctly, as FPCore defines it."],
            ),
            ("What next", ["`hnfc FILE -O accuracy` searches for forms that lose fewer digits."]),
        ],
        sections,
    )
