"""`hnfc PROGRAMS.fpcore -O accuracy`: FPCore programs in forms that lose fewer digits, and what holds of each."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from hnfc.accuracy import ImprovementSettings, NotImproved, account, improve, rules_for_programs
from hnfc.accuracy.account import BranchAccount, ProgramResult
from hnfc.accuracy.code import LANGUAGES, NotWritten, written
from hnfc.accuracy.harm import MOST_LOST
from hnfc.accuracy.improving import ImprovedProgram
from hnfc.cli.progress import Progress
from hnfc.cli.terminal import DONE, WRONG, report_diagnostics, say, write
from hnfc.core.errors import UsageError
from hnfc.core.executors import executor_of, mapped
from hnfc.core.verdicts import verdicts
from hnfc.dsl.core import Rule
from hnfc.dsl.diagnostics import HnfError
from hnfc.dsl.rulebook import load_files
from hnfc.frontend.fpcore import FPCoreProgram, read_forms
from hnfc.report.table import filled

_FOR_MODELS = {
    "ranges": "--range", "assume": "--assume", "allow_unproved": "--allow-unproved", "calibrate": "--calibrate",
    "why_not": "--why-not", "no_validate": "--no-validate", "search": "--search", "target": "--target",
    "cost": "--cost", "deepening": "--deepening", "seconds": "--seconds",
}  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Improves the programs of `options.model`. Raises UsageError for options that are for models, ModelError for a faulty file."""
    if options.level != "accuracy":
        raise UsageError(f"{options.model} holds FPCore programs, which -O accuracy improves; -O {options.level} is for models")
    given = [flag for name, flag in _FOR_MODELS.items() if getattr(options, name, None) not in (None, [], False, 0.0, "greedy")]
    if options.emit not in (None, "torch", *LANGUAGES):
        given.append(f"--emit {options.emit}")
    if given:
        raise UsageError(f"{given[0]} is for models; an FPCore program says in :pre where its arguments lie")
    texts: list[str] = []
    found: list[ImprovedProgram] = []
    data: list[dict[str, Any]] = []
    results: list[ProgramResult] = []
    lines: list[str] = []
    with Progress() as progress, ExitStack() as stack:
        progress("reading …")
        forms = read_forms(options.model)
        try:
            own = _own_rules(options.rules)
        except HnfError as error:
            progress.stop()
            report_diagnostics(error)
            return WRONG
        lines += [f"rule {name} is not proved, and is not used" for name, proved in own.values() if not proved]
        improving = partial(_improved, own=tuple(rule for rule, (_, proved) in own.items() if proved), unproved=options.unproved)
        programs = [program for _, program in forms if isinstance(program, FPCoreProgram)]
        outcomes = mapped(stack.enter_context(executor_of(options.jobs, options.cluster)), improving, programs)
        for text, program in forms:
            if not isinstance(program, FPCoreProgram):
                lines.append(f"{program}; it is left as it is")
                data.append({"problem": str(program), "improved": False, "fpcore": text})
                texts.append(text)
                results.append(ProgramResult(f"program {len(texts)}", text, str(program)))
                continue
            progress(f"improving {program.name} …")
            improved = next(outcomes)
            if isinstance(improved, str):
                lines.append(f"{options.model}:{program.line}: {program.name}: {improved}; it is left as it is")
                data.append({"name": program.name, "problem": improved, "improved": False, "fpcore": text})
                texts.append(text)
                results.append(ProgramResult(program.name, text, improved))
                continue
            branches = account(improved) if improved.improved else []
            lines += _words(improved, branches)
            data.append(_data(improved, branches))
            texts.append(improved.text)
            found.append(improved)
            results.append(ProgramResult(program.name, text, improved=improved, branches=branches))
    lines += _summary(data)
    output, unwritten = ("\n\n".join(texts) + "\n", []) if options.emit in (None, "torch") else _functions(options.emit, found)
    say(filled("\n".join([*lines, *unwritten])))
    if options.json:
        write(options.json, (json.dumps({"programs": data}, indent=1, ensure_ascii=False) + "\n").encode())
    if options.report:
        from hnfc.cli import pages

        pages.write_page(options.report, pages.improved_page, results, options.model)
    write(options.output, output.encode())
    return DONE


def _improved(program: FPCoreProgram, own: tuple[Rule, ...], unproved: bool) -> ImprovedProgram | str:
    """The program in a better form, by our rules and those of the user; or the reason why it stays."""
    try:
        return improve(program, (*rules_for_programs(), *own), ImprovementSettings(unproved=unproved))
    except NotImproved as reason:
        return str(reason)


def _functions(emit: str, programs: Sequence[ImprovedProgram]) -> tuple[str, list[str]]:
    """A file of the programs in a programming language, and words on those that it cannot say."""
    language, taken = LANGUAGES[emit], set[str]()
    functions, unwritten = [], []
    for improved in programs:
        program = improved.program
        errors = f"{improved.before:.2f} → {improved.after:.2f}" if improved.improved else f"{improved.before:.2f}"
        comment = f"{program.name}: {errors} bits of error, the mean of points"
        try:
            text = written(language, program.name, list(program.arguments), improved.term, comment, taken)
        except NotWritten as reason:
            unwritten.append(f"{program.name} is not written: {reason}")
        else:
            functions.append(text)
    return language.file(functions), unwritten


def _own_rules(paths: list[str]) -> dict[Rule, tuple[str, bool]]:
    """Rules of the user's files: their names, and whether they are proved."""
    if not paths:
        return {}
    rules = load_files(paths).rules
    found = verdicts(rules)
    return {rule: (rule.name, found[rule.name].proved) for rule in rules}


def _words(improved: ImprovedProgram, branches: list[BranchAccount]) -> list[str]:
    name, points = improved.program.name, len(improved.test)
    if not improved.improved:
        return [f"{name}: {improved.before:.2f} bits of error on {points} points; no better form was found, in {improved.seconds:.2f} s"]
    lines = [f"{name}: {improved.before:.2f} → {improved.after:.2f} bits of error on {points} points, in {improved.seconds:.2f} s"]
    for branch in branches:
        lines.append(f"  {branch.where}: {branch.points} points")
        width = max((len(use.step.name) for use in branch.uses), default=0)
        lines += [f"    {use.step.name:{width}}  {use.text}" for use in branch.uses]
        if branch.series is not None:
            lines.append(f"    series: {branch.series.text}")
        if not branch.uses and branch.series is None:
            lines.append("    as it was, up to exact arithmetic")
    lines.append(f"  not more than {MOST_LOST:g} bits worse than before at any of {improved.everyday} everyday points")
    return lines


def _data(improved: ImprovedProgram, branches: list[BranchAccount]) -> dict[str, Any]:
    return {
        "name": improved.program.name, "improved": improved.improved, "bits_before": improved.before,
        "bits_after": improved.after,
        "points": len(improved.test), "everyday_points": improved.everyday,
        "seconds": improved.seconds, "branches": [branch.data() for branch in branches],
        "fpcore": improved.text,
    }  # fmt: skip


def _summary(data: list[dict[str, Any]]) -> list[str]:
    measured = [d for d in data if "bits_before" in d]
    if len(measured) < 2:
        return []
    better = sum(d["improved"] for d in measured)
    before, after, seconds = (sum(d[key] for d in measured) / len(measured) for key in ("bits_before", "bits_after", "seconds"))
    return [f"{better} of {len(data)} programs improved: {before:.2f} → {after:.2f} bits on average, {seconds:.2f} s each"]
