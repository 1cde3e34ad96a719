"""Words for a syntax error: what was met, what may stand there, and what was probably meant."""

from __future__ import annotations

import re
from typing import Any

from lark import Token
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from hnfc.dialects.num import OPERATIONS
from hnfc.dsl.diagnostics import Diagnostic, Span

_READABLE = {
    "NAME": "a name", "NUMBER": "a number", "STRING": 'a text in "quotes"', "ARROW": "`=>`, `<=>` or `~>`", "LPAR": "`(`", "RPAR": "`)`",
    "LSQB": "`[`", "RSQB": "`]`", "COMMA": "`,`", "EQUAL": "`=`", "COLON": "`:`", "SIGN": "`-`", "MINUS": "`-`", "PLUS": "`+`",
    "STAR": "`*`", "SLASH": "`/`", "AT": "`@`", "COMPARE": "a comparison", "$END": "the end of the file", "VBAR": "`|`",
    "__ANON_0": "`**`", "LBRACE": "`{`", "RBRACE": "`}`",
}  # fmt: skip


NO_COLON = "the heading of a rule ends without a colon; a group stands in the same line, as in `rule name : group`"
_COLON_AT_END = re.compile(r'\brule\s+\w+\s*("[^"\n]*"\s*)?:[ \t]*(#[^\n]*)?\n(?:(?!\brule\b)[\s\S])*$')
_PARAMETER = re.compile(r"\bfor\s+(\w+\s+)?\w+\s*$")
_CONDITION_WORDS = ("if", "given", "provided", "assuming", "requires", "unless")


def _expected(names: set[str]) -> str:
    words = sorted({_READABLE.get(name, f"`{name.lower()}`") for name in names})
    return ", ".join(words[:-1]) + " or " + words[-1] if len(words) > 1 else "".join(words)


def unexpected_token(error: UnexpectedToken, source: str, path: str) -> Diagnostic:
    token = error.token
    span = token_span(token)
    expected = set(error.accepts or error.expected)
    if str(token) in ("rule", "test", "def", "import", "library", "format", "target") and "ARROW" in expected:
        return Diagnostic("HNF0103", f"the rule before this `{token}` has no arrow", path, span, help="write `pattern => replacement`")
    if str(token) == "=" and "ARROW" in expected:
        return Diagnostic("HNF0103", "expected an arrow, but got `=`", path, span, help="write `pattern => replacement`")
    begun = source[: token.start_pos or 0]
    if str(token) == ">" and begun.endswith("-"):
        return Diagnostic("HNF0103", "expected an arrow, but got `->`", path, span, help="write `pattern => replacement`")
    if str(token) == "=" and re.search(r"\[[^\]\n]*\b(keepdims?|dim|axis)\s*$", begun):
        help_ = "axes stand in the brackets, options among the arguments: `sum[k](x, keepdim = true)`"
        return Diagnostic("HNF0103", "unexpected `=`: brackets hold axes alone", path, span, help=help_)
    # in brackets `x =` is read as a keyword, and the rest of the arrow is left
    if (token.type == "ARROW" and "RPAR" in expected) or (str(token) == ">" and begun.endswith(("=", "<="))):
        return Diagnostic("HNF0103", "a bracket before this arrow is not closed", path, span, help="write `)` where it ends")
    if _COLON_AT_END.search(begun):
        return Diagnostic("HNF0103", f"unexpected `{token}`", path, span, help=NO_COLON)
    if str(token) in _CONDITION_WORDS:
        return Diagnostic("HNF0103", f"unexpected `{token}`", path, span, help="conditions on values stand after `where`, as `where x > 0`")
    if _PARAMETER.search(begun):
        help_ = "`for` takes `s`, `s > 0` or `orthogonal h`, separated by commas; other conditions stand after `where`"
        return Diagnostic("HNF0103", f"unexpected `{token}`", path, span, help=help_)
    if {"RULE", "TEST"} <= expected:
        help_ = "a file is made of `rule`, `test`, `def`, `import`, `library`, `format` and `target`; a comment begins with `#`"
        return Diagnostic("HNF0103", f"unexpected `{token}` between declarations", path, span, help=help_)
    few = expected if len(expected) <= 6 else expected & {"RPAR", "RSQB", "ARROW", "NAME", "COMMA"}
    help_ = f"expected {_expected(few)}" if few else ""
    return Diagnostic("HNF0103", f"unexpected `{token}`", path, span, help=help_)


