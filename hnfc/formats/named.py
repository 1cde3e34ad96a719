"""Number formats by name: those that hnfc brings, and those of files that were loaded."""

from __future__ import annotations

from pathlib import Path
from threading import Lock

from hnfc.dialects.formats import Format
from hnfc.dsl.diagnostics import HnfError
from hnfc.dsl.formats import FormatBook
from hnfc.dsl.rulebook import load_files, shipped_formats
from hnfc.formats.granular import ALIASES, granular_named

LIBRARY_NAMES = {
    "fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16",
    "fp8_e5m2": "float8_e5m2", "fp8_e5m2fnuz": "float8_e5m2fnuz", "fp8_e4m3": "float8_e4m3", "fp8_e4m3fn_saturating": "float8_e4m3fn",
    "fp8_e4m3fn": "float8_e4m3fn", "fp8_e4m3fnuz": "float8_e4m3fnuz", "fp8_e4m3b11fnuz": "float8_e4m3b11fnuz", "fp8_e3m4": "float8_e3m4",
    "fp6_e3m2fn": "float6_e3m2fn", "fp6_e2m3fn": "float6_e2m3fn", "fp4_e2m1fn": "float4_e2m1fn", "e8m0fnu": "float8_e8m0fnu",
}  # fmt: skip
"""Names of formats in NumPy, ml_dtypes and torch."""

_lock = Lock()
_known = FormatBook(shipped_formats)
_found: dict[str, Format] = {}
"""The formats of names that were looked up: torch.compile traces no more of that than this."""


class UnknownFormat(HnfError, ValueError):
    """No format has this name; the text says what is wrong and what was meant."""

    def __str__(self) -> str:
        first = self.diagnostics[0]
        return "; ".join(filter(None, (first.message, first.note, first.help)))


def load_formats(*paths: str | Path) -> FormatBook:
    """The formats that the `.hnf` files and their imports declare, after the shipped ones; from now on they are known by name everywhere.

    Raises HnfError where a file is wrong, or declares a name otherwise than one that is known; OSError where it cannot be read.
    """
    found = load_files(paths)
    with _lock:
        for file in found.files.values():
            _known.add(file)
        _found.clear()
    return _known


def known_formats() -> FormatBook:
    return _known


def format_named(format: str | Format) -> Format:
    """The format of a name (`bf16`), of an element type (`f16`), or of a call (`fixed(3, 4)`), or with scales that are found
    (`int8/channel`); a Format is itself.

    Raises UnknownFormat.
    """
    if isinstance(format, Format):
        return format
    if format not in _found:
        try:
            name = _own_name(format)
            _found[format] = granular_named(name, known_formats()) or known_formats().format(name)
        except HnfError as error:
            raise UnknownFormat(error.diagnostics) from None
    return _found[format]


def canonical(format: str) -> str:
    """The one name of a format with several: "int8" is "int8/channel", "mxfp4" is "MXFP4_E2M1". Raises UnknownFormat."""
    name = _own_name(format)
    try:
        found = granular_named(name, known_formats())
    except HnfError as error:
        raise UnknownFormat(error.diagnostics) from None
    return name if found is None else found.name


def _own_name(name: str) -> str:
    """A name in use elsewhere as hnfc's, unless a file that was loaded gives it to a format of its own."""
    return name if name in known_formats().names() else ALIASES.get(name, name)
