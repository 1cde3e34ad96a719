"""A release, built and checked: sdist and wheel in dist/, their contents, installs on each Python that is here, and the changelog.

`make release` runs it; nothing is published. The exit code is 1 where anything is not as a release must be.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
PYTHONS = ("3.11", "3.12", "3.13")
"""Versions that a release is for."""
MODEL = ROOT / "examples" / "naive_attention.mlir"
RULE = "rule log1p_fusion\n    log(1 + x) => log1p(x)\n"
USE_TORCH = """
import torch, hnfc

class Softmax(torch.nn.Module):
    def forward(self, x):
        return torch.exp(x) / torch.exp(x).sum(-1, keepdim=True)

x = torch.tensor([[200.0, 100.0, 0.0]])
better = hnfc.optimize(Softmax(), x)
assert not Softmax()(x).isfinite().all() and better(x).isfinite().all()
"""


class NotReady(Exception):
    """The reason why this is no release yet."""


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """The output of a program, which must end well and sees nothing of this checkout."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "HNFC", "VIRTUAL_ENV"))}
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-5:]
        raise NotReady(f"`{' '.join(map(str, command))}` ends with {done.returncode}:\n    " + "\n    ".join(last))
    return done.stdout


def changes(version: str) -> str:
    """The changelog's section of the version."""
    parts = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    sections = {part.partition("]")[0].lstrip("["): part.partition("\n") for part in parts}
    if sections.get("Unreleased", ("", "", ""))[2].strip():
        raise NotReady(f"CHANGELOG.md has entries under [Unreleased]: set the version in pyproject.toml, and move them to [{version}]")
    heading, _, text = sections.get(version, ("", "", ""))
    if not text.strip():
        raise NotReady(f"CHANGELOG.md has nothing under [{version}], the version in pyproject.toml")
    if not re.fullmatch(rf"\[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d", heading.strip()):
        raise NotReady(f"CHANGELOG.md: the heading of the version is no `## [{version}] - YYYY-MM-DD`")
    return text.strip()


def pythons() -> Iterator[tuple[str, Path | None]]:
    """Each version with a program of it on the path or of pyenv."""
    for version in PYTHONS:
        own = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python{version}"))
        found = own[-1] if own else shutil.which(f"python{version}")
        yield version, Path(found) if found else None


def built() -> tuple[Path, Path]:
    """The sdist, and the wheel that is made of it."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST)
    (sdist,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    return sdist, wheel


def installed(python: Path, wheel: Path, folder: Path) -> None:
    """Installs and uses the wheel without torch, then with it."""
    run(python, "-m", "venv", folder)
    own = folder / "bin" / "python"
    pip = (own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, wheel, cwd=folder)
    (folder / "own.hnf").write_text(RULE)
    hnfc = folder / "bin" / "hnfc"
    for arguments in (("--help",), ("doctor",), ("check", "own.hnf"), (MODEL, "-O", "stability", "--range", "-40:40", "-o", "out.mlir")):
        run(hnfc, *arguments, cwd=folder)
    if "softmax" not in (folder / "out.mlir").read_text():
        raise NotReady(f"{python}: the example was not rewritten")
    # pinned, so that pip does not look for a build for CUDA
    run(*pip, "torch==2.13.0", cwd=folder)
    run(*pip, f"{wheel}[torch]", cwd=folder)
    (folder / "use.py").write_text(USE_TORCH)
    run(own, "use.py", cwd=folder)


def signed(key: Path) -> Path:
    """Signature of the checksums of all files, by ssh-keygen and the private key in a file; it is checked at once."""
    sums, signature = DIST / "SHA256SUMS", DIST / "SHA256SUMS.sig"
    signature.unlink(missing_ok=True)
    run("ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", "file", sums)
    with sums.open("rb") as text:
        check = ["ssh-keygen", "-Y", "check-novalidate", "-n", "file", "-s", str(signature)]
        if subprocess.run(check, stdin=text, capture_output=True, check=False).returncode:
            raise NotReady("the signature of SHA256SUMS does not fit it")
    return signature


def main() -> int:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    faults, files = [], []

    def step(words: str, check: object) -> None:
        print(f"== {words}", flush=True)
        try:
            found = check() if callable(check) else None
            files.extend(found if isinstance(found, tuple) else ())
        except NotReady as reason:
            faults.append(str(reason))
            print(f"   {reason}", flush=True)

    step("building sdist and wheel", built)
    if not files:
        return 1
    wheel = files[1]
    step("twine check: names, versions and the description", lambda: run(sys.executable, "-m", "twine", "check", "--strict", *files))
    step("contents of the wheel", lambda: run(sys.executable, "-m", "check_wheel_contents", "--toplevel", "hnfc", wheel))
    missing = [python for python, program in pythons() if program is None]
    with tempfile.TemporaryDirectory() as folder:
        for python, program in pythons():
            if program is not None:
                use = lambda program=program, python=python: installed(program, wheel, Path(folder) / python)  # noqa: E731
                step(f"Python {python}: installing the wheel, without torch and with it", use)
    step(f"the changelog of {version}", lambda: (DIST / f"changes-{version}.md").write_text(changes(version) + "\n") and None)
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in sorted(DIST.iterdir()) if path.name != "SHA256SUMS"]
    (DIST / "SHA256SUMS").write_text("\n".join(sums) + "\n")
    key = os.environ.get("SIGN")
    if key:
        step("signing the checksums, those of the changelog among them", lambda: signed(Path(key).expanduser()) and None)
    print(f"== dist/ holds {', '.join(path.name for path in sorted(DIST.iterdir()))}")
    if missing:
        print(f"   not tried, because this machine has none: Python {', '.join(missing)}")
    if not key:
        print("   not signed: make release SIGN=KEY signs by ssh-keygen, with the private key in that file")
    print("== ready" if not faults else f"== not ready: {len(faults)} faults\n" + "\n".join(f"   {fault}" for fault in faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
