"""Memory of the C library, returned to the system when it is freed."""

from __future__ import annotations

import contextlib
import ctypes

_MMAP_THRESHOLD = -3
"""Number of the option in glibc."""
_BLOCK = 1 << 23


def keep_heap_small() -> None:
    """Lets glibc map blocks of 8 MiB and more by themselves: by default it keeps larger and larger ones in a heap, which breaks up."""
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _BLOCK)


def return_free_memory() -> None:
    """Returns what is free in glibc's heap, between blocks that are in use too."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
