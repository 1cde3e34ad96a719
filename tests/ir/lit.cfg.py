"""lit's settings: the tools are modules of the Python that runs lit, so that no installed command is needed."""

import os
import sys
import tempfile
import tomllib
from pathlib import Path

import lit.formats

ROOT = Path(__file__).parents[2]
FOLDER = Path(tempfile.gettempdir()) / f"hnfc-lit-{os.getuid()}"
# the entry points of these sources, whatever version of hnfc is installed
METADATA = FOLDER / "metadata" / "hnfc-0.dist-info"
METADATA.mkdir(parents=True, exist_ok=True)
(METADATA / "METADATA").write_text("Name: hnfc\nVersion: 0\n")
points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["xdsl.universe"]
(METADATA / "entry_points.txt").write_text("\n".join(["[xdsl.universe]", *(f"{name} = {value}" for name, value in points.items())]))

config.name = "hnfc"  # type: ignore[name-defined]  # noqa: F821
config.test_format = lit.formats.ShTest(execute_external=False)  # type: ignore[name-defined]  # noqa: F821
config.suffixes = [".mlir"]  # type: ignore[name-defined]  # noqa: F821
config.test_exec_root = str(FOLDER)  # type: ignore[name-defined]  # noqa: F821
config.environment["PYTHONPATH"] = os.pathsep.join([str(METADATA.parent), str(ROOT)])  # type: ignore[name-defined]  # noqa: F821
config.environment["PYTHONWARNINGS"] = "ignore"  # type: ignore[name-defined]  # noqa: F821
config.environment["HOME"] = os.environ.get("HOME", "")  # type: ignore[name-defined]  # noqa: F821
config.substitutions += [  # type: ignore[name-defined]  # noqa: F821
    ("hnfc-opt", f"{sys.executable} -m hnfc.cli.opt"),
    ("xdsl-opt", f"{sys.executable} -m xdsl.tools.xdsl_opt"),
    ("filecheck", f"{sys.executable} -c 'from filecheck.main import main; main()'"),
]
