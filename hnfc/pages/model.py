"""The page of a rewritten model: what was changed, where, why that is safe, and what it did to the error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from hnfc.core.certificates import certificates
from hnfc.dsl.certificates.checking import CertificateResult
from hnfc.dsl.description import rule_line
from hnfc.dsl.soundness import Verdict
from hnfc.pages.bits import element_with, rule_plots
from hnfc.pages.changes import DrawnFunction, columns, drawn_function
from hnfc.pages.document import (
    Block,
    CardBlock,
    CodeBlock,
    DiagramBlock,
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
from hnfc.pages.graphs import graph_block, in_words, neighbourhood
from hnfc.pages.places import source_lines
from hnfc.pages.rules import proof_blocks
from hnfc.pipeline.compiled import Applied, Compiled, Output
from hnfc.report.text import change_words, counted, given_words, measured_words, proof_words, telling, withheld_words, worst_of
from hnfc.validation.measurement import NO_DIGIT, TOLERANCE, Error

_MOST_POINTS, _LEAST_POINTS = 4_000, 40
"""Points of all plots together, and of each of them."""
_MOST_DRAWN = 2
"""Places of one rule that are drawn before and after."""


def model_page(
    compiled: Compiled, verdicts: Mapping[str, Verdict], withheld: Sequence[str], model: str, command: str, more: Sequence[PageSection] = ()
) -> Page:
    """more: sections of a command that also runs the model, which stand before those on the rewrites."""
    verdicts = {**verdicts, **compiled.found.verdicts}
    functions = [drawn_function(drawing, compiled) for drawing in compiled.drawings]
    by_rule: dict[str, list[Applied]] = {}
    for applied in compiled.applied:
        by_rule.setdefault(applied.rule.name, []).append(applied)
    headline, tone = _headline(compiled)
    sections = [*more, _outputs(compiled)]
    if by_rule:
        intro = "Each rule with its reason, its proof and its places. Errors are relative to each element."
        points = max(_LEAST_POINTS, _MOST_POINTS // len(by_rule))
        cards = [_card(name, p, verdicts[name], compiled, functions, len(by_rule) == 1, points) for name, p in by_rule.items()]
        sections.append(PageSection("rewrites", "Rewrites", intro, cards))
    sections.append(
        PageSection(
            "model",
            "The model",
            _intro(compiled),
            [graph_block(i, f.name, f.entries, columns(f.entries), "error") for i, f in enumerate(functions)],
        )
    )
    sections += _others(compiled, verdicts, withheld)
    places = [entry.node.place for function in functions for entry in function.entries]
    roots = [Path.cwd(), Path(model).resolve().parent]
    answers = [
        ("What happened", _happened(compiled)),
        ("Where", _where(by_rule)),
        ("Why it is safe", _safe(compiled, by_rule, verdicts)),
        ("What next", _next(compiled, withheld)),
    ]
    return Page(model, "rewrite", command, headline, tone, answers, sections, source_lines(places, roots))


def _headline(compiled: Compiled) -> tuple[str, Tone]:
    known = [(o, o.before, o.after) for o in compiled.outputs if o.before is not None and o.after is not None]
    rewrites = counted(len(compiled.applied), "rewrite")
    bad = next(((o, after) for o, _, after in known if after.not_finite), None)
    if bad is not None:
        return (
            f"{bad[0].name.capitalize()} is still not finite in {bad[1].not_finite} of {bad[1].elements} elements, after {rewrites}.",
            "bad",
        )
    wrong = next((o.name for o, _, after in known if after.relative >= NO_DIGIT), "")
    tone: Tone = "warn" if wrong else "good"
    aside = f" An element of {wrong} has no right digit still." if wrong else ""
    mended = next(((o, before, after) for o, before, after in known if before.not_finite), None)
    if mended is not None:
        output, before, after = mended
        was = f"{output.name} was not finite in {before.not_finite} of {before.elements} elements"
        return f"Mended: {was}; its error is now {after}.{aside}", tone
    if not compiled.applied:
        return "Nothing to rewrite: no rule fits where it would help.", "plain"
    if not known:
        return f"{rewrites}; errors were not measured.", "warn"
    before_, after_ = worst_of([before for _, before, _ in known]), worst_of([after for _, _, after in known])
    assert before_ is not None
    return f"{rewrites}; the largest error of the outputs: {change_words(before_, after_)}.{aside}", tone


def _is_measured(compiled: Compiled) -> bool:
    """Return whether the error of an output is known."""
    return any(output.before is not None for output in compiled.outputs)


def _unmeasured(compiled: Compiled) -> str:
    if compiled.samples:
        return "An output could not be computed on the samples: an operation on its way is not known, or has no evaluation."
    return f"Errors were not measured: {compiled.unmeasured}."


def _happened(compiled: Compiled) -> list[str]:
    lines = [f"{counted(len(compiled.applied), 'rewrite')} in {compiled.operations} operations."]
    lines += [f"{o.name}: error {change_words(o.before, o.after)}" for o in compiled.outputs if o.before is not None][:3]
    if compiled.mended_gradients:
        lines.append(f"{counted(compiled.mended_gradients, 'gradient')} mended: an infinite derivative no longer meets a factor 0.")
    if compiled.rolled_back:
        lines.append(f"{counted(len(compiled.rolled_back), 'rule')} taken back, since an output became worse.")
    return lines


def _where(by_rule: Mapping[str, Sequence[Applied]]) -> list[str]:
    counts = Counter((applied.place, name) for name, places in by_rule.items() for applied in places)
    lines = [f"`{place}`: {name}" + (f" ×{count}" if count > 1 else "") for (place, name), count in counts.most_common(4)]
    if len(counts) > 4:
        lines.append(f"and {len(counts) - 4} more places, below.")
    return lines or ["Nowhere: the model is as it was."]


def _safe(compiled: Compiled, by_rule: Mapping[str, Sequence[Applied]], verdicts: Mapping[str, Verdict]) -> list[str]:
    lines = [
        f"`{name}`: {proof_words(places[0].rule, verdicts[name])}{given_words(places, compiled.observed)}."
        for name, places in by_rule.items()
    ]
    if len(lines) > 4:
        lines = [*lines[:3], f"and {len(lines) - 3} more rules, below."]
    if _is_measured(compiled):
        lines.append(f"Outputs were {measured_words(compiled)}. A rule is taken back unless each output has {TOLERANCE}.")
    elif by_rule:
        lines.append(_unmeasured(compiled))
    return lines or ["Nothing was changed."]


def _next(compiled: Compiled, withheld: Sequence[str]) -> list[str]:
    lines = []
    if not compiled.samples:
        lines.append(
            "Give `--range arg0=LO:HI` or `--calibrate F.npz`: then errors are measured, and rules whose conditions need ranges can run."
        )
    if any(o.after is not None and (o.after.not_finite or o.after.relative >= NO_DIGIT) for o in compiled.outputs):
        lines.append("`-O accuracy` searches for better forms everywhere; `hnfc analyze` shows which value loses most.")
    if withheld:
        lines.append(f"{counted(len(withheld), 'rule')} did not run: the notes below say why.")
    misses = len({(m.rule.name, m.reason) for m in telling(compiled)})
    if misses:
        lines.append(f"{counted(misses, 'kind')} of near misses: rules that fitted and did not run, with the reason.")
    return lines or ["`hnfc analyze` bounds the error of every value; `hnfc precision` finds cheaper formats."]


def _outputs(compiled: Compiled) -> PageSection:
    if not _is_measured(compiled):
        return PageSection("outputs", "Outputs", "", [TextBlock(_unmeasured(compiled), "warn")])
    rows = [_output_row(output) for output in compiled.outputs]
    headings = ("output", "error before", "error after", "changed by")
    return PageSection("outputs", "Outputs", f"{measured_words(compiled).capitalize()}.", [TableBlock(headings, rows)])


def _output_row(output: Output) -> Sequence[PageCell | str]:
    rules = ", ".join(f"`{name}`" for name in sorted(output.rules)) or "nothing"
    before, after = (_error_cell(error) if error is not None else "not known" for error in (output.before, output.after))
    return output.name, before, after, rules


def _error_cell(error: Error) -> PageCell:
    return PageCell(str(error), "bad" if error.not_finite else "plain")


def _card(
    name: str,
    places: Sequence[Applied],
    verdict: Verdict,
    compiled: Compiled,
    functions: Sequence[DrawnFunction],
    opened: bool,
    points: int,
) -> CardBlock:
    rule = places[0].rule
    proof = proof_words(rule, verdict)
    tone: Tone = "bad" if proof.startswith("NOT") else "warn" if rule.within is not None else "good"
    backwards = sum(place.backwards for place in places)
    certified = certificates([rule], {name: verdict}).get(name)
    facts = [
        ("rule", f"`{rule_line(rule)}`"),
        ("why it is safe", f"{proof}{given_words(places, compiled.observed)}"),
        ("in Coq", _certified(certified)),
        ("source", rule.source or "its file names none"),
        ("group", rule.group),
    ]
    if backwards:
        facts.append(("read", f"from right to left at {backwards} of {len(places)} places"))
    badges: list[tuple[str, Tone]] = [(proof if len(proof) < 40 else "proved in parts", tone), (counted(len(places), "place"), "plain")]
    if certified is not None and certified.accepted:
        badges.append((certified.headline, "good"))
    plots = rule_plots(rule, element_with(places[0].unit_roundoff), places[0].backwards, points)
    if plots:
        plots.insert(0, TextBlock("Both sides at numbers of everyday sizes that meet the condition, not at the samples:"))
    blocks: list[Block] = [FactsBlock(facts), *_drawings(name, functions), _places(places), *plots, *proof_blocks(rule, verdict)]
    return CardBlock(anchor("rewrite", name), name, rule.reason, badges, blocks, opened)


def _certified(result: CertificateResult | None) -> str:
    if result is None:
        return "no certificate: the rule is not proved"
    return result.reason or f"{result.headline}: Coq accepts a theorem that says the same"


def _places(places: Sequence[Applied]) -> Block:
    rows = [
        (
            f"`{a.place}`",
            _error_cell(a.before) if a.before is not None else "not measured",
            str(a.after) if a.after is not None else ("part of a later rewrite" if a.before is not None else "not measured"),
            a.given or "none",
        )
        for a in places
    ]
    return TableBlock(("at", "error before", "error after", "condition that was shown"), rows)


def _drawings(name: str, functions: Sequence[DrawnFunction]) -> list[Block]:
    blocks: list[Block] = []
    found = [(function, region) for function in functions for region in function.regions if name in region.rules]
    for function, region in found[:_MOST_DRAWN]:
        before, after = _side(function, "before", region.before), _side(function, "after", region.after or region.roots_after)
        blocks.append(PairBlock(("Before", "After"), (before, after)))
    if len(found) > _MOST_DRAWN:
        blocks.append(TextBlock(f"{counted(len(found) - _MOST_DRAWN, 'more place')} of this rule: in the graph of the model below."))
    return blocks


def _side(function: DrawnFunction, side: str, changed: Sequence[int]) -> list[Block]:
    if not changed:
        return [TextBlock("Nothing takes its place.")]
    text = in_words(function.entries, side, changed)
    return [DiagramBlock(neighbourhood(function.entries, side, changed), f"{side}: {text}"), CodeBlock(text, "the same in words")]


def _intro(compiled: Compiled) -> str:
    shown = "Choose a module to open it, a value for its source, its rule and its proof."
    if all(drawing.measured for drawing in compiled.drawings) and compiled.samples:
        return f"{shown} Errors are those on the samples, in hnfc's own evaluation."
    if compiled.samples:
        return f"{shown} The model is too large to measure every value; errors are known at rewrites and outputs, above."
    return f"{shown} Nothing was measured: there were no samples."


def _others(compiled: Compiled, verdicts: Mapping[str, Verdict], withheld: Sequence[str]) -> list[PageSection]:
    sections = []
    misses = Counter((m.rule.name, m.place, m.reason) for m in telling(compiled))
    if misses:
        rows = [(f"`{name}`", f"`{place}`" + (f" ×{n}" if n > 1 else ""), reason) for (name, place, reason), n in misses.items()]
        intro = "These rules would help here, if what keeps them from running were different."
        sections.append(PageSection("near", "Fitted, but did not run", intro, [TableBlock(("rule", "at", "reason"), rows)]))
    notes: list[Block] = [TextBlock(withheld_words(name, verdicts[name]), "warn") for name in withheld]
    if compiled.rolled_back:
        notes.append(TextBlock(f"Taken back: {', '.join(f'`{name}`' for name in compiled.rolled_back)}.", "warn"))
    notes += [TextBlock(reason, "warn") for reason in dict.fromkeys(compiled.withdrawn)]
    if compiled.opaque:
        names = ", ".join(f"`{name}`" + (f" ×{n}" if n > 1 else "") for name, n in sorted(compiled.opaque.items()))
        notes.append(TextBlock(f"Not known to hnfc, carried through: {names}."))
    notes += [TextBlock(note) for note in compiled.notes]
    if notes:
        sections.append(PageSection("notes", "Notes", "", notes))
    return sections
