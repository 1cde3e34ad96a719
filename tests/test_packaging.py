"""The wheel: built from what git holds, it carries its data, works from anywhere, and needs no torch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NEEDED = (
    "hnfc/dsl/hnf.lark", "hnfc/py.typed", "hnfc/cli/main.py", "hnfc/dsl/soundness/proof.py", "hnfc/dialects/num/base.py",
    "hnfc/pages/templates/page.html", "hnfc/pages/templates/graph.js", "hnfc/serving/templates/serve.html",
)  # fmt: skip
WORKING_TREE = ("--cached", "--others", "--exclude-standard")
HIDE_TORCH = "import sys\nsys.modules['torch'] = None\n"


def run(*command: str | Path, cwd: Path) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PIP_", "HNFC"))}
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def clean_copy(target: Path) -> None:
    """The files that git holds or would take, links as links."""
    for name in run("git", "ls-files", "-z", *WORKING_TREE, cwd=ROOT).split("\0"):
        source = ROOT / name
        if name and (source.exists() or source.is_symlink()):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name, follow_symlinks=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (ROOT / ".git").exists():
        pytest.skip("no git repository to copy from")
    copy, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("wheel")
    clean_copy(copy)
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index", "-w", out, copy, cwd=out)
    (built,) = out.glob("*.whl")
    return built


def test_the_wheel_holds_what_it_needs_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert not [name for name in NEEDED if name not in names]
    rules = {f"hnfc/rules/{path.name}" for path in (ROOT / "rules").iterdir() if path.suffix in (".hnf", ".json") and _in_git(path)}
    assert rules and rules <= set(names)
    assert any(name.endswith("/LICENSE") for name in names)
    assert {name.split("/")[0] for name in names} == {"hnfc", f"hnfc-{wheel.name.split('-')[1]}.dist-info"}
    assert not [name for name in names if "__pycache__" in name or "/tests/" in name]


def _in_git(path: Path) -> bool:
    return bool(run("git", "ls-files", *WORKING_TREE, path.relative_to(ROOT), cwd=ROOT))


def test_an_installed_wheel_works_from_elsewhere_without_torch(wheel: Path, tmp_path: Path) -> None:
    folder = tmp_path / "venv"
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    run(sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "-q", "--no-deps", "--no-index", wheel, cwd=tmp_path)
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (site / "hide_torch.py").write_text(HIDE_TORCH)
    (site / "hide_torch.pth").write_text("import hide_torch\n")
    python, hnfc = folder / "bin" / "python", folder / "bin" / "hnfc"
    where = run(python, "-c", "import hnfc; print(hnfc.__file__)", cwd=tmp_path)
    assert where.startswith(str(site))
    assert "usage: hnfc" in run(hnfc, "--help", cwd=tmp_path)
    assert "passes:" in run(folder / "bin" / "hnfc-opt", "--help", cwd=tmp_path)
    xdsl_opt = (python, "-m", "xdsl.tools.xdsl_opt")
    # argparse wraps names at their hyphens
    assert "erase-dead" in "".join(run(*xdsl_opt, "--help", cwd=tmp_path).split())
    assert "num.log1p" in run(*xdsl_opt, ROOT / "tests" / "ir" / "xdsl_opt.mlir", "-p", "rewrite{group=stability}", cwd=tmp_path)
    assert "proved" in run(hnfc, "rules", "softmax_fusion", cwd=tmp_path).lower()
    model = tmp_path / "model.mlir"
    shutil.copy(ROOT / "examples" / "naive_attention.mlir", model)
    assert "torch.aten.softmax.int" in run(hnfc, "model.mlir", "-q", cwd=tmp_path)
