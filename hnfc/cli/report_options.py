"""The option of every command that can write its report as a page."""

from __future__ import annotations

import argparse


def add_report(parser: argparse.ArgumentParser) -> None:
    """Adds `--report`."""
    parser.add_argument("--report", metavar="OUT.html", help="write the report as a page for a browser too: one file that loads nothing")
