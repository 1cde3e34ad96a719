"""Options of `hnfc lsp`."""

from __future__ import annotations

import argparse

from hnfc.cli.parsing import CommandParser


def parser(command: str) -> argparse.ArgumentParser:
    return CommandParser(
        "lsp", examples="example, in Neovim:\n  vim.lsp.start({ name = 'hnfc', cmd = { 'hnfc', 'lsp' } })",
        description="Serves an editor over standard input and output: verdicts while a rule is typed, hover, completion, definitions,\n"
        "references, renaming, formatting, and edits that make a rule hold. docs/editors.md says how to set up an editor.",
    )  # fmt: skip
