"""lit's settings: the tools are modules of the Python that runs lit, so that no installed command is needed."""

import os
import sys
import tempfile
from pathlib import Path

import lit.formats

config.name = "hnfc"  # type: ignore[name-defined]  # noqa: F821
config.test_format = lit.formats.ShTest(execute_external=False)  # type: ignore[name-defined]  # noqa: F821
config.suffixes = [".mlir"]  # type: ignore[name-defined]  # noqa: F821
config.test_exec_root = tempfile.gettempdir() + "/hnfc-lit"  # type: ignore[name-defined]  # noqa: F821
config.environment["PYTHONPATH"] = str(Path(__file__).parents[2])  # type: ignore[name-defined]  # noqa: F821
config.environment["PYTHONWARNINGS"] = "ignore"  # type: ignore[name-defined]  # noqa: F821
config.environment["HOME"] = os.environ.get("HOME", "")  # type: ignore[name-defined]  # noqa: F821
config.substitutions += [  # type: ignore[name-defined]  # noqa: F821
    ("hnfc-opt", f"{sys.executable} -m hnfc.cli.opt"),
    ("filecheck", f"{sys.executable} -c 'from filecheck.main import main; main()'"),
]
