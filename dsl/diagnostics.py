"""Diagnostics of rule files, as data: a code, a place, a cause and a way out. Rendering is `render`, nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a source: 1-based line and column of its first character, and of the one behind its last."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. `code` is stable (HNF0301); `help` says how to mend it; `labels` point at further places."""

    code: str
    message: str
    file: str
    span: Span | None = None
    help: str = ""
    note: str = ""
    labels: tuple[tuple[Span, str], ...] = ()
    severity: str = "error"


@dataclass
class HnfError(Exception):
    """A rule file cannot be used as written; `diagnostics` says why."""

    diagnostics: list[Diagnostic] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(f"{d.file}:{d.span.line if d.span else 0}: {d.message}" for d in self.diagnostics)


def render(diagnostic: Diagnostic, source: str | None) -> str:
    """The diagnostic as text: headline, place, the line with a caret under the place, note and help."""
    head = f"{diagnostic.severity}[{diagnostic.code}]: {diagnostic.message}"
    span = diagnostic.span
    lines = [head]
    if span is None:
        lines.append(f" --> {diagnostic.file}")
    else:
        lines.append(f" --> {diagnostic.file}:{span.line}:{span.column}")
        marks = [(span, ""), *diagnostic.labels]
        if source is not None:
            lines += _excerpt(source.splitlines(), marks)
    margin = " " * (len(str(span.line)) + 1 if span else 1)
    if diagnostic.note:
        lines.append(f"{margin}= note: {diagnostic.note}")
    if diagnostic.help:
        lines.append(f"{margin}= help: {diagnostic.help}")
    return "\n".join(lines)


def _excerpt(source: list[str], marks: list[tuple[Span, str]]) -> list[str]:
    width = max(len(str(span.line)) for span, _ in marks)
    bar = " " * width + " |"
    lines = [bar]
    for span, label in marks:
        if not 1 <= span.line <= len(source):
            continue
        text = source[span.line - 1]
        end = span.end_column if span.end_line == span.line else len(text) + 1
        prefix = "".join("\t" if c == "\t" else " " for c in text[: span.column - 1])
        carets = "^" * max(1, end - span.column)
        lines.append(f"{span.line:>{width}} | {text}")
        lines.append(f"{bar} {prefix}{carets}" + (f" {label}" if label else ""))
    lines.append(bar)
    return lines
