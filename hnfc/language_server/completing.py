"""Completions: keywords, operations with their signatures, conditions, definitions, and the names of the rule at hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hnfc.dialects.types import ELEMENT_TYPES
from hnfc.dsl.expressions import CONSTANTS
from hnfc.language_server.buffers import RuleBuffer
from hnfc.language_server.describing import KEYWORDS, operation_text, signature
from hnfc.language_server.tokens import CLAUSES, CONDITIONS, DECLARATIONS, FUNCTIONS, RuleWord


@dataclass(frozen=True)
class Completion:
    """kind: keyword, function, property, variable, constant, rule, or type."""

    label: str
    kind: str
    detail: str = ""
    text: str = ""


def completions(buffer: RuleBuffer, line: int, column: int) -> list[Completion]:
    """Words that fit a position; an editor filters by what was typed."""
    before = buffer.text.split("\n")[line].encode("utf-16-le")[: 2 * column].decode("utf-16-le", errors="ignore")
    start = before.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
    if not start.strip() and len(start) == 0:
        return [Completion(word, "keyword", KEYWORDS.get(word, "")) for word in DECLARATIONS]
    if start.startswith("test") and start.strip() == "test":
        return [Completion(rule.name, "rule", rule.reason) for rule in buffer.rules]
    if start.rstrip().endswith(":") and not start.lstrip().startswith(("rule", "unchanged")):
        return [Completion(name, "type") for name in ELEMENT_TYPES if name.isidentifier()]
    found = [Completion(word, "keyword", KEYWORDS.get(word, "")) for word in CLAUSES]
    found += [Completion(name, "property", KEYWORDS.get(name, "")) for name in CONDITIONS]
    found += [Completion(name, "function", signature(name), operation_text(name)) for name in FUNCTIONS]
    found += [
        Completion(name, "function", f"{name}({', '.join(made.parameters)})", f"defined in {buffer.homes.get(name, buffer.path).name}")
        for name, made in buffer.definitions.items()
    ]
    found += [Completion(name, "constant") for name in CONSTANTS]
    declared = buffer.declared_at(line)
    known = {completion.label for completion in found}
    own = dict.fromkeys(w.text for w in (declared.words[2:] if declared is not None else ()) if w.kind == "name" and w.text not in known)
    typed = before[len(start) :]
    return [*(Completion(name, "variable", f"in {declared.name}") for name in own if declared is not None and name != typed), *found]


def active_signature(buffer: RuleBuffer, line: int, column: int) -> tuple[str, str, int] | None:
    """The function whose arguments are being typed: its signature, its text, and the position of the argument."""
    depth = arguments = 0
    words = [w for w in buffer.words if (w.line, w.column) < (line, column) and w.kind != "comment"]
    for place in range(len(words) - 1, -1, -1):
        word = words[place]
        if word.text in (")", "]"):
            depth += 1
        elif word.text in ("(", "["):
            if depth:
                depth -= 1
                continue
            name = _called(words, place)
            if name in buffer.definitions:
                made = buffer.definitions[name]
                return f"{name}({', '.join(made.parameters)})", f"defined in {buffer.homes.get(name, buffer.path).name}", arguments
            if name in FUNCTIONS:
                return signature(name), operation_text(name), arguments
            if word.text == "(" and name:
                return None
        elif word.text == "," and not depth:
            arguments += 1
        elif word.kind == "name" and word.text in DECLARATIONS and word.column == 0:
            return None
    return None


def _called(words: Sequence[RuleWord], place: int) -> str:
    """The name before a bracket, over the axes between them."""
    place -= 1
    if place >= 0 and words[place].text == "]":
        while place >= 0 and words[place].text != "[":
            place -= 1
        place -= 1
    return words[place].text if place >= 0 and words[place].kind == "name" else ""
