"""Files of MLIR, text or bytecode, as modules: what ends MLIR's reader is found first."""

from __future__ import annotations

import mmap
import os
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect

from hnfc.core.errors import ModelError, missing
from hnfc.frontend import weights
from hnfc.frontend.trial import DEADLY, LARGE, TOO_DEEP, has_endless_number, is_nested, outlived

_PLACE = re.compile(r'"([^"]*)":(\d+):(\d+)')


def new_context() -> ir.Context:
    """A context that knows the torch dialect and carries operations of unknown dialects."""
    context = ir.Context()
    torch_dialect.register_dialect(context)
    context.allow_unregistered_dialects = True
    return context


def read(source: str | Path | bytes, context: ir.Context | None = None, name: str = "<bytes>") -> ir.Module:
    """The module in a file, in the bytes of one (called `name` in errors), or on stdin (`-`); text or bytecode. Raises ModelError."""
    context = context or new_context()
    if isinstance(source, str | Path) and str(source) != "-":
        name = str(source)
        if not Path(source).is_file():
            raise missing(source)
        if not name.isprintable():  # MLIR takes names in UTF-8 only
            return _parsed(ir.Module.parse, Path(source).read_bytes(), context, name)
        return _parsed(ir.Module.parseFile, name, context, name)
    if isinstance(source, bytes):
        return _parsed(ir.Module.parse, source, context, name)
    return _parsed(ir.Module.parse, sys.stdin.buffer.read(), context, "<stdin>")


_BYTECODE = b"ML\xefR"


def _parsed(parse: Callable[..., ir.Module], source: str | bytes, context: ir.Context, name: str) -> ir.Module:
    _check(parse, source, context, name)
    try:
        module = parse(source, context)
        weights.check_resources(module, name)
    except ir.MLIRError as error:
        raise _model_error(error, name) from None
    except (RuntimeError, UnicodeDecodeError):
        # a message that is no UTF-8, as it quotes what a faulty file holds
        raise ModelError("MLIR cannot read this file, and says so in no text; was it cut or changed?", name) from None
    return module


def _check(parse: Callable[..., ir.Module], source: str | bytes, context: ir.Context, name: str) -> None:
    """Raises ModelError for what ends the process, or takes hours, when MLIR reads it."""
    if isinstance(source, bytes):
        _check_content(parse, source, source, context, name)
    elif os.stat(source).st_size:
        with open(source, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            _check_content(parse, source, content, context, name)


def _check_content(
    parse: Callable[..., ir.Module], source: str | bytes, content: bytes | mmap.mmap, context: ir.Context, name: str
) -> None:  # fmt: skip
    if content[: len(_BYTECODE)] == _BYTECODE:
        if len(content) < LARGE and not outlived(context, partial(parse, source, context)):
            raise ModelError(DEADLY, name)
    elif has_endless_number(content):
        raise ModelError("a number has too many digits", name)
    elif is_nested(content) and not outlived(context, partial(parse, source, context)):
        raise ModelError(TOO_DEEP, name)


def _model_error(error: ir.MLIRError, name: str) -> ModelError:
    for diagnostic in error.error_diagnostics:
        found = _PLACE.search(str(diagnostic.location))
        if found is not None:
            return ModelError(diagnostic.message, name if found[1] == "-" else found[1], int(found[2]), int(found[3]))
        return ModelError(diagnostic.message, name)
    return ModelError(str(error.message), name)
