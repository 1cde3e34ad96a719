"""`hnfc doctor`: versions of hnfc and of what it uses, optional parts, and the cache."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec

from hnfc.cli.terminal import DONE, WRONG, show
from hnfc.dsl.store import cache_directory

_MODULES = {"iree-base-compiler": "iree.compiler", "iree-base-runtime": "iree.runtime", "torch-mlir": "torch_mlir", "z3-solver": "z3",
            "python-flint": "flint"}  # fmt: skip
"""Modules whose names are not those of their packages."""
_PARTS = {
    "torch": "hnfc.optimize, trace, watch, precision, and `hnfc run`", "safetensors": "weights in files, saved steps",
    "onnx": ".onnx files", "iree-base-compiler": "`--emit iree`, `hnfc run --on iree`", "iree-base-runtime": "`hnfc run --on iree`",
    "cvc5": "a second solver in the tests",
}  # fmt: skip
"""Optional packages, and what needs them."""


def run(options: argparse.Namespace) -> int:
    """Prints what is there and what is missing; the exit code says whether all that hnfc needs is there."""
    lines = [f"hnfc {version_of('hnfc')}, Python {platform.python_version()} on {platform.machine()} {platform.system()}"]
    needed = _needed()
    for package in needed:
        lines.append(f"  {package:20s} {version_of(package)}")
    lines.append("optional")
    for package, use in _PARTS.items():
        lines.append(f"  {package:20s} {version_of(package)}  ({use})")
    lines.append(f"  {'coqc':20s} {shutil.which('coqc') or 'not found'}  (checks certificates)")
    folder = cache_directory()
    kept = [entry for entry in folder.rglob("*") if entry.is_file()] if folder.is_dir() else []
    size = sum(entry.stat().st_size for entry in kept)
    state = "can be written" if os.access(_existing(folder), os.W_OK) else "cannot be written: nothing is kept"
    lines.append(f"cache: {folder}, {len(kept)} files, {size / 1e6:.1f} MB, {state}")
    missing = [package for package in needed if find_spec(_MODULES.get(package, package.replace("-", "_"))) is None]
    lines.append(f"missing: {', '.join(missing)}; pip install {' '.join(missing)}" if missing else "all that hnfc needs is there")
    show("\n".join(lines))
    return WRONG if missing else DONE


def version_of(package: str) -> str:
    """The version that is installed, or words."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _needed() -> list[str]:
    """The packages that hnfc cannot do without."""
    try:
        found = requires("hnfc") or []
    except PackageNotFoundError:
        return []
    return [text.split(";")[0].split("=")[0].split(">")[0].strip() for text in found if "extra ==" not in text]


def _existing(folder: os.PathLike[str]) -> str:
    """The folder, or the closest one above that exists."""
    path = os.path.abspath(folder)
    while not os.path.isdir(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return path
