"""Words of a rule file explained, as Markdown: operations, rules with their verdicts, definitions, captures, keywords."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from xdsl.irdl import OptOperandDef, VarOperandDef

from hnfc.dialects.num import OPERATIONS
from hnfc.dsl import core
from hnfc.dsl.ieee import IeeeVerdict
from hnfc.dsl.movement import FORMS
from hnfc.dsl.printer import expression
from hnfc.dsl.soundness import Verdict
from hnfc.language_server.buffers import RuleBuffer
from hnfc.language_server.tokens import FUNCTIONS, SPELLINGS, DeclaredPart, RuleWord
from hnfc.report.explain import floating, reals
from hnfc.report.proof_steps import proof_steps
from hnfc.report.rules import beside

KEYWORDS = {
    "rule": "`rule NAME \"reason\" pattern => replacement`: what is rewritten, and why.",
    "test": "`test NAME`: cases of a rule, as `x = [1] gives [2]` or `unchanged: EXPRESSION`.",
    "def": "`def NAME(x) = EXPRESSION`: a name for an expression, which is inlined.",
    "import": "`import \"file.hnf\"`: the definitions of another file.",
    "library": "`library NAME \"title\"`: the group of the rules of this file.",
    "where": "A precondition: the proof may use it, and the rule runs only where it is known to hold.",
    "for": "Parameters, as `for s > 0`: names of the right side, for all of whose values the rule is proved. Something else chooses them.",
    "orthogonal": "`for orthogonal h`: a parameter that is square matrices in its last two axes, with h·hᵀ = 1.",
    "when": "Advice on where the rule helps. It proves nothing.",
    "let": "`let NAME = EXPRESSION`: a name within this rule.",
    "within": "The largest difference of both sides of an approximation `~>`.",
    "structural": "The pattern is matched as it is written, not modulo associativity and commutativity.",
    "source": "Where the rule comes from.",
    "gives": "The result that the rule must have on these inputs.",
    "unchanged": "An expression in which the rule must not run.",
    "const": "A capture that stands for a constant known at compile time.",
    "finite": "`finite(x)`: no element is infinite or NaN.",
    "integral": "`integral(x)`: every element is an integer.",
    "overflows": "`overflows(x)`, in `when`: an element was infinite on the samples.",
    "underflows": "`underflows(x)`, in `when`: an element became 0 on the samples.",
    "cancels": "`cancels(x)`, in `when`: digits are lost on the samples.",
    "bounded": "`bounded(x)`, in `when`: its range is known and finite.",
    "rounds": "`rounds(x)`, in `when`: rounding changes it on the samples.",
    "free": "`free[k](x)`: x does not vary along the axes k.",
    "size": "`size[k](x)`: the number of elements along the axes k.",
    "rank": "`rank(x)`: the number of axes.",
    "dtype": "`dtype(x) = f32`: the element type.",
    "shape": "`shape(x) = shape(y)`: all sizes are equal.",
}  # fmt: skip


def signature(name: str) -> str:
    """A call of a function with its operands, as in `sum[axes](operand)`."""
    if name in FORMS or name in SPELLINGS:
        return FORMS.get(name) or SPELLINGS[name]
    definition = OPERATIONS[name].get_irdl_definition()
    operands = [_operand(operand, kind) for operand, kind in definition.operands]
    return f"{name}{'[axes]' if 'axes' in definition.properties else ''}({', '.join(operands)})"


def _operand(name: str, kind: object) -> str:
    return f"{name}…" if isinstance(kind, VarOperandDef) else f"[{name}]" if isinstance(kind, OptOperandDef) else name


_MOVED = "Another form of a reshape or a transpose."
_SPELLED = {"einsum": "A product of matrices where the letters say so, else a sum of products; letters stand for the last axes."}


def operation_text(name: str) -> str:
    """An operation: its signature, its equation, its shapes and its domain."""
    text = inspect.cleandoc(OPERATIONS[name].__doc__ or "") if name in OPERATIONS else _SPELLED.get(name, _MOVED)
    return f"```hnf\n{signature(name)}\n```\n{text}"


def verdict_text(rule: core.Rule, verdict: Verdict | None, judged: Sequence[IeeeVerdict]) -> str:
    """A rule: its verdict, the proof in steps or the counterexample, and what it does in each format."""
    lines = [f"**{rule.name}**" + (f": {rule.reason}" if rule.reason else "")]
    if verdict is None:
        return "\n\n".join([*lines, "proving …"])
    lines.append(f"**Over the reals: {verdict.status.value}**")
    steps = proof_steps(rule, verdict)
    if steps:
        lines.append("\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1)))
    lines += reals(verdict)
    if judged:
        formats = "\n".join(f"- {found.format}: {floating(found)[0]}" for found in beside(verdict, judged))
        lines.append(f"**In floating point**\n\n{formats}")
    return "\n\n".join(lines)


def word_text(
    buffer: RuleBuffer, word: RuleWord, declared: DeclaredPart | None, verdict: Verdict | None, judged: Sequence[IeeeVerdict]
) -> str | None:
    """A word of a buffer. verdict, judged: those of the rule that it names, if it does."""
    rule = buffer.book.named(word.text)
    if rule is not None and declared is not None and declared.name_word == word:
        return verdict_text(rule, verdict, judged)
    if word.text in buffer.definitions:
        found = buffer.definitions[word.text]
        axes = f"[{', '.join(found.axes)}]" if found.axes else ""
        return f"```hnf\ndef {found.name}{axes}({', '.join(found.parameters)}) = {expression(found.body)}\n```"
    place = buffer.words.index(word) + 1
    called = place < len(buffer.words) and buffer.words[place].text in ("(", "[")
    if word.text in FUNCTIONS and (called or word.text not in KEYWORDS):
        return operation_text(word.text)
    if word.text in KEYWORDS:
        return KEYWORDS[word.text]
    inside = buffer.book.named(declared.name) if declared is not None and declared.keyword in ("rule", "test") else None
    capture = core.captures(inside.pattern).get(word.text) if inside is not None else None
    if capture is not None:
        kind = "a constant known at compile time" if capture.const else "any tensor, of any shape"
        types = f" of {' or '.join(capture.dtypes)}" if capture.dtypes else ""
        return f"`{word.text}` stands for {kind}{types}: the same one wherever it occurs in the rule."
    return None
