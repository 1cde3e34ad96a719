"""Syntax tree → text, in one layout: the formatter. Printing is idempotent, keeps every comment, and parses back to the same tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from hnfc.dsl import syntax
from hnfc.dsl.diagnostics import Span

WIDTH = 120
_INDENT = "    "
_NAMED = re.compile(r"^([A-Za-z_]\w*) = ")
_PRECEDENCE = {
    "or": 1, "and": 2, "not": 3, "==": 4, "!=": 4, "<": 4, "<=": 4, ">": 4, ">=": 4,
    "+": 5, "-": 5, "*": 6, "/": 6, "@": 6, "neg": 7, "**": 8,
}  # fmt: skip


@dataclass
class _Chunk:
    """A line or more of output that stands for one stretch of the source."""

    text: str
    span: Span
    indent: str = ""
    leading: list[str] = field(default_factory=list)
    trailing: list[str] = field(default_factory=list)
    blank_before: bool = False


def print_file(file: syntax.File) -> str:
    """The file in the standard layout, with its comments."""
    chunks = [chunk for declaration in file.declarations for chunk in _chunks(declaration)]
    rest = _attach(file.comments, chunks)
    lines: list[str] = []
    for index, chunk in enumerate(chunks):
        if chunk.blank_before and index > 0:
            lines.append("")
        lines += [chunk.indent + comment for comment in chunk.leading]
        body = [chunk.indent + line for line in chunk.text.split("\n")]
        if chunk.trailing:
            body[-1] += "  " + "  ".join(chunk.trailing[:1])
            body += [chunk.indent + comment for comment in chunk.trailing[1:]]
        lines += body
    if rest:
        lines += ([""] if lines else []) + rest
    return "\n".join(lines) + "\n" if lines else ""


def _attach(comments: tuple[syntax.Comment, ...], chunks: list[_Chunk]) -> list[str]:
    """Gives every comment to the chunk that it stands before or behind; returns those behind everything."""
    in_source_order = sorted(chunks, key=lambda chunk: (chunk.span.end_line, chunk.span.end_column))
    rest = []
    for comment in comments:
        place = (comment.line, comment.column)
        before = [c for c in in_source_order if (c.span.end_line, c.span.end_column) <= place]
        after = next((c for c in in_source_order if (c.span.end_line, c.span.end_column) > place), None)
        if before and before[-1].span.end_line == comment.line:
            before[-1].trailing.append(comment.text)
        elif after is not None:
            after.leading.append(comment.text)
        else:
            rest.append(comment.text)
    return rest


def _chunks(declaration: syntax.Declaration) -> Iterator[_Chunk]:
    match declaration:
        case syntax.Library():
            title = f' "{declaration.title}"' if declaration.title else ""
            yield _Chunk(f"library {declaration.name}{title}", declaration.span)
        case syntax.Import():
            yield _Chunk(f'import "{declaration.path}"', declaration.span)
        case syntax.Definition():
            axes = f"[{', '.join(declaration.axes)}]" if declaration.axes else ""
            head = f"def {declaration.name}{axes}({', '.join(declaration.parameters)})"
            yield _Chunk(f"{head} = {expression(declaration.body)}", declaration.span, blank_before=True)
        case syntax.RuleDeclaration():
            yield from _rule_chunks(declaration)
        case syntax.FormatDeclaration():
            yield from _format_chunks(declaration)
        case syntax.TargetDeclaration():
            title = f' "{declaration.title}"' if declaration.title else ""
            yield _Chunk(f"target {declaration.name}{title} {{", declaration.name_span, blank_before=True)
            yield from _body_chunks(declaration.fields, declaration.span)
        case syntax.Test():
            first = declaration.cases[0].span
            head_span = Span(declaration.span.line, declaration.span.column, declaration.span.line, min(first.column, 6))
            yield _Chunk(f"test {declaration.rule}", head_span, blank_before=True)
            for case in declaration.cases:
                yield _Chunk(_case(case), case.span, _INDENT)


def _rule_chunks(rule: syntax.RuleDeclaration) -> Iterator[_Chunk]:
    reason = f' "{rule.reason}"' if rule.reason else ""
    group = f" : {rule.group}" if rule.group else ""
    yield _Chunk(f"rule {rule.name}{reason}{group}", rule.name_span, blank_before=True)
    spans = dict(rule.clause_spans)
    if rule.source:
        yield _Chunk(f'source "{rule.source}"', spans["source"], _INDENT)
    left, right = expression(rule.pattern), expression(rule.replacement)
    body = f"{left} {rule.arrow} {right}"
    if len(body) > WIDTH - len(_INDENT):
        body = f"{left}\n{_INDENT}{rule.arrow} {right}"
    p, r = rule.pattern.span, rule.replacement.span
    yield _Chunk(body, Span(p.line, p.column, r.end_line, r.end_column), _INDENT)
    for let in rule.lets:
        yield _Chunk(f"let {let.name} = {expression(let.value)}", let.span, _INDENT)
    if rule.parameters:
        yield _Chunk(f"for {', '.join(map(_parameter, rule.parameters))}", spans["for"], _INDENT)
    for kind, tree in (("where", rule.where), ("when", rule.when), ("within", rule.within)):
        if tree is not None:
            yield _Chunk(f"{kind} {expression(tree)}", spans[kind], _INDENT)
    if rule.structural:
        yield _Chunk("structural", spans["structural"], _INDENT)


def _parameter(parameter: syntax.RuleParameter) -> str:
    return f"{'orthogonal ' if parameter.orthogonal else ''}{expression(parameter.condition)}"


def _format_chunks(form: syntax.FormatDeclaration) -> Iterator[_Chunk]:
    listed = ", ".join(p.name + (f" = {expression(p.default)}" if p.default is not None else "") for p in form.parameters)
    title = f' "{form.title}"' if form.title else ""
    head = f"format {form.name}{f'({listed})' if listed else ''}{title}"
    if form.same is not None:
        yield _Chunk(f"{head} = {expression(form.same)}", form.span, blank_before=True)
        return
    yield _Chunk(f"{head}{f' : {form.kind}' if form.kind else ''} {{", form.kind_span, blank_before=True)
    yield from _body_chunks(form.fields, form.span)


def _body_chunks(fields: tuple[syntax.Field, ...], whole: Span) -> Iterator[_Chunk]:
    for field_ in fields:
        yield _Chunk(f"{field_.name} = {expression(field_.value)}", field_.span, _INDENT)
    yield _Chunk("}", Span(whole.end_line, whole.end_column - 1, whole.end_line, whole.end_column))


def _case(case: syntax.Gives | syntax.Unchanged) -> str:
    if isinstance(case, syntax.Unchanged):
        return f"unchanged: {expression(case.expression)}"
    assignments = [f"{a.name}{': ' + a.dtype if a.dtype else ''} = {value(a.value)}" for a in case.assignments]
    return f"{', '.join(assignments)} gives {value(case.expected)}"


def value(number: syntax.Value) -> str:
    if isinstance(number, list):
        return f"[{', '.join(map(value, number))}]"
    if number == int(number) if abs(number) < 1e15 else False:
        return "-0.0" if number == 0 and str(number).startswith("-") else str(int(number))
    return repr(float(number))


def expression(tree: syntax.Tree, context: int = 0) -> str:
    """The expression, with brackets only where they are needed."""
    match tree:
        case syntax.Number():
            return tree.text
        case syntax.Name():
            return f"const {tree.name}" if tree.const else tree.name
        case syntax.Annotated():
            return f"({expression(tree.operand)} : {' | '.join(tree.dtypes)})"
        case syntax.Call():
            axes = f"[{', '.join(map(str, tree.axes))}]" if tree.axes else ""
            arguments = [_argument(a) for a in tree.arguments] + [f"{k}={expression(v)}" for k, v in tree.keywords]
            return f"{tree.function}{axes}({', '.join(arguments)})"
        case syntax.Operator():
            text, precedence = _operator(tree)
            return f"({text})" if precedence < context else text
    raise AssertionError(tree)


def _argument(tree: syntax.Tree) -> str:
    text = expression(tree)
    if isinstance(tree, syntax.Annotated):
        return text[1:-1]
    # `f(x = y …)` would name an attribute
    return _NAMED.sub(r"\1 == ", text, count=1)


def _operator(tree: syntax.Operator) -> tuple[str, int]:
    if len(tree.operands) == 1:
        (operand,) = tree.operands
        if tree.symbol == "not":
            return f"not {expression(operand, 3)}", 3
        return f"-{expression(operand, 7)}", 7
    left, right = tree.operands
    precedence = _PRECEDENCE[tree.symbol]
    symbol = "=" if tree.symbol == "==" else tree.symbol
    if tree.symbol == "**":
        return f"{expression(left, 9)} ** {expression(right, 7)}", precedence
    lower = precedence + 1 if precedence == 4 else precedence
    return f"{expression(left, lower)} {symbol} {expression(right, precedence + 1)}", precedence
