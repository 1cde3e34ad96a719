"""The command line in a process of its own, forked from one that has imported hnfc and torch: a call costs no imports."""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from subprocess import CompletedProcess

_FORKS = multiprocessing.get_context("forkserver")
_LOADED = ("torch", "hnfc.backend.opaque_on_torch", *(f"hnfc.cli.{name}" for name in ("model", "opt", "check", "explain")))
_FORKS.set_forkserver_preload([*_LOADED, "tests.loaded"])
SECONDS = 120


def hnfc(*arguments: object, module: str = "hnfc.cli.main", cwd: Path | None = None, input: str = "") -> CompletedProcess[str]:
    """The exit code and what `main` of the module writes on both streams. Raises TimeoutError after two minutes."""
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder) / name for name in ("stdin", "stdout", "stderr")]
        for stream, text in zip(streams, (input, "", ""), strict=True):
            stream.write_text(text, encoding="utf-8")
        texts = list(map(str, arguments))
        process = _FORKS.Process(target=_call, args=(module, texts, str(cwd or Path.cwd()), streams))
        process.start()
        process.join(SECONDS)
        if process.exitcode is None:
            process.kill()
            raise TimeoutError(f"hnfc {' '.join(texts)}")
        out, err = (stream.read_text(encoding="utf-8") for stream in streams[1:])
        return CompletedProcess(texts, process.exitcode, out, err)


def _call(module: str, arguments: list[str], folder: str, streams: list[Path]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(os.open(stream, os.O_RDWR), number)
    os.environ["COLUMNS"] = "120"
    os.chdir(folder)
    # the forked process has no standard input of its own
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.argv = ["hnfc", *arguments]
    sys.exit(import_module(module).main(arguments))
