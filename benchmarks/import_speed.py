"""Torch operations a second on the way in and out, and what a large weight file costs in memory.

    python benchmarks/import_speed.py [--operations 1500] [--megabytes 200]

The module is a row of transformer blocks as torch-mlir exports them. "Computing" operations are all but constants and lists,
which MLIR parses as operations of their own; rates are in computing operations.
"""

from __future__ import annotations

import argparse
import gc
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hnfc.backend.torch_mlir import emit_bytecode, export
from hnfc.core.verdicts import verdicts
from hnfc.dsl.rulebook import shipped
from hnfc.frontend.reading import new_context, read
from hnfc.frontend.torch_mlir import import_module
from hnfc.pipeline.compile import compile_module
from hnfc.pipeline.levels import phases
from hnfc.pipeline.request import Request
from hnfc.rewrite.canonicalization import canonicalize

X, S, R = "!torch.vtensor<[2,16,32],f32>", "!torch.vtensor<[2,16,16],f32>", "!torch.vtensor<[2,16,1],f32>"
T, W = "!torch.vtensor<[2,32,16],f32>", "!torch.vtensor<[32,32],f32>"
INT, FLOAT, LIST, BOOL, NONE = "!torch.int", "!torch.float", "!torch.list<int>", "!torch.bool", "!torch.none"
REPEATS = 5


