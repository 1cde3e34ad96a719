"""Who may import whom: dialects ← dsl ← hnfc, and rich only in the command line."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FORBIDDEN = {
    "dialects": ("hnfc.dsl", "hnfc.frontend", "hnfc.backend", "hnfc.rewrite", "hnfc.analysis", "hnfc.report", "torch"),
    "dsl": (
        "hnfc.frontend",
        "hnfc.backend",
        "hnfc.rewrite",
        "hnfc.analysis",
        "hnfc.report",
        "hnfc.core",
        "hnfc.pipeline",
        "hnfc.cli",
        "torch",
    ),
    "hnfc": ("torch",),
}
ON_TORCH = (
    "hnfc/pytorch/",
    "hnfc/tracing/",
    "hnfc/frontend/places.py",
    "hnfc/frontend/pytorch.py",
    "hnfc/frontend/training.py",
    "hnfc/frontend/signature.py",
    "hnfc/core/tensors.py",
    "hnfc/backend/on_torch.py",
    "hnfc/backend/autograd.py",
    "hnfc/backend/functions.py",
    "hnfc/backend/fx.py",
    "hnfc/backend/gradients.py",
    "hnfc/backend/rows.py",
    "hnfc/frontend/checkpointing.py",
    "hnfc/analysis/calibrated.py",
    "hnfc/analysis/perturbation.py",
    "hnfc/analysis/observed.py",
    "hnfc/precision/amp.py",
    "hnfc/precision/analyzed.py",
    "hnfc/precision/cast_insertion.py",
    "hnfc/precision/certifying.py",
    "hnfc/precision/computation.py",
    "hnfc/precision/files.py",
    "hnfc/precision/optimizer.py",
    "hnfc/precision/solving.py",
    "hnfc/formats/torch_rounding.py",
    "hnfc/precision/training.py",
    "hnfc/cli/precision.py",
)
"""What is about PyTorch's modules; everything else works where torch is not installed."""


def imported(path: Path) -> set[str]:
    names = set()
    tree = ast.parse(path.read_text())
    for_types = [branch for branch in ast.walk(tree) if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"]
    skipped = {node for branch in for_types for node in ast.walk(branch)}
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def sources(folder: str) -> list[Path]:
    return [p for p in (ROOT / folder).rglob("*.py") if not any(part.is_symlink() for part in [p, *p.parents])]


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_imports_go_one_way(folder):
    for path in sources(folder):
        for name in imported(path):
            for forbidden in FORBIDDEN[folder]:
                if forbidden == "torch" and str(path.relative_to(ROOT)).startswith(ON_TORCH):
                    continue
                assert name != forbidden and not name.startswith(forbidden + "."), f"{path.relative_to(ROOT)} imports {name}"


def test_only_the_command_line_imports_rich():
    for folder in FORBIDDEN:
        for path in sources(folder):
            if path.name != "terminal.py":
                assert not any(name.split(".")[0] == "rich" for name in imported(path)), path


def test_the_folders_are_the_package():
    for name in ("dialects", "dsl", "rules"):
        assert (ROOT / "hnfc" / name).is_symlink() and (ROOT / "hnfc" / name).resolve() == ROOT / name


def test_the_command_line_on_a_file_loads_no_torch():
    code = "import sys, hnfc, hnfc.pipeline.compile, hnfc.rewriter, hnfc.cli.main; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
