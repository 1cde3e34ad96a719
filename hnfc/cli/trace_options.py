"""Options of `hnfc trace`."""

from __future__ import annotations

import argparse

from hnfc.cli.parsing import CommandParser

EXAMPLE = """examples:
  hnfc trace train.py:make_model --calibrate hnfc-watch/step-95 --backward   the batch of a step that hnfc.watch saved
  hnfc trace train.py:make_model --calibrate batch.npz"""


def parser(command: str) -> argparse.ArgumentParser:
    made = CommandParser(
        "trace", examples=EXAMPLE,
        description="Runs a model beside float64, and names the first operation that overflows, underflows, cancels or has no value.",
    )  # fmt: skip
    made.add_argument("model", metavar="FILE.py:NAME", help="a function without arguments that makes the model; the file is run")
    made.add_argument("--calibrate", metavar="SAMPLE", required=True,
                      help="arrays arg0, arg1, … in a .npz, or the folder of a step that hnfc.watch saved: its\n"
                      "batch alone; `hnfc replay` takes its parameters too")  # fmt: skip
    made.add_argument("--backward", action="store_true", help="the gradients too")
    made.add_argument("--json", metavar="OUT.json", help="write what is printed as JSON too")
    return made
