"""Options of `hnfc analyze`."""

from __future__ import annotations

import argparse

from hnfc.cli.jobs_options import add_jobs
from hnfc.cli.parsing import CommandParser
from hnfc.cli.report_options import add_report

EXAMPLE = """examples:
  hnfc analyze examples/naive_attention.mlir --range -2:2            bounds that hold for every input in the range
  hnfc analyze model.mlir --calibrate samples.npz                    bounds that hold for these inputs
  hnfc analyze model.mlir --calibrate samples.npz --bound estimate   what to expect on inputs like these (needs torch)
  hnfc analyze model.mlir --calibrate samples.npz --bound probabilistic --probability 0.999
  hnfc analyze program.fpcore                                        FPCore programs: the largest error that is possible"""


def parser(command: str) -> argparse.ArgumentParser:
    made = CommandParser(
        "analyze", examples=EXAMPLE,
        description="Says of every value of a model where it lies, how large its error can be, what its operation adds and how much it\n"
        "makes errors grow. Bounds are certified unless --bound says otherwise: no input in the range (or of the samples)\n"
        "has a larger error.",
    )  # fmt: skip
    made.add_argument("model", metavar="MODEL",
                        help="a file as `hnfc MODEL` takes it, or one of FPCore programs (.fpcore); - is stdin; or a\n"
                        "folder of safetensors with config.json, which is read layer by layer")  # fmt: skip
    made.add_argument("--range", dest="ranges", action="append", default=[], metavar="arg0=LO:HI",
                        help="all values of an input lie there (LO:HI alone: of every input)")  # fmt: skip
    made.add_argument("--calibrate", metavar="F.npz",
                      help="samples of the inputs: arrays arg0, arg1, …; or the folder of a step\nthat hnfc.watch saved")  # fmt: skip
    made.add_argument("--bound", choices=("certified", "probabilistic", "estimate"),
                      help="level of the numbers: bounds that always hold (default), that hold with a probability if roundings are\n"
                      "independent and unbiased, or sensitivities by one backward pass; the last two need samples")  # fmt: skip
    made.add_argument("--probability", type=float, metavar="P", help="with --bound probabilistic: the probability (default 0.99)")
    made.add_argument("--estimate", action="store_true", help="the same as --bound estimate")
    made.add_argument("--work", metavar="DIR", help="a model in a folder: where a run that was ended goes on; deleted at its end")
    made.add_argument("--top", type=int, default=12, metavar="N", help="how many values to show, the worst first (default 12)")
    made.add_argument("--seconds", type=float, default=10.0, metavar="S", help="the longest search for one FPCore program (default 10)")
    made.add_argument("--weights", action="store_true",
                        help="spectral norms and condition numbers of the weight matrices too, the worst conditioned first")  # fmt: skip
    made.add_argument("--per", default="tensor", metavar="WHAT",
                        help="tensor (default), element, or the number of an axis: which bounds --json has besides")  # fmt: skip
    made.add_argument("--json", metavar="OUT.json", help="write everything as JSON too")
    made.add_argument("--picture", metavar="OUT.svg", help="draw how the error grows from operation to operation")
    made.add_argument("--emit", choices=("num",), help="write the model in hnfc's own form, each operation with what is known of it")
    made.add_argument("-o", dest="output", metavar="OUT", help="write the model to this file instead of stdout")
    add_jobs(made)
    add_report(made)
    return made
