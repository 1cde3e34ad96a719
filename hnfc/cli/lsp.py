"""`hnfc lsp`: the language server on standard input and output."""

from __future__ import annotations

import argparse

from hnfc.cli.terminal import DONE
from hnfc.core.errors import UsageError


def run(options: argparse.Namespace) -> int:
    """Serves until the editor ends it; the exit code."""
    try:
        from hnfc.language_server.server import made_server
    except ModuleNotFoundError as error:
        if error.name not in ("pygls", "lsprotocol"):
            raise
        raise UsageError("hnfc lsp needs pygls, which is not installed: pip install 'hnfc[lsp]'") from None
    made_server().start_io()
    return DONE
