"""HiGHS, the solver of integer programs behind SciPy: what every caller needs of it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """HiGHS prints a line now and then, past Python, to where a program's output goes."""
    try:
        kept = os.dup(1)
    except OSError:  # there is no standard output
        yield
        return
    sys.stdout.flush()
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(null)
