"""Arrays in an `.npz` file: numbers only, and no archive that unpacks to far more than it is."""

from __future__ import annotations

import io
import stat
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from hnfc.core.errors import ModelError, missing

_LARGE, _RATIO = 2**28, 100
"""Bytes up to which an archive may unpack to any multiple of its size, and the multiple beyond that."""


def read_arrays(path: str, what: str) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays by name, of a file or of stdin (`-`). what: is read, in errors. Raises ModelError."""
    source: str | io.BytesIO = path
    try:
        if path == "-":
            content = sys.stdin.buffer.read()
            source, path, packed = io.BytesIO(content), "<stdin>", len(content)
        else:
            found = Path(path).stat()
            if not stat.S_ISREG(found.st_mode):
                raise ModelError(f"cannot read {what}: this is not a file", path)
            packed = found.st_size
        with zipfile.ZipFile(source) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        if size > max(_LARGE, _RATIO * packed):
            raise ModelError(f"cannot read {what}: {packed} bytes that unpack to {size}; numpy.savez writes them as they are", path)
        with np.load(source) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except FileNotFoundError:
        raise missing(path) from None
    except OSError as error:
        raise ModelError(f"cannot read {what}: {error.strerror or 'it is no .npz file'}", path) from None
    except ModelError:
        raise
    except Exception:  # zipfile, zlib, NumPy and pickle each have their own
        raise ModelError(f"cannot read {what}: it is no .npz file of numeric arrays, as numpy.savez writes them", path) from None
    return arrays
