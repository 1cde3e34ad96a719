"""Obligations as SMT-LIB 2 files, for any solver of nonlinear real arithmetic."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import z3

from hnfc.dsl.core import Rule
from hnfc.dsl.description import rule_line
from hnfc.dsl.soundness.obligations import Obligation, obligations

WIDTH = 120


def write_smt2(rule: Rule, directory: Path) -> list[Path]:
    """The files that were written, one for each obligation of the rule's proof; a solver that follows answers `unsat` to each.

    Raises Blocked where the rule is not proved.
    """
    directory.mkdir(parents=True, exist_ok=True)
    found = obligations(rule)
    digits = len(str(len(found)))
    paths = []
    for number, obligation in enumerate(found, 1):
        path = directory / f"{safe(rule.name)}-{number:0{digits}}-{safe(obligation.name)}.smt2"
        _write(path, to_smt2(obligation, rule_line(rule)))
        paths.append(path)
    return paths


def safe(name: str) -> str:
    """The name as a part of a file's name anywhere."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:80] or "rule"


def _write(path: Path, text: str) -> None:
    """The file is there whole, or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".obligation", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def to_smt2(obligation: Obligation, source: str = "") -> str:
    """The text: what may be assumed, each with its name, and the negation of the goal."""
    formulas = [*(assumption.formula for assumption in obligation.assumptions), obligation.goal]
    sorts = variables(formulas)
    meanings = dict(obligation.legend)
    lines = [*_comment(f"{obligation.rule}: {obligation.name} ({obligation.kind})"), *_comment(obligation.comment)]
    lines += [
        "(set-info :smt-lib-version 2.6)",
        f"(set-info :source |A step of hnfc's proof of {_quoted(f'{obligation.rule}: {source}' if source else obligation.rule)}|)",
        '(set-info :category "industrial")',
        "(set-info :status unsat)",
        "(set-logic QF_NRA)",
    ]
    for name in sorted(sorts, key=list(meanings).index):
        lines += _comment(f"{name} = {meanings[name]}") if meanings[name] != name else []
        lines.append(f"(declare-fun {name} () {sorts[name]})")
    names: Counter[str] = Counter()
    for assumption in obligation.assumptions:
        names[assumption.name] += 1
        lines += _comment(assumption.comment) if assumption.comment else []
        lines.append(f"(assert (! {assumption.formula.sexpr()} :named {assumption.name}-{names[assumption.name]}))")
    lines += ["; the goal, denied", f"(assert (! (not {obligation.goal.sexpr()}) :named goal))", "(check-sat)", ""]
    return "\n".join(lines)


def _comment(text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), WIDTH, initial_indent="; ", subsequent_indent=";   ", break_on_hyphens=False)


def _quoted(text: str) -> str:
    """The text between bars, which may hold anything but a bar and a backslash."""
    return text.replace("|", "/").replace("\\", "/")


def variables(formulas: Iterable[z3.ExprRef]) -> dict[str, str]:
    """The sorts of the variables that occur, by name."""
    return {
        str(x.decl().name()): str(x.sort().name()) for x in _parts(formulas) if z3.is_const(x) and x.decl().kind() == z3.Z3_OP_UNINTERPRETED
    }


def _parts(formulas: Iterable[z3.ExprRef]) -> Iterator[z3.ExprRef]:
    stack, seen = list(formulas), set()
    while stack:
        part = stack.pop()
        if part.get_id() not in seen:
            seen.add(part.get_id())
            yield part
            stack += part.children()