class _Text:
    """A function under construction; constants are written before each use, as torch-mlir writes them."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = self.computing = 0

    def add(self, name: str, operands: list[tuple[str, str]], result: str, computes: bool = True) -> str:
        value = f"%v{self.count}"
        kinds = ", ".join(kind for _, kind in operands)
        left = f"({kinds})" if name == "prim.ListConstruct" else kinds
        self.lines.append(f"{value} = torch.{name} {', '.join(v for v, _ in operands)} : {left} -> {result}")
        self.count += 1
        self.computing += computes
        return value

    def constant(self, kind: str, text: str) -> tuple[str, str]:
        value = f"%v{self.count}"
        self.lines.append(f"{value} = torch.constant.{kind} {text}".rstrip())
        self.count += 1
        return value, f"!torch.{kind}"

    def ints(self, *numbers: int) -> tuple[str, str]:
        items = [self.constant("int", str(n)) for n in numbers]
        return self.add("prim.ListConstruct", items, LIST, computes=False), LIST


def _block(t: _Text, x: str, naive: bool) -> str:
    """Layer norm written out, attention, and a gated feed-forward part: about 28 operations."""

    def mean(value: str) -> str:
        return t.add("aten.mean.dim", [(value, X), t.ints(2), t.constant("bool", "true"), t.constant("none", "")], R)

    def sub(a: str, b: str, kind: str) -> str:
        return t.add("aten.sub.Tensor", [(a, X), (b, kind), t.constant("int", "1")], X)

    def add(a: str, b: str) -> str:
        return t.add("aten.add.Tensor", [(a, X), (b, X), t.constant("int", "1")], X)

    def product(a: str, b: str = "%w", kinds: tuple[str, str, str] = (X, W, X)) -> str:
        return t.add("aten.matmul", [(a, kinds[0]), (b, kinds[1])], kinds[2])

    centered = sub(x, mean(x), R)
    variance = mean(t.add("aten.mul.Tensor", [(centered, X), (centered, X)], X))
    shifted = t.add("aten.add.Scalar", [(variance, R), t.constant("float", "1.000000e-05"), t.constant("int", "1")], R)
    h = t.add("aten.mul.Tensor", [(centered, X), (t.add("aten.rsqrt", [(shifted, R)], R), R)], X)
    q, k, v = (add(product(h), "%b") for _ in range(3))
    turned = t.add("aten.transpose.int", [(k, X), t.constant("int", "1"), t.constant("int", "2")], T)
    scores = t.add("aten.div.Scalar", [(product(q, turned, (X, T, S)), S), t.constant("float", "8.000000e+00")], S)
    if naive:
        e = t.add("aten.exp", [(scores, S)], S)
        total = t.add("aten.sum.dim_IntList", [(e, S), t.ints(2), t.constant("bool", "true"), t.constant("none", "")], R)
        weights = t.add("aten.div.Tensor", [(e, S), (total, R)], S)
    else:
        weights = t.add("aten.softmax.int", [(scores, S), t.constant("int", "2"), t.constant("none", "")], S)
    x = add(x, product(product(weights, v, (S, X, X))))
    view = t.add("aten.view", [(product(x), X), t.ints(32, 32)], "!torch.vtensor<[32,32],f32>")
    back = t.add("aten.view", [(view, "!torch.vtensor<[32,32],f32>"), t.ints(2, 16, 32)], X)
    gate = t.add("aten.mul.Tensor", [(back, X), (t.add("aten.sigmoid", [(back, X)], X), X)], X)
    return add(x, product(t.add("aten.mul.Tensor", [(gate, X), (product(x), X)], X)))


def generate(computing: int) -> tuple[bytes, int, int]:
    """The text of a module, its computing operations, and all of them."""
    t, x, index = _Text(), "%x", 0
    while t.computing < computing:
        x = _block(t, x, naive=index % 4 == 0)
        index += 1
    body = "\n".join(t.lines)
    text = f"func.func @main(%x: {X}, %w: {W}, %b: {X}) -> {X} {{\n{body}\nreturn {x} : {X}\n}}\n"
    return text.encode(), t.computing, t.count


def best(action: Callable[[Any], Any], prepare: Callable[[], Any]) -> float:
    """The least seconds of several runs, each on something prepared anew."""
    found = []
    for _ in range(REPEATS):
        given = prepare()
        gc.collect()
        started = time.perf_counter()
        kept = action(given)
        found.append(time.perf_counter() - started)
        del kept
    return min(found)


def speeds(operations: int) -> None:
    text, computing, everything = generate(operations)
    book = shipped()
    rules = [book.only(names).rules for names in phases("fusion", set(book.groups()))]
    proved = verdicts([rule for phase in rules for rule in phase])
    request = Request([[rule for rule in phase if proved[rule.name].proved] for phase in rules])

    def rewritten() -> Any:
        return compile_module(read(text), request)

    rewrites = len(rewritten().applied)
    rows = [
        ("MLIR's own parse", best(lambda context: read(text, context), new_context)),
        ("import, beyond the parse", best(import_module, lambda: read(text))),
        ("canonical form", best(lambda i: [canonicalize(f.regions[0].block) for f in i.module.ops], lambda: import_module(read(text)))),
        ("export, nothing changed", best(lambda i: export(i, {}), lambda: import_module(read(text)))),
        (f"export, {rewrites} rewrites", best(lambda c: c.export(), rewritten)),
    ]
    print(f"{computing} computing operations, {everything} with constants and lists, {len(text) // 1024} KiB of text")
    print(f"{'':26} {'ms':>8} {'ops/s':>10}")
    for name, seconds in rows:
        print(f"{name:26} {1000 * seconds:8.1f} {computing / seconds:10.0f}")


# memory


def weight_file(path: Path, megabytes: int) -> None:
    """A bytecode file whose one weight takes so many megabytes."""
    import numpy as np
    from torch_mlir import ir

    context = new_context()
    rows = megabytes * 1024 * 1024 // (4 * 1024)
    kind = f"!torch.vtensor<[{rows},1024],f32>"
    text = f"""func.func @main(%x: !torch.vtensor<[4,{rows}],f32>) -> !torch.vtensor<[4,1024],f32> {{
      %w = torch.vtensor.literal(dense<0.0> : tensor<{rows}x1024xf32>) : {kind}
      %m = torch.aten.mm %x, %w : !torch.vtensor<[4,{rows}],f32>, {kind} -> !torch.vtensor<[4,1024],f32>
      %one = torch.constant.int 1
      %s = torch.aten.add.Scalar %m, %one, %one : !torch.vtensor<[4,1024],f32>, {INT}, {INT} -> !torch.vtensor<[4,1024],f32>
      %l = torch.aten.log %s : !torch.vtensor<[4,1024],f32> -> !torch.vtensor<[4,1024],f32>
      return %l : !torch.vtensor<[4,1024],f32> }}"""
    module = read(text.encode(), context)
    (function,) = module.body.operations
    literal = next(op for op in function.regions[0].blocks[0].operations if op.operation.name == "torch.vtensor.literal")
    data = np.random.default_rng(0).random((rows, 1024), np.float32)
    with context, ir.Location.unknown():
        shaped = ir.RankedTensorType.get(data.shape, ir.F32Type.get())
        literal.operation.attributes["value"] = ir.DenseResourceElementsAttr.get_from_buffer(data, "big", shaped)
    path.write_bytes(emit_bytecode(module))


def memory(path: str, what: str) -> None:
    """Prints the peak memory of this process, in MiB, after reading the file, and importing, rewriting and patching it."""
    module = read(path)
    if what == "compile":
        book = shipped()
        rules = book.only(phases("stability", set(book.groups()))[0]).rules
        compiled = compile_module(module, Request([rules]))
        compiled.export()
        assert compiled.applied
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)


def memories(megabytes: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sizes = {}
        for size in (1, megabytes):
            path = Path(folder) / f"{size}.mlirbc"
            weight_file(path, size)
            for what in ("read", "compile"):
                command = [sys.executable, __file__, "--peak", str(path), what]
                sizes[size, what] = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print(f"\npeak memory in MiB, by the size of the weights\n{'':26} {'1 MB':>8} {f'{megabytes} MB':>8} {'ratio to the file':>18}")
    for what, name in (("read", "MLIR's own parse"), ("compile", "compile and patch")):
        small, large = sizes[1, what], sizes[megabytes, what]
        print(f"{name:26} {small:8} {large:8} {(large - small) / megabytes:18.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", type=int, default=1500)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--peak", nargs=2, metavar=("FILE", "WHAT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        memory(*options.peak)
        return
    speeds(options.operations)
    memories(options.megabytes)


if __name__ == "__main__":
    main()
