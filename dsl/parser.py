"""Text → syntax tree. Raises HnfError with one diagnostic where the text does not follow the grammar."""

from __future__ import annotations

import re
from typing import Any

from lark import Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedToken, VisitError
from lark.tree import Meta

from hnfc.dsl import syntax
from hnfc.dsl.depth import SHALLOW, with_room
from hnfc.dsl.diagnostics import Diagnostic, HnfError, Span
from hnfc.dsl.grammar import parser
from hnfc.dsl.syntax_errors import NO_COLON, token_span, unexpected_character, unexpected_end, unexpected_token

MAX_SOURCE = 1_000_000
MAX_DEPTH = 200
MAX_DIGITS = 4000


def parse(source: str, path: str = "<text>") -> syntax.File:
    """The syntax tree of one rule file."""
    if len(source) > MAX_SOURCE:
        raise HnfError([Diagnostic("HNF0101", f"the file has {len(source)} characters, more than the limit of {MAX_SOURCE}", path)])
    _check_depth(source, path)
    lark, comments = parser()
    comments.clear()

    def tree() -> list[syntax.Declaration]:
        found: list[syntax.Declaration] = _Build().transform(lark.parse(source))
        return found

    try:
        declarations = with_room(tree) if is_long(source) else tree()
    except UnexpectedEOF as error:
        raise HnfError([unexpected_end(source, path, error.expected)]) from None
    except UnexpectedToken as error:
        if error.token.type == "$END":
            raise HnfError([unexpected_end(source, path, error.accepts or error.expected)]) from None
        raise HnfError([unexpected_token(error, source, path)]) from None
    except UnexpectedCharacters as error:
        raise HnfError([unexpected_character(error, source, path)]) from None
    except VisitError as error:
        if isinstance(error.orig_exc, HnfError):
            raise HnfError([_in_file(d, path) for d in error.orig_exc.diagnostics]) from None
        raise
    found = tuple(syntax.Comment(str(token).rstrip(), token.line or 0, token.column or 0) for token in comments)
    return syntax.File(path, source, tuple(declarations), found)


_DECLARATION = re.compile(r"^(library|import|def|rule|test|format|target)\b", re.MULTILINE)
MAX_FAULTS = 20


def parse_sound(source: str, path: str, faults: list[Diagnostic]) -> syntax.File:
    """The syntax tree without the declarations that do not follow the grammar, which are added to the faults.

    Raises HnfError where they are many, or no declaration can be blamed.
    """
    rest = source
    while True:
        try:
            file = parse(rest, path)
            return syntax.File(path, source, file.declarations, file.comments)
        except HnfError as error:
            faults += error.diagnostics
            without = _without_declaration(rest, error.diagnostics[0].span)
            if without is None or len(faults) > MAX_FAULTS:
                raise HnfError(list(faults)) from None
            rest = without


def _without_declaration(source: str, span: Span | None) -> str | None:
    """The source with blank lines in the place of the declaration that the span lies in, or of what stands before the first one; None
    where there is none."""
    starts = [match.start() for match in _DECLARATION.finditer(source)]
    if span is None or not starts:
        return None
    lines = source.splitlines(keepends=True)
    place = sum(map(len, lines[: span.line - 1])) + span.column - 1
    if place < starts[0]:
        return "\n" * source.count("\n", 0, starts[0]) + source[starts[0] :]
    # the fault of a declaration that ends too early is at the next one, or at the end
    start = max((start for start in starts if start < place), default=starts[0])
    end = next((later for later in starts if later > start), len(source))
    return source[:start] + "\n" * source.count("\n", start, end) + source[end:]


def is_long(source: str) -> bool:
    """Return whether an expression of the source may be nested deeply: it has many operators or brackets and no `=>` between them."""
    return any(sum(part.count(c) for c in "-+*/@([") > SHALLOW for part in source.split("=>"))


def _in_file(diagnostic: Diagnostic, path: str) -> Diagnostic:
    return Diagnostic(diagnostic.code, diagnostic.message, path, diagnostic.span, diagnostic.help)


