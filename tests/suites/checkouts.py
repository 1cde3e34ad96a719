"""Checkouts of other projects, given by path in the environment: tests that read one are skipped without it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pytest

STABLEHLO = "HNFC_STABLEHLO", "https://github.com/openxla/stablehlo"
TORCH_MLIR = "HNFC_TORCH_MLIR", "https://github.com/llvm/torch-mlir"


def checkout(project: tuple[str, str]) -> Path:
    """The folder of a checkout; skips the test where the environment names none."""
    variable, address = project
    given = os.environ.get(variable)
    if not given:
        pytest.skip(f"{variable} names no checkout: git clone --depth 1 {address} FOLDER, then {variable}=FOLDER")
    return Path(given)


def parsed_arguments(description: str | None) -> argparse.Namespace:
    """The command line of a suite that reads a checkout."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--checkout", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, help="take each n-th case")
    return parser.parse_args()
