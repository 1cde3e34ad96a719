"""Work that may end the process, tried in a child first."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import warnings
from collections.abc import Callable


def survives(work: Callable[[], object]) -> bool:
    """Return whether a child lives on after the work, whose changes and words stay there; True where no child can be made."""
    if not hasattr(os, "fork"):
        return True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads, as JAX has them, which the child does not need
        child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        faulthandler.disable()
        with contextlib.suppress(BaseException):
            work()
        os._exit(0)  # without what the parent does at its end
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
