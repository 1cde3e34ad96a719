"""Options of `hnfc serve`."""

from __future__ import annotations

import argparse

from hnfc.cli.parsing import CommandParser


def parser(command: str) -> argparse.ArgumentParser:
    made = CommandParser(
        "serve", examples="example:\n  hnfc serve",
        description="Serves a page of this machine to write a rule or an FPCore program, or to drop a model, and see its report.\n"
        "Only this machine reaches it, at the address that is printed; nothing is stored. Ctrl-C ends it.",
    )  # fmt: skip
    made.add_argument("--port", type=int, default=0, metavar="N", help="the port (default: a free one)")
    made.add_argument("--seconds", type=float, default=60.0, metavar="S", help="the longest that one report may take (default 60)")
    made.add_argument("--memory", type=float, default=8.0, metavar="GIB", help="address space that one report may take, in GiB (default 8)")
    made.add_argument("--json", metavar="OUT.json", help="write the address and the limits as JSON too, once it can be opened")
    return made
