"""Number formats by name: those that hnfc brings, and those of files that were loaded."""

from __future__ import annotations

from pathlib import Path
from threading import Lock

from hnfc.dialects.formats import Format
from hnfc.dsl.formats import FormatBook
from hnfc.dsl.rulebook import load_files, shipped_formats

_lock = Lock()
_books: list[FormatBook] = []


def load_formats(*paths: str | Path) -> FormatBook:
    """The formats that the `.hnf` files and their imports declare, after the shipped ones; from now on they are known by name everywhere.

    Raises HnfError where a file is wrong, or declares a name otherwise than one that is known; OSError where it cannot be read.
    """
    found = load_files(paths)
    with _lock:
        book = FormatBook(known_formats)
        for file in found.files.values():
            book.add(file)
        _books.append(book)
    return book


def known_formats() -> FormatBook:
    return _books[-1] if _books else shipped_formats()


def format_named(format: str | Format) -> Format:
    """The format of a name (`bf16`), of an element type (`f16`), or of a call (`fixed(3, 4)`); a Format is itself. Raises HnfError."""
    return format if isinstance(format, Format) else known_formats().format(format)
