"""Faulty files of every kind: files that are right, changed at random, given to the command that reads them.

`python -m tests.suites.fuzz [--inputs 1000] [--seed 0] [KIND …]` prints each traceback, death and hang by seed and number, and the counts.
A child process takes many inputs; where one ends it, that one is named and the next child goes on behind it.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import io
import itertools
import os
import pickle
import random
import select
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch

from hnfc.cli.jobs_options import add_jobs
from hnfc.cli.main import main as hnfc
from hnfc.core.executors import executor_of, mapped
from tests.suites import forked

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "examples" / "naive_attention.mlir"
SECONDS = 10.0
_BATCH = 40
_REFUSALS = (1, 2, 3)
_NUMBERS = (b"0", b"-1", b"1e999", b"-0", b"nan", b"inf", b"9" * 400, b"4294967296", b"9223372036854775808", b"0x7FFFFFFF")
_PIECES = (
    b"(", b")", b"[", b"]", b"{", b"}", b"<", b"?", b"\x00", b"\xff\xfe", b"\x1b[31m", "é∞".encode(), b"\n", b",", b"=>", b"%", b"@", b'"',
)  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """A kind of file: its suffix, examples that are right, and the command for one ({} is the file)."""

    suffix: str
    seeds: tuple[bytes, ...]
    command: tuple[str, ...]


@cache
def kinds() -> dict[str, Kind]:
    """Every kind of file that a command reads; the commands that read them are loaded on the way, once for all children of a process."""
    torch.set_num_threads(1)  # a fork has none of torch's threads
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "arrays.npz").write_bytes(_arrays())
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            hnfc(["run", str(MODEL), "--inputs", str(Path(folder) / "arrays.npz")])
    emitted = {form: _emitted(form) for form in ("mlirbc", "stablehlo", "vhlo")}
    rules = tuple(path.read_bytes()[:3000] for path in sorted((ROOT / "rules").glob("*.hnf")))
    quiet = ("-q", "-O", "none", "--no-validate")
    return {
        "mlir": Kind(".mlir", (MODEL.read_bytes(), emitted["stablehlo"]), ("{}", *quiet)),
        "bytecode": Kind(".mlirbc", (emitted["mlirbc"], emitted["vhlo"]), ("{}", *quiet)),
        "onnx": Kind(".onnx", _onnx_models(), ("{}", *quiet)),
        "rules": Kind(".hnf", rules, ("fmt", "{}")),
        "judged": Kind(".hnf", (b"rule r\n    sqrt(x) * sqrt(x) => x\n    where x >= 0\n",), ("check", "{}", "--no-cache")),
        "programs": Kind(".fpcore", (b"(FPCore (x) :pre (< 0 x 1) (- (sqrt (+ x 1)) (sqrt x)))",), ("analyze", "{}")),
        "arrays": Kind(".npz", (_arrays(),), ("run", str(MODEL), "--inputs", "{}")),
    }


def _emitted(form: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.mlirbc"
        hnfc([str(MODEL), "-q", "--emit", form, "-o", str(path)])
        return path.read_bytes()


def _onnx_models() -> tuple[bytes, ...]:
    from onnx import TensorProto, helper, numpy_helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in "xy")
    weight = numpy_helper.from_array(np.eye(3, dtype=np.float32), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Softmax", ["h"], ["y"], axis=-1)]
    graph = helper.make_graph(nodes, "g", [x], [y], [weight])
    return (helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString(),)


def _arrays() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **{f"arg{place}": np.zeros((1, 2, 8, 16), np.float32) for place in range(3)})
    return stream.getvalue()


def changed(data: bytes, draw: random.Random) -> bytes:
    """The bytes with one to four changes: flipped, cut, doubled, moved, or with a number or a piece of syntax put in."""
    made = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        start = draw.randrange(len(made) + 1)
        end = min(len(made), start + draw.choice((1, 1, 2, 4, 16, 200)))
        match draw.randrange(7):
            case 0 if made:
                place = min(start, len(made) - 1)
                made[place] ^= 1 << draw.randrange(8)
            case 1:
                del made[start:end]
            case 2:
                del made[start:]
            case 3:
                made[start:start] = made[start:end] * draw.choice((1, 2, 50))
            case 4:
                made[start:end] = draw.choice(_NUMBERS)
            case 5:
                made[start:start] = draw.choice(_PIECES) * draw.choice((1, 1, 3, 500))
            case _:
                part, made[start:end] = made[start:end], b""
                place = draw.randrange(len(made) + 1)
                made[place:place] = part
    return bytes(made)


def inputs(kind: Kind, name: str, seed: int, numbers: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    for number in numbers:
        draw = random.Random(f"{name}/{seed}/{number}")
        yield number, changed(draw.choice(kind.seeds), draw)


def judged(kind: Kind, data: bytes, folder: Path) -> tuple[str, str]:
    """Outcome of one input: right is an exit code that `hnfc --help` lists, and no traceback."""
    path = folder / f"input{kind.suffix}"
    path.write_bytes(data)
    words = io.StringIO()
    try:
        with contextlib.redirect_stderr(words), contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")):
            code = hnfc([part.format(path) for part in kind.command])
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    if "Traceback" in words.getvalue():
        return forked.RAISED, "a traceback is printed"
    return forked.RIGHT if code == 0 else forked.REFUSED if code in _REFUSALS else forked.WRONG, f"exit code {code}"


def run(kind: Kind, name: str, seed: int, numbers: Sequence[int]) -> Iterator[tuple[int, str, str]]:
    """Number, outcome and detail of every input."""
    waiting = list(numbers)
    with tempfile.TemporaryDirectory() as folder:
        while waiting:
            reader, writer = os.pipe()
            pid = forked.fork()
            if pid == 0:
                os.close(reader)
                _child(kind, name, seed, waiting[:_BATCH], Path(folder), writer)
            os.close(writer)
            done = 0
            with os.fdopen(reader, "rb", buffering=0) as stream:
                for found in _answers(stream, pid):
                    yield found
                    done += 1
            status = os.waitpid(pid, 0)[1]
            if done < len(waiting[:_BATCH]):
                ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
                kind_of_end = forked.HUNG if ended == signal.SIGKILL else forked.DIED
                yield waiting[done], kind_of_end, signal.Signals(ended).name if ended else f"exit {status >> 8}"
                done += 1
            waiting = waiting[done:]


def _child(kind: Kind, name: str, seed: int, numbers: Sequence[int], folder: Path, writer: int) -> None:
    faulthandler.disable()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    for number, data in inputs(kind, name, seed, numbers):
        try:
            outcome = judged(kind, data, folder)
        except BaseException as error:
            outcome = forked.RAISED, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        packed = pickle.dumps((number, *outcome))
        os.write(writer, len(packed).to_bytes(4, "big") + packed)
    os._exit(0)


def _answers(stream: io.FileIO, pid: int) -> Iterator[tuple[int, str, str]]:
    """The child's answers; it is killed where one takes too long."""
    while True:
        head = _read(stream, 4, pid)
        if len(head) < 4:
            return
        yield pickle.loads(_read(stream, int.from_bytes(head, "big"), pid))


