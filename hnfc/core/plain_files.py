"""Files that are read whole, and hold JSON or text: a FIFO, a device or a folder is refused, and so is what is nested too deep."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hnfc.dsl.text_files import read_bytes as read_bytes
from hnfc.dsl.text_files import read_text as read_text


def read_json(path: str | Path) -> Any:
    """The content of a file of JSON. Raises OSError and ValueError."""
    try:
        return json.loads(read_text(path))
    except RecursionError:
        raise ValueError("it is nested too deep") from None