def unexpected_end(source: str, path: str, expected: Any) -> Diagnostic:
    lines = source.splitlines() or [""]
    span = Span(len(lines), len(lines[-1]) + 1, len(lines), len(lines[-1]) + 2)
    names = set(expected or ())
    what = "a rule needs `pattern => replacement`" if "ARROW" in names else f"expected {_expected(names)}" if 0 < len(names) <= 6 else ""
    return Diagnostic("HNF0104", "the file ends in the middle of a declaration", path, span, help=what)


_MEANT = {
    '"': "a text must be closed with a quote on the same line",
    "'": 'a text stands in "quotes"',
    "^": "powers are written `x ** y`",
    "?": "a choice is written `where(c, x, y)`",
    ".": "functions are written `exp(x)`, without a module before them and not as methods",
    "&": "conditions are joined by `and`",
    "~": "a condition is negated by `not`",
    "!": "a condition is negated by `not`",
    "%": "remainders are `remainder(x, y)`, with the sign of y, and `fmod(x, y)`, with the sign of x",
    ";": "declarations need nothing between them",
    "²": "squares are written `x ** 2` or `square(x)`",
    "√": "roots are written `sqrt(x)`",
    "·": "products are written `x * y`",
    "×": "products are written `x * y`",
    "−": "write the `-` of the keyboard",
    "≤": "write `<=`", "≥": "write `>=`", "≠": "write `!=`", "→": "write `=>`", "∞": "write `inf`", "π": "write `pi`",
}  # fmt: skip
"""Advice on characters that no rule file has."""


_MODULES = ("torch", "np", "numpy", "jnp", "jax", "math", "F", "nn", "functional", "special")
_NAMED_ALIKE = {"amax": "max", "amin": "min"}
_ATTRIBUTES = {
    "T": "transpose({})", "mT": "transpose({})", "to": "cast({}, dtype(y))", "type_as": "cast({}, dtype(y))", "float": "cast({}, f32)",
    "double": "cast({}, f64)", "half": "cast({}, f16)", "bfloat16": "cast({}, bf16)", "shape": "size[-1]({})", "size": "size[-1]({})",
    "ndim": "rank({})", "dim": "rank({})",
}  # fmt: skip
"""Attributes and methods of tensors, and the forms of rules that stand for them."""


def _method(source: str, dot: int) -> str:
    """The form that a rule has for `x.exp()` or `torch.exp(x)`, where the owner is one word."""
    before = re.search(r"([\w.]+)$", source[:dot])
    after = re.match(r"\.\s*([A-Za-z_][\w.]*)\s*(\(\s*\)?)?", source[dot:])
    if before is None or after is None:
        return ""
    name = after[1].rpartition(".")[2]
    if name in ("inf", "pi") and before[1] in _MODULES:
        return f"write `{name}`"
    named = _NAMED_ALIKE.get(name, name)
    along = named in OPERATIONS and "axes" in OPERATIONS[named].get_irdl_definition().properties
    function = f"{named}[-1]" if along else named
    if before[1] in _MODULES:
        return f"write `{function}(…)`: functions are written without a module before them"
    more = ", …" if after[2] == "(" and not along else ""
    form = _ATTRIBUTES.get(name, f"{function}({{}}{more})").format(before[1])
    return f"write `{form}`: functions are written not as methods"


def unexpected_character(error: UnexpectedCharacters, source: str, path: str) -> Diagnostic:
    character = source[error.pos_in_stream] if error.pos_in_stream is not None and error.pos_in_stream < len(source) else ""
    span = Span(error.line, error.column, error.line, error.column + 1)
    help_ = (_method(source, error.pos_in_stream or 0) if character == "." else "") or _MEANT.get(character, "")
    return Diagnostic("HNF0105", f"the character {character!r} has no meaning here", path, span, help=help_)


def token_span(token: Token) -> Span:
    return Span(token.line or 0, token.column or 0, token.end_line or 0, token.end_column or 0)
