"""One request: the command line on what was sent, in a process with limits and a folder that is gone afterwards."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hnfc.pages.document import CodeBlock, Page, PageSection, rendered

MODELS = (".mlir", ".mlirbc", ".onnx")
TEXTS = (".hnf", ".fpcore")
_LARGEST_FILE = 256 << 20
"""Bytes of a file that the process may write."""


@dataclass(frozen=True)
class RequestLimits:
    """Limits of one request: seconds, and bytes of memory."""

    seconds: float = 60.0
    memory: int = 8 << 30


@dataclass(frozen=True)
class Sent:
    """A rule file, a file of FPCore programs, or a model. suffix: one of TEXTS and MODELS. level, bounds: options for models."""

    suffix: str
    content: bytes
    level: str = "stability"
    bounds: str = ""

    def command(self, file: str) -> list[str]:
        """The command line, without the program."""
        if self.suffix == ".hnf":
            return ["check", file, "--report", "report.html", "--no-cache"]
        if self.suffix == ".fpcore":
            return [file, "-O", "accuracy", "--report", "report.html", "-o", "better.fpcore", "--no-cache"]
        bounds = [f"--range={self.bounds}"] if self.bounds else []
        return [file, "-O", self.level, *bounds, "--report", "report.html", "-o", "better.mlir", "--no-cache"]


def report(sent: Sent, limits: RequestLimits) -> str:
    """The page of the report, or one that says why there is none. Nothing of it stays on disk."""
    file = f"sent{sent.suffix}"
    with tempfile.TemporaryDirectory(prefix="hnfc-serve-") as folder:
        (Path(folder) / file).write_bytes(sent.content)
        code, words = _run(sent.command(file), folder, limits)
        made = Path(folder) / "report.html"
        if made.is_file():
            return made.read_text(encoding="utf-8")
    return _without(words or f"The process ended with code {code} and said nothing.", sent.command(file))


def _run(arguments: Sequence[str], folder: str, limits: RequestLimits) -> tuple[int, str]:
    """Exit code, and the words on the error stream; those on a limit that was reached."""
    process = subprocess.Popen(
        [sys.executable, "-m", "hnfc.cli.main", *arguments], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, start_new_session=True, env=_environment(),
    )  # fmt: skip
    try:
        for kind, most in ((resource.RLIMIT_AS, limits.memory), (resource.RLIMIT_FSIZE, _LARGEST_FILE)):
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(process.pid, kind, (most, most))
        _, words = process.communicate(timeout=limits.seconds)
    except subprocess.TimeoutExpired:
        return 1, f"This took more than {limits.seconds:g} s, the limit of a request; --seconds sets another one."
    finally:
        _end(process)
    return process.returncode, words.decode(errors="replace")[-20_000:]


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the process and those that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def _environment() -> dict[str, str]:
    """The environment, with this package on the path wherever it was started from."""
    root = str(Path(__file__).resolve().parents[2])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))}


def _without(words: str, arguments: Sequence[str]) -> str:
    first = next((line for line in words.splitlines() if line.strip()), words)
    section = PageSection("words", "What the command said", "", [CodeBlock(words)])
    answers = [("What happened", [first]), ("What next", ["Mend what is named, and send it again."])]
    return rendered(Page("no report", "error", f"hnfc {' '.join(arguments)}", "There is no report.", "bad", answers, [section]))
