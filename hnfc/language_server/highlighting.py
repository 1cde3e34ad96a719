"""Colours of rule files for Pygments, and so for documentation."""

from __future__ import annotations

from typing import Any, ClassVar

from pygments.lexer import RegexLexer, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text

from hnfc.dsl.expressions import CONSTANTS
from hnfc.language_server.tokens import CLAUSES, CONDITIONS, DECLARATIONS, FUNCTIONS


class HnfLexer(RegexLexer):  # type: ignore[misc]
    """Rule files of hnfc."""

    name = "hnf"
    aliases: ClassVar = ["hnf"]
    filenames: ClassVar = ["*.hnf"]
    tokens: ClassVar[dict[str, Any]] = {
        "root": [
            (r"#[^\n]*", Comment.Single),
            (r'"[^"\n]*"', String),
            (r"\d+(\.\d+)?([eE][+-]?\d+)?", Number),
            (words((*FUNCTIONS, *CONDITIONS), prefix=r"\b", suffix=r"(?=[\[(])"), Name.Builtin),
            (words(DECLARATIONS, prefix=r"^", suffix=r"\b"), Keyword.Declaration),
            (words(CLAUSES, prefix=r"\b", suffix=r"\b"), Keyword),
            (words(tuple(CONSTANTS), prefix=r"\b", suffix=r"\b"), Keyword.Constant),
            (r"[A-Za-z_][A-Za-z0-9_]*", Name),
            (r"<=>|=>|~>|==|!=|<=|>=|\*\*|[-+*/@<>=]", Operator),
            (r"[:,()\[\]{}|]", Punctuation),
            (r"\s+", Text),
        ]
    }
