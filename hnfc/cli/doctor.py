"""`hnfc doctor`: versions of hnfc and of what it uses, optional parts, and the cache."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from typing import Any

from hnfc.cli.terminal import DONE, WRONG, show, write
from hnfc.dsl.store import cache_directory
from hnfc.report.table import filled

_MODULES = {"iree-base-compiler": "iree.compiler", "iree-base-runtime": "iree.runtime", "torch-mlir": "torch_mlir", "z3-solver": "z3",
            "python-flint": "flint"}  # fmt: skip
"""Modules whose names are not those of their packages."""
_PARTS = {
    "torch": "hnfc.optimize, trace, watch, precision, and `hnfc run`", "safetensors": "weights in files, saved steps",
    "onnx": ".onnx files", "onnxscript": "`--emit onnx`",
    "jax": "functions of JAX", "pygls": "`hnfc lsp`", "vl-convert-python": "plots in reports",
    "egglog": "`hnfc discover`", "distributed": "`--cluster`", "iree-base-compiler": "`--emit iree`, `hnfc run --on iree`",
    "iree-base-runtime": "`hnfc run --on iree`", "cvc5": "a second solver in the tests",
    "tensorboard": "hnfc.watch for TensorBoard", "torchao": "settings of torchao", "gguf": "GGUF files",
    "compressed-tensors": "checkpoints of vLLM",
}  # fmt: skip
"""Optional packages, and what needs them."""
_ABSENT = "not installed"


def run(options: argparse.Namespace) -> int:
    """Prints what is there and what is missing; the exit code says whether all that hnfc needs is there."""
    found = _found()
    if options.json:
        write(options.json, (json.dumps(found, indent=1) + "\n").encode())
    lines = [f"hnfc {found['hnfc']}, Python {found['python']} on {found['system']}"]
    lines += [f"  {package:20s} {number or _ABSENT}" for package, number in found["needed"].items()]
    lines.append("optional")
    lines += [f"  {package:20s} {number or _ABSENT}  ({_PARTS[package]})" for package, number in found["optional"].items()]
    lines.append(f"  {'coqc':20s} {found['coqc'] or 'not found'}  (checks certificates)")
    cache = found["cache"]
    state = "can be written" if cache["writable"] else "cannot be written: nothing is kept"
    lines.append(f"cache: {cache['folder']}, {cache['files']} files, {cache['bytes'] / 1e6:.1f} MB, {state}")
    missing = found["missing"]
    lines.append(f"missing: {', '.join(missing)}; pip install {' '.join(missing)}" if missing else "all that hnfc needs is there")
    show(filled("\n".join(lines)))
    return WRONG if missing else DONE


def _found() -> dict[str, Any]:
    """The facts, as JSON has them; None for a version that is not installed."""
    folder = cache_directory()
    kept = [entry for entry in folder.rglob("*") if entry.is_file()] if folder.is_dir() else []
    needed = _needed()
    return {
        "hnfc": version_of("hnfc"),
        "python": platform.python_version(),
        "system": f"{platform.machine()} {platform.system()}",
        "needed": {package: _version(package) for package in needed},
        "optional": {package: _version(package) for package in _PARTS},
        "coqc": shutil.which("coqc"),
        "cache": {
            "folder": str(folder),
            "files": len(kept),
            "bytes": sum(entry.stat().st_size for entry in kept),
            "writable": os.access(_existing(folder), os.W_OK),
        },
        "missing": [package for package in needed if find_spec(_MODULES.get(package, package.replace("-", "_"))) is None],
    }


def version_of(package: str) -> str:
    """The version that is installed, or words."""
    return _version(package) or _ABSENT


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


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
