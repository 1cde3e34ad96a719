"""`python -m hnfc.runners [FILE]`: measures every operation on torch and IREE and writes the page docs/runners.md."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from hnfc.runners.table import document

PAGE = "docs/runners.md"


def main(arguments: list[str]) -> None:
    """Writes the page to the file that is named, or to docs/runners.md."""
    path = Path(arguments[0]) if arguments else Path(PAGE)
    path.write_text(document(partial(print, file=sys.stderr, flush=True)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
