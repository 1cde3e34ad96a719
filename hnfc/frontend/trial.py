"""Work of MLIR that may end the process, tried in a child first."""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
from torch_mlir import ir

from hnfc.core.children import survives

Text: TypeAlias = "bytes | mmap.mmap"

LARGE = 2**26
"""Bytes of bytecode from which on it is not read twice."""
DEADLY = "MLIR's reader of bytecode dies of this file; was it cut or changed? Write it again, or as text"

TOO_DEEP = "MLIR's reader dies of this text, whose brackets are nested too deeply"
_MOST_NESTED = 200
"""Depth of brackets from which on a text is tried first: the reader calls itself for each."""
_BRACKETS = b"([{<"
_OTHERS = bytes(set(range(256)) - set(b'([{<>}])"\\/-\n'))
_QUOTED = re.compile(rb'"(?:[^"\\\n]|\\.)*"|//[^\n]*|->')


def is_nested(text: Text) -> bool:
    """Return whether brackets outside of quotes and comments are nested deeply."""
    brackets = b"".join(piece.translate(None, _OTHERS) for piece in _without_resources(text))
    kept = np.frombuffer(_QUOTED.sub(b"", brackets), np.uint8)
    steps = np.where(np.isin(kept, np.frombuffer(_BRACKETS, np.uint8)), 1, np.where(np.isin(kept, _CLOSING), -1, 0))
    return bool(np.cumsum(steps).max(initial=0) > _MOST_NESTED)


def has_endless_number(text: Text) -> bool:
    """Return whether a number outside of quotes has more digits than any reader takes in time."""
    if all(piece.translate(_AS_ZEROS).find(b"0" * _MOST_DIGITS) < 0 for piece in _without_resources(text)):
        return False
    return _ENDLESS.search(text) is not None  # bytes of a constant are quoted, and may be zeros


def _without_resources(text: Text) -> Iterator[bytes]:
    """The text in pieces, without long quotes of hexadecimal digits, which hold the bytes of weights."""
    done = start = 0
    while (start := text.find(b'"0x', start)) >= 0:
        end = text.find(b'"', start + 1)
        if end - start > _LONG and all(text.find(mark, start, end) < 0 for mark in (b"\n", b"(", b"[", b"{", b"<")):
            yield text[done:start]
            done = end + 1
        start = end + 1 if end >= 0 else len(text)
    yield text[done:]


_LONG = 2**16
_MOST_DIGITS = 5000
_AS_ZEROS = bytes(48 if 48 <= code <= 57 else code for code in range(256))
_ENDLESS = re.compile(rb'(?:^|[^0-9A-Fa-fx"])\d{%d}' % _MOST_DIGITS)
_CLOSING = np.frombuffer(b">}])", np.uint8)


def outlived(context: ir.Context, work: Callable[[], object]) -> bool:
    """Return whether a child lives on after work in the context; what the child changes is its own."""
    context.enable_multithreading(False)  # a child has none of its parent's threads
    try:
        return survives(work)
    finally:
        context.enable_multithreading(True)
