"""StableHLO's own test data: each file through `hnfc FILE -O all --emit stablehlo`, original and result run by XLA.

`python -m tests.suites.stablehlo_data --checkout FOLDER [PART OF A NAME …]` prints what is not right, and the counts. FOLDER is
a checkout of github.com/openxla/stablehlo; of it the folders stablehlo/testdata and stablehlo/tests/interpret are read.
A file with inputs of its own is tried twice: as it is, when all is constant, and with its inputs as arguments.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from hnfc.cli.main import main as hnfc
from hnfc.pipeline.rulesets import load_rules
from tests.suites import forked, xla
from tests.suites.checkouts import parsed_arguments

FOLDERS = ("stablehlo/testdata", "stablehlo/tests/interpret")
SPLIT = re.compile(r"^// -----.*$", re.MULTILINE)
_SIZES = (4, 6, 8)
"""Numbers for unknown sizes, tried until XLA takes the original."""
_LEFT_OUT = ("interpreter.", "check.expect_serialized_eq", "expected-error")
"""Programs of many devices and of the interpreter's own operations, and tests of errors."""
_KIND = r"tensor<[^\n{]*?>"
_PRETTY = re.compile(
    rf"^ *check\.(\w+) (%[\w#]+),\s*([^\n]*?(?:\n[^\n%]*?)*?)\s*: +({_KIND})(?:, tensor<[^\n{{]*>)?(?: *\{{.*\}})?$", re.MULTILINE
)
_GENERIC = re.compile(
    rf'^ *"check\.(\w+)"\((%[\w#]+)(?:, (%[\w#]+))?\) *(?:<\{{value = (dense<.*>) : tensor<.*)?: \(({_KIND})(?:, tensor<.*>)?\) -> \(\)$',
    re.MULTILINE,
)
_ULPS = 16
"""Units in the last place of the largest result that another order of roundings makes in a few operations."""


BATCH = 50
"""Cases of a child: XLA's client takes longer to begin than a file to run."""


def cases(checkout: Path, names: Sequence[str] = ()) -> Iterator[tuple[str, Any]]:
    """A case for every module of every file, and for the same with its inputs as arguments."""
    for folder in FOLDERS:
        for path in sorted((checkout / folder).rglob("*.mlir")):
            if names and not any(name in str(path) for name in names):
                continue
            for number, text in enumerate(modules(path.read_text())):
                name = f"{path.relative_to(checkout)}:{number}"
                yield name, partial(judged, text)
                if "call @inputs()" in text:
                    yield f"{name} with arguments", partial(judged, *lifted(text))


def modules(text: str) -> list[str]:
    """The modules of a file that hold StableHLO alone; checks by the dialect `check` become the calls that other files have."""
    return [with_calls(part) for part in SPLIT.split(text) if "stablehlo." in part and not any(word in part for word in _LEFT_OUT)]


def with_calls(text: str) -> str:
    """The module with calls for the operations that check values, each with what is expected, and its function called `main`."""
    numbers = itertools.count()

    def call(name: str, value: str, expected: str, kind: str) -> str:
        if not expected.startswith("dense"):
            other = expected.split(",")[0].strip()
            return f"stablehlo.custom_call @check.{name}({value}, {other}) {{has_side_effect = true}} : ({kind}, {kind}) -> ()"
        other = f"%expected{next(numbers)}"
        return f"{other} = stablehlo.constant {expected} : {kind}\n" + call(name, value, other, kind)

    text = _GENERIC.sub(lambda found: call(found[1], found[2], found[3] or found[4], found[5]), text)
    text = _PRETTY.sub(lambda found: call(found[1], found[2], found[3], found[4]), text)
    return text if "@main(" in text else re.sub(r"func\.func (public )?@\w+\(\)", "func.func @main()", text, count=1)


