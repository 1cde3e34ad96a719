"""Options of `hnfc run`."""

from __future__ import annotations

import argparse

from hnfc.cli.model_options import TOLERATED, add_rewriting
from hnfc.cli.parsing import CommandParser

EXAMPLE = """examples:
  python -c "import numpy as np; np.savez('F.npz', *[np.full((1, 2, 8, 16), 8, 'f4')] * 3)"
  hnfc run examples/naive_attention.mlir --inputs F.npz                       what the model gives
  hnfc run examples/naive_attention.mlir --inputs F.npz -O stability          what it gives rewritten
  hnfc run examples/naive_attention.mlir --inputs F.npz --compare             both, with their errors
  hnfc run examples/naive_attention.mlir --inputs F.npz --on iree -o R.npz    results as arrays output0, output1, …"""


def parser(command: str) -> argparse.ArgumentParser:
    made = CommandParser(
        "run", examples=EXAMPLE,
        description="Runs a function of a model on arrays and says what comes out: types, the least and greatest finite value,\n"
        "how many values are not finite. Rules fire as with `hnfc MODEL --calibrate F.npz`: for inputs like these;\n"
        f"a rewrite is taken back unless each output has {TOLERATED}.",
    )  # fmt: skip
    made.add_argument("model", metavar="MODEL", help="a file as `hnfc MODEL` takes it; - is stdin")
    made.add_argument("--inputs", metavar="F.npz", help="arrays arg0, arg1, …, or by the names that the model has for its inputs")
    made.add_argument("--on", choices=("torch", "iree", "onnx"), default="torch", help="torch (default), IREE, or onnxruntime")
    made.add_argument("--function", metavar="NAME", help="the function, where a model has several")
    made.add_argument("--compare", action="store_true", help="run the model and its rewritten form, and show the errors of both")
    made.add_argument("-o", dest="output", metavar="OUT.npz", help="write the results to a file: output0, output1, …")
    add_rewriting(made, None)
    return made
