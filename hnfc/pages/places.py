"""Places of values: the module that they are in, the line that they come from, and that line's text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_SOURCE = re.compile(r"^(?:(?P<module>.*) \()?(?P<file>[^()]*):(?P<line>\d+)\)?$")
_CONTEXT = 2
"""Lines before and behind the one of a value."""
_LARGEST = 2_000_000
"""Size of the largest file that is read for its lines."""
CHUNK = 60
"""Values of a group, where a file names no modules and has more of them."""


def module_of(place: str) -> tuple[str, ...]:
    """The path of the module: `layers.0.attn (model.py:12)` is in layers.0, attn; the node `/encoder/layer.0/Add` in encoder, layer.0."""
    found = _SOURCE.match(place)
    path = (found["module"] or "") if found is not None else place if place.startswith("/") else ""
    if "/" in path:
        # the last part names the operation itself
        return tuple(part for part in path.split("/") if part)[:-1]
    parts: list[str] = []
    for part in path.split(".") if path else ():
        if part.isdigit() and parts:
            parts[-1] += f".{part}"
        else:
            parts.append(part)
    return tuple(parts)


def line_of(place: str) -> str:
    """`file:line`, or the name of the value where no file is known."""
    found = _SOURCE.match(place)
    return f"{found['file']}:{found['line']}" if found is not None else place


def source_lines(places: Iterable[str], roots: Iterable[Path]) -> dict[str, dict[int, str]]:
    """The lines around those of the places, by file and number, of Python files below the roots.

    A model may name any file as its source, one among secrets too: nothing else is read.
    """
    wanted: dict[str, set[int]] = {}
    for place in places:
        found = _SOURCE.match(place)
        if found is not None:
            wanted.setdefault(found["file"], set()).add(int(found["line"]))
    known = [root.resolve() for root in roots]
    return {file: shown for file, lines in wanted.items() if (shown := _lines_of(file, lines, known))}


def _lines_of(file: str, lines: set[int], roots: list[Path]) -> dict[int, str]:
    for root in roots:
        try:
            path = (root / file).resolve()
            if path.suffix != ".py" or not path.is_relative_to(root) or not path.is_file() or path.stat().st_size > _LARGEST:
                continue
            text = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError, ValueError):
            continue
        near = {n for line in lines for n in range(line - _CONTEXT, line + _CONTEXT + 1) if 0 < n <= len(text)}
        return {n: text[n - 1] for n in sorted(near)}
    return {}