def lifted(text: str) -> tuple[str, str]:
    """The module with arguments for what its function @inputs makes, and the module that makes them."""
    call = re.search(r"^ *(%\w+)(?::\d+)? = call @inputs\(\) : \(\) -> (.*)$", text, re.MULTILINE)
    assert call is not None
    types = re.findall(r"tensor<(?:[^<>]|<[^<>]*>)*>", call[2])
    body = text[: call.start()] + text[call.end() :]
    for place in range(len(types)):
        body = re.sub(rf"{call[1]}#{place}\b", f"%given{place}", body)
    body = re.sub(rf"{call[1]}\b(?!#)", "%given0", body)
    arguments = ", ".join(f"%given{place}: {kind}" for place, kind in enumerate(types))
    program = body.replace("@main()", f"@main({arguments})")
    return program, text.replace("@main(", "@unused(").replace("func.func public @unused", "func.func private @unused").replace(
        "func.func private @inputs", "func.func public @main"
    ).replace("call @inputs", "call @main")  # fmt: skip


def judged(text: str, inputs: str = "") -> tuple[str, str]:
    """Outcome of a module: its results before and after on XLA; right too where XLA does not take the original."""
    jax.config.update("jax_enable_x64", True)
    code, result, words = rewritten(text)
    if code not in (0, 1, 2, 3) or "Traceback" in words:
        return forked.RAISED, f"exit code {code}: {words[-300:]}"
    if code:
        return forked.REFUSED, words
    given = xla.run(xla.prepared(inputs, 0)) if inputs else None
    reason = ""
    for size in _SIZES:
        try:
            program = xla.prepared(text, size)
            arrays = xla.drawn(program) if given is None else given
            wanted = xla.run(program, arrays)
        except xla.Refusal as error:
            reason = str(error)
            continue
        try:
            found = xla.run(xla.prepared(result, size), arrays)
        except xla.Refusal as error:
            return forked.WRONG, f"XLA takes the original only: {error}"
        fault = difference(found, wanted)
        return (forked.WRONG, fault) if fault and not _as_expected(found, program.own) else (forked.RIGHT, "")
    return forked.RIGHT, f"handed on; XLA does not take the original: {reason}"


def _as_expected(found: Sequence[np.ndarray[Any, Any]], own: int) -> bool:
    """Return whether every value that is checked is what is expected, and nothing else is returned: XLA then is wrong of the original."""
    return own == 0 and len(found) > 0 and not difference(found[::2], found[1::2])


def rewritten(text: str) -> tuple[int, str, str]:
    """The exit code of the command, what it wrote, and its words."""
    words = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "model.mlir", Path(folder) / "made.mlir"
        source.write_text(text)
        try:
            with contextlib.redirect_stderr(words), contextlib.redirect_stdout(words):
                code = hnfc([str(source), "-q", "-O", "all", "--emit", "stablehlo", "-o", str(target)])
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else 1
        said = " ".join(words.getvalue().replace(str(source), "model.mlir").split())
        return code, target.read_text() if target.exists() else "", said


def difference(found: Sequence[np.ndarray[Any, Any]], wanted: Sequence[np.ndarray[Any, Any]]) -> str:
    """Description of the first difference beyond roundings; empty where there is none."""
    if len(found) != len(wanted):
        return f"{len(found)} results instead of {len(wanted)}"
    for place, (one, other) in enumerate(zip(found, wanted, strict=True)):
        if (one.dtype, one.shape) != (other.dtype, other.shape):
            return f"result {place}: {one.dtype}{list(one.shape)} instead of {other.dtype}{list(other.shape)}"
        if not _is_close(one, other):
            apart = np.flatnonzero(~((one == other) | ((one != one) & (other != other))))[:3]
            return f"result {place}: {one.ravel()[apart].tolist()} instead of {other.ravel()[apart].tolist()} at {apart.tolist()}"
    return ""


def _is_close(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    if not jax.numpy.issubdtype(other.dtype, jax.numpy.inexact) or not other.size:
        return bool((one == other).all())
    wide = np.complex128 if other.dtype.kind == "c" else np.float64
    unit = float(jax.numpy.finfo(other.dtype).eps) * _ULPS
    left, right = one.astype(wide), other.astype(wide)
    finite = np.isfinite(right)
    largest = float(np.abs(right[finite]).max(initial=0.0))
    return bool(np.allclose(left, right, rtol=unit, atol=unit * largest, equal_nan=True))


def main() -> None:
    options = parsed_arguments(__doc__)
    load_rules("all")
    chosen = list(cases(options.checkout, options.names))[:: options.every]
    forked.show(forked.run(chosen, jobs=options.jobs, seconds=120, batch=BATCH))


if __name__ == "__main__":
    main()
