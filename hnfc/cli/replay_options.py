"""Options of `hnfc replay`."""

from __future__ import annotations

import argparse

from hnfc.cli.parsing import CommandParser
from hnfc.cli.report_options import add_report

EXAMPLE = """examples:
  hnfc replay hnfc-watch/step-95                                        what the watch found
  hnfc replay hnfc-watch/step-95 --model train.py:make_model            the step again, traced, with remedies
  hnfc replay hnfc-watch/step-95 --model train.py:make_model --in float64
  hnfc replay hnfc-watch/step-95 --model train.py:make_model --until exp
  hnfc replay hnfc-watch/step-95 --model train.py:make_model --with guard --with rewrite
  hnfc replay hnfc-watch/step-95 --report run.html                      the run until then, as a page"""


def parser(command: str) -> argparse.ArgumentParser:
    made = CommandParser(
        "replay", examples=EXAMPLE,
        description="Makes a step again that `hnfc.watch` saved: the same inputs, parameters and random numbers.",
    )  # fmt: skip
    made.add_argument("folder", metavar="FOLDER", help="the folder of the step")
    made.add_argument("--model", metavar="FILE.py:NAME", help="a function without arguments that makes the model; the file is run")
    made.add_argument("--in", dest="dtype", choices=("float64", "float32", "bfloat16", "float16"),
                      help="run the step with everything in this type, and say what is finite")  # fmt: skip
    made.add_argument("--until", metavar="TEXT", help="run up to the first operation whose name has TEXT in it (exp, net.0,\n"
                      "policy.py:12), and say what it takes and gives")  # fmt: skip
    made.add_argument("--with", dest="remedies", action="append", metavar="REMEDY",
                      help="try a remedy on the step, and say what error it leaves: rewrite, guard (a clamp or an eps at the\n"
                      "operation that fails), eps=E (of modules), scale=S (of the loss), float64, float32,\n"
                      "bfloat16, float16; of the optimizer clip=C (of gradients), rate=F (a factor),\n"
                      "optimizer-eps=E, optimizer-float32; or all")  # fmt: skip
    made.add_argument("--json", metavar="OUT.json", help="write what is printed as JSON too")
    add_report(made)
    return made