def _check_depth(source: str, path: str) -> None:
    """Deep nesting is refused before it reaches anything recursive."""
    depth = 0
    for line, text in enumerate(source.splitlines(), 1):
        for column, character in enumerate(text.split("#", 1)[0], 1):
            depth += (character in "([") - (character in ")]")
            if depth > MAX_DEPTH:
                span = Span(line, column, line, column + 1)
                raise HnfError([Diagnostic("HNF0102", f"brackets are nested more than {MAX_DEPTH} deep", path, span)])
        if (
            sum(text.count(c) for c in "-+*/@") > 20 * MAX_DEPTH
            or text.count("not ") > MAX_DEPTH
            or "-" * MAX_DEPTH in text.replace(" ", "")
        ):
            raise HnfError([Diagnostic("HNF0102", "the expression is longer than any rule needs", path, Span(line, 1, line, 2))])


def _meta_span(meta: Meta) -> Span:
    if getattr(meta, "empty", True):
        return Span(1, 1, 1, 1)
    return Span(meta.line, meta.column, meta.end_line, meta.end_column)


def _text(token: Token | None) -> str:
    return str(token)[1:-1] if token is not None else ""


@v_args(meta=True)
class _Build(Transformer[Token, Any]):  # type: ignore[misc]
    """Lark's tree → our tree; one method a grammar rule."""

    def start(self, meta: Meta, children: list[Any]) -> list[Any]:
        return children

    def library(self, meta: Meta, children: list[Any]) -> syntax.Library:
        return syntax.Library(str(children[0]), _text(children[1] if len(children) > 1 else None), _meta_span(meta))

    def import_(self, meta: Meta, children: list[Any]) -> syntax.Import:
        return syntax.Import(_text(children[0]), _meta_span(meta))

    def axes_params(self, meta: Meta, children: list[Any]) -> tuple[str, ...]:
        return tuple(str(child) for child in children)

    params = axes_params

    def def_(self, meta: Meta, children: list[Any]) -> syntax.Definition:
        name, *rest, body = children
        axes = rest[0] if len(rest) == 2 else ()
        return syntax.Definition(str(name), axes, rest[-1] or (), body, _meta_span(meta))

    def group(self, meta: Meta, children: list[Any]) -> tuple[str, str]:
        if children[0].line != meta.line:
            colon = Span(meta.line, meta.column, meta.line, meta.column + 1)
            raise HnfError([Diagnostic("HNF0103", "unexpected `:`", "", colon, help=NO_COLON)])
        return ("group", str(children[0]))

    def arrow(self, meta: Meta, children: list[Any]) -> Token:
        return children[0]

    def within(self, meta: Meta, children: list[Any]) -> tuple[str, Any, Span]:
        return ("within", children[0], _meta_span(meta))

    def source(self, meta: Meta, children: list[Any]) -> tuple[str, Any, Span]:
        return ("source", _text(children[0]), _meta_span(meta))

    def let(self, meta: Meta, children: list[Any]) -> tuple[str, Any, Span]:
        return ("let", tuple(children), _meta_span(meta))

    def binding(self, meta: Meta, children: list[Any]) -> syntax.Let:
        return syntax.Let(str(children[0]), children[1], _meta_span(meta))

    def for_(self, meta: Meta, children: list[Any]) -> tuple[str, Any, Span]:
        return ("for", tuple(children), _meta_span(meta))

    def parameter(self, meta: Meta, children: list[Any]) -> syntax.RuleParameter:
        return syntax.RuleParameter(children[0], False, _meta_span(meta))

    def orthogonal(self, meta: Meta, children: list[Any]) -> syntax.RuleParameter:
        return syntax.RuleParameter(syntax.Name(str(children[0]), token_span(children[0])), True, _meta_span(meta))

    def where(self, meta: Meta, children: list[Any]) -> tuple[str, Any, Span]:
        return ("where", children[0], _meta_span(meta))

    def when(self, meta: Meta, children: list[Any]) -> tuple[str, Any, Span]:
        return ("when", children[0], _meta_span(meta))

    def structural(self, meta: Meta, children: list[Any]) -> tuple[str, Any, Span]:
        return ("structural", True, _meta_span(meta))

    def rule(self, meta: Meta, children: list[Any]) -> syntax.RuleDeclaration:
        name, *rest = children
        reason = ""
        found: dict[str, Any] = {}
        lets: list[syntax.Let] = []
        sides: list[Any] = []
        arrow: Token | None = None
        clause_spans: list[tuple[str, Span]] = []
        for child in rest:
            if isinstance(child, Token):
                if child.type == "ARROW":
                    arrow = child
                else:
                    reason = _text(child)
            elif isinstance(child, tuple):
                kind, content = child[0], child[1]
                if kind == "let":
                    lets += content
                elif kind in found:
                    message = f"rule `{name}` has two `{kind}` clauses"
                    help_ = "join them with a comma" if kind == "for" else "join them with `and`"
                    raise HnfError([Diagnostic("HNF0106", message, "", child[2] if len(child) > 2 else None, help=help_)])
                else:
                    found[kind] = content
                if len(child) > 2:
                    clause_spans.append((kind, child[2]))
            else:
                sides.append(child)
        assert arrow is not None
        return syntax.RuleDeclaration(
            str(name), reason, found.get("group", ""), found.get("source", ""), str(arrow), sides[0], sides[1], tuple(lets),
            found.get("for", ()), found.get("where"), found.get("when"), found.get("within"), "structural" in found, _meta_span(meta),
            token_span(name), token_span(arrow), tuple(clause_spans),
        )  # fmt: skip

    def test(self, meta: Meta, children: list[Any]) -> syntax.Test:
        return syntax.Test(str(children[0]), tuple(children[1:]), _meta_span(meta))

    def gives(self, meta: Meta, children: list[Any]) -> syntax.Gives:
        return syntax.Gives(tuple(children[:-1]), children[-1], _meta_span(meta))

    def assignment(self, meta: Meta, children: list[Any]) -> syntax.TestInput:
        name, dtype, value = children
        return syntax.TestInput(str(name), str(dtype) if dtype else "", value, _meta_span(meta))

    def unchanged(self, meta: Meta, children: list[Any]) -> syntax.Unchanged:
        return syntax.Unchanged(children[0], _meta_span(meta))

    def format_params(self, meta: Meta, children: list[Any]) -> list[syntax.Parameter]:
        return [child for child in children if child is not None]

    def format_param(self, meta: Meta, children: list[Any]) -> syntax.Parameter:
        return syntax.Parameter(str(children[0]), children[1], _meta_span(meta))

    def field(self, meta: Meta, children: list[Any]) -> syntax.Field:
        return syntax.Field(str(children[0]), children[1], _meta_span(meta), token_span(children[0]))

    def fields(self, meta: Meta, children: list[Any]) -> tuple[Token | None, tuple[syntax.Field, ...]]:
        return children[0], tuple(children[1:])

    def renaming(self, meta: Meta, children: list[Any]) -> Any:
        return children[0]

    def format_(self, meta: Meta, children: list[Any]) -> syntax.FormatDeclaration:
        name, *middle, body = children
        parameters = next((tuple(child) for child in middle if isinstance(child, list)), ())
        title = next((_text(child) for child in middle if isinstance(child, Token)), "")
        kind, fields, same = (body[0], body[1], None) if isinstance(body, tuple) else (None, (), body)
        return syntax.FormatDeclaration(
            str(name), parameters, title, str(kind or ""), fields, same,
            _meta_span(meta), token_span(name), token_span(kind or name),
        )  # fmt: skip

    def target(self, meta: Meta, children: list[Any]) -> syntax.TargetDeclaration:
        name, *rest = children
        title = next((_text(child) for child in rest if isinstance(child, Token)), "")
        fields = tuple(child for child in rest if isinstance(child, syntax.Field))
        return syntax.TargetDeclaration(str(name), title, fields, _meta_span(meta), token_span(name))

    def list_(self, meta: Meta, children: list[Any]) -> list[Any]:
        return [child for child in children if child is not None]

    def number(self, meta: Meta, children: list[Any]) -> float:
        return float("".join(str(child) for child in children))

    def named_number(self, meta: Meta, children: list[Any]) -> float:
        name = str(children[-1])
        if name not in ("inf", "nan", "true", "false"):
            raise HnfError([Diagnostic("HNF0107", f"`{name}` is no number", "", _meta_span(meta), help="write a number, `inf` or `nan`")])
        value = {"true": 1.0, "false": 0.0}.get(name) if name in ("true", "false") else float(name)
        assert value is not None
        return -value if len(children) > 1 else value

    # expressions

    def comparison(self, meta: Meta, children: list[Any]) -> syntax.Operator:
        """`a < b < c` means a < b and b < c."""
        parts = []
        for i in range(0, len(children) - 2, 2):
            left, symbol, right = children[i : i + 3]
            span = Span(left.span.line, left.span.column, right.span.end_line, right.span.end_column)
            parts.append(syntax.Operator("==" if symbol == "=" else str(symbol), (left, right), span))
        result = parts[0]
        for part in parts[1:]:
            result = syntax.Operator("and", (result, part), _meta_span(meta))
        return result

    def logical_not(self, meta: Meta, children: list[Any]) -> syntax.Operator:
        return syntax.Operator("not", tuple(children), _meta_span(meta))

    def neg(self, meta: Meta, children: list[Any]) -> syntax.Operator:
        return syntax.Operator("-", tuple(children), _meta_span(meta))

    def literal(self, meta: Meta, children: list[Any]) -> syntax.Number:
        text = str(children[0])
        mantissa, _, exponent = text.lower().partition("e")
        if len(mantissa) > MAX_DIGITS or len(exponent) > MAX_DIGITS or abs(int(exponent or 0)) > MAX_DIGITS:
            message, help_ = f"a number of more than {MAX_DIGITS} digits", "no format holds it; write `inf`, or a shorter number"
            raise HnfError([Diagnostic("HNF0109", message, "", _meta_span(meta), help=help_)])
        return syntax.Number(text, _meta_span(meta))

    def name(self, meta: Meta, children: list[Any]) -> syntax.Name:
        return syntax.Name(str(children[0]), _meta_span(meta))

    def const_capture(self, meta: Meta, children: list[Any]) -> syntax.Name:
        return syntax.Name(str(children[0]), _meta_span(meta), const=True)

    def call(self, meta: Meta, children: list[Any]) -> syntax.Call:
        name, *rest = children
        axes: tuple[str | int, ...] = ()
        arguments: list[Any] = []
        for child in rest:
            if isinstance(child, tuple):
                axes = child
            elif child is not None:
                arguments = child
        keywords = tuple(a for a in arguments if isinstance(a, tuple))
        positional = tuple(a for a in arguments if not isinstance(a, tuple))
        return syntax.Call(str(name), axes, positional, keywords, _meta_span(meta), token_span(name))

    def index(self, meta: Meta, children: list[Any]) -> tuple[str | int, ...]:
        return tuple(children)

    def axis_name(self, meta: Meta, children: list[Any]) -> str:
        return str(children[0])

    def axis_number(self, meta: Meta, children: list[Any]) -> int:
        text = "".join(str(child) for child in children)
        if not text.lstrip("-").isdigit():
            raise HnfError([Diagnostic("HNF0108", f"an axis is a whole number, but this is {text}", "", _meta_span(meta))])
        return int(text)

    def arguments(self, meta: Meta, children: list[Any]) -> list[Any]:
        return children

    def keyword(self, meta: Meta, children: list[Any]) -> tuple[str, Any]:
        return (str(children[0]), children[1])

    def text(self, meta: Meta, children: list[Any]) -> syntax.Name:
        """A text as an argument is a name with its quotes, which no other name has."""
        return syntax.Name(str(children[0]), _meta_span(meta))

    def annotated(self, meta: Meta, children: list[Any]) -> syntax.Annotated:
        return syntax.Annotated(children[0], children[1], _meta_span(meta))

    def dtypes(self, meta: Meta, children: list[Any]) -> tuple[str, ...]:
        return tuple(str(child) for child in children)


def _binary(symbol: str) -> Any:
    def build(self: _Build, meta: Meta, children: list[Any]) -> syntax.Operator:
        return syntax.Operator(symbol, tuple(children), _meta_span(meta))

    return v_args(meta=True)(build)


for _rule_name, _symbol in syntax.OPERATORS.items():
    setattr(_Build, _rule_name, _binary(_symbol))
