"""The parser of the grammar. Its tables are computed once and kept in the user's cache: a tenth of the time of making them."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

import lark
from lark import Lark, Token
from lark.grammar import Rule
from lark.lexer import TerminalDef

from hnfc.dsl.store import add_to_store, cache_directory, read_store

OPTIONS: dict[str, Any] = {"parser": "lalr", "propagate_positions": True, "maybe_placeholders": True}


@cache
def parser() -> tuple[Lark, list[Token]]:
    """The parser, and the list to which it adds each comment that it passes over."""
    comments: list[Token] = []

    def keep(token: Token) -> Token:
        comments.append(token)
        return token

    return _made({"COMMENT": keep}), comments


def _made(callbacks: dict[str, Callable[[Token], Token]]) -> Lark:
    grammar = (files("hnfc") / "dsl" / "hnf.lark").read_text(encoding="utf-8")
    path = cache_directory() / "grammar.json"
    key = hashlib.sha256(f"{lark.__version__} {sys.version_info[:2]} {sorted(OPTIONS.items())}\n{grammar}".encode()).hexdigest()
    try:
        tables, shared = _numbered(read_store(path)[key])
        return Lark._load_from_dict(tables, shared, lexer_callbacks=callbacks)
    except Exception:
        # a file that was made otherwise, or by nobody: whatever it holds, the grammar itself is at hand
        made = Lark(grammar, lexer_callbacks=callbacks, **OPTIONS)
    tables, shared = made.memo_serialize([TerminalDef, Rule])
    tables["options"]["lexer_callbacks"] = {}
    add_to_store(path, {key: [tables, shared]})
    return made


def _numbered(data: Any) -> Any:
    """The data with numbers for the keys that were numbers before they went through JSON; no token or rule is named by one."""
    if isinstance(data, dict):
        return {int(key) if key.isdigit() else key: _numbered(value) for key, value in data.items()}
    return [_numbered(value) for value in data] if isinstance(data, list) else data
