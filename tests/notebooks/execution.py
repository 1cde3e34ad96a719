"""Notebooks of the documentation, executed: `python -m tests.notebooks.execution` writes their outputs anew."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
_SECONDS = 300
_TIMES = re.compile(r"seconds=[0-9.e-]+|in [0-9.]+ s\b|, [0-9.]+ s each|[0-9.]+ ms\b")
"""Times in outputs; they are all that two runs may differ in."""


def executed(file: Path) -> Any:
    """The notebook with the outputs that it has now. Raises CellExecutionError where a cell does."""
    import nbformat
    from nbclient import NotebookClient

    # cells run programs of this installation
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    notebook = nbformat.read(file, 4)
    NotebookClient(notebook, timeout=_SECONDS, kernel_name="python3", record_timing=False).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if not _is_bar(output)]
            for output in cell.outputs:
                _without_times(output)
    return notebook


def _is_bar(output: Any) -> bool:
    """Return whether an output is a bar that was taken away: slow machines show one."""
    return output.output_type == "display_data" and output.data.get("text/html") == ""


def _without_times(output: Any) -> None:
    parts = output if "text" in output else output.get("data", {})
    for kind in ("text", "text/plain", "text/html"):
        if kind in parts:
            parts[kind] = _TIMES.sub(lambda found: re.sub(r"[0-9.e-]+", "…", found[0], count=1), parts[kind])


def words_of(notebook: Any) -> list[list[str]]:
    """By cell of code its outputs as texts, without numbers, in which machines differ."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [[re.sub(r"[0-9][0-9.,e+-]*", "#", text) for output in cell.outputs for text in _texts(output)] for cell in cells]


def _texts(output: Any) -> list[str]:
    parts = output if "text" in output else output.get("data", {})
    return [str(parts[kind]) for kind in ("text", "text/plain", "text/html") if kind in parts]


if __name__ == "__main__":
    import nbformat

    for path in NOTEBOOKS:
        nbformat.write(executed(path), path)
        print(path.name)