def _read(stream: io.FileIO, size: int, pid: int) -> bytes:
    found, limit = b"", time.monotonic() + SECONDS
    while len(found) < size:
        ready = select.select([stream], [], [], max(0.0, limit - time.monotonic()))[0]
        if not ready:
            os.kill(pid, signal.SIGKILL)
            return b""
        more = stream.read(size - len(found))
        if not more:
            return b""
        found += more
    return found


PART = 100
"""Inputs that are run as one piece of work."""


def part(name: str, seed: int, numbers: range) -> list[tuple[int, str, str]]:
    """Outcomes of some inputs of a kind."""
    return list(run(kinds()[name], name, seed, numbers))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*")
    parser.add_argument("--inputs", type=int, default=1000, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    add_jobs(parser)
    parser.add_argument("--keep", type=Path, help="a folder for the inputs that failed")
    options = parser.parse_args()
    for name, kind in kinds().items():
        if options.kinds and name not in options.kinds:
            continue
        counts: Counter[str] = Counter()
        parts = [range(first, min(first + PART, options.inputs)) for first in range(0, options.inputs, PART)]
        with executor_of(options.jobs, options.cluster) as executor:
            found = list(itertools.chain.from_iterable(mapped(executor, partial(part, name, options.seed), parts)))
        for number, outcome, detail in found:
            counts[outcome] += 1
            if outcome in forked.FAULTS:
                print(f"{outcome:8} {name} {options.seed}/{number}: {detail}", flush=True)
                if options.keep:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    (options.keep / f"{name}_{options.seed}_{number}{kind.suffix}").write_bytes(
                        next(data for _, data in inputs(kind, name, options.seed, [number]))
                    )
        print(name, dict(counts), flush=True)


if __name__ == "__main__":
    main()
