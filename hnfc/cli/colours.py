"""Colours of words on the terminal: statuses and faults, unless NO_COLOR forbids them or nobody looks."""

from __future__ import annotations

import os
import re
from typing import Any

_GREEN, _RED, _YELLOW, _PLAIN = "\x1b[32m", "\x1b[31m", "\x1b[33m", "\x1b[0m"
_COLOURS = {"PROVED": _GREEN, "REFUTED": _RED, "error": _RED, "UNKNOWN": _YELLOW, "VACUOUS": _YELLOW, "warning": _YELLOW}
_WORDS = re.compile(r"^(error|warning)(?=[:\[])|(?<![\w-])(PROVED|REFUTED|UNKNOWN|VACUOUS)(?![\w-])", re.MULTILINE)


def wanted(stream: Any) -> bool:
    """Return whether a stream gets colours. NO_COLOR (any text) forbids them, FORCE_COLOR forces them; else a terminal gets them."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return bool(stream.isatty()) and os.environ.get("TERM") != "dumb"


def coloured(text: str) -> str:
    """The text with statuses and the first words of faults in colours."""
    return _WORDS.sub(lambda found: f"{_COLOURS[found[0]]}{found[0]}{_PLAIN}", text)
