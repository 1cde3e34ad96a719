"""Options of `hnfc precision`."""

from __future__ import annotations

import argparse

from hnfc.cli.parsing import CommandParser
from hnfc.cli.report_options import add_report

EXAMPLE = """examples:
  hnfc precision model.mlir --calibrate samples.npz --target-accuracy 1e-3
  hnfc precision model.mlir --calibrate samples.npz --formats bf16,fp32 --pin '*norm*=fp32' --emit torch -o mixed.mlir
  hnfc precision model.mlir --calibrate samples.npz --policy p=f32,c=bf16,o=f32 --picture why.svg"""


def parser(command: str) -> argparse.ArgumentParser:
    made = CommandParser(
        "precision", examples=EXAMPLE,
        description="Gives every value of a model the cheapest number format with which the error of the outputs stays below a target, as\n"
        "estimated from samples; or says which values make that impossible, and what would help. Needs torch.",
    )  # fmt: skip
    made.add_argument("model", metavar="MODEL",
                        help="a file as `hnfc MODEL` takes it; - is stdin; or a folder of safetensors with\n"
                        "config.json, whose weights get formats layer by layer and are written to the folder OUT")  # fmt: skip
    made.add_argument("--calibrate", metavar="F.npz", required=True,
                      help="samples of the inputs: arrays arg0, arg1, …; or the folder of a step\nthat hnfc.watch saved")  # fmt: skip
    made.add_argument("--target-accuracy", dest="target", action="append", default=[], metavar="[OUTPUT=]E",
                        help="the error of all outputs together, relative to their root mean square (default 1e-3); or of one output\n"
                        "relative to its own, once for each: 0=1e-3, or with a pattern of their names")  # fmt: skip
    made.add_argument("--absolute", action="store_true", help="the target is absolute")
    made.add_argument("--formats", default="bf16,fp16,fp32", metavar="A,B",
                        help="the formats to choose from (default bf16,fp16,fp32); int8, int4/group64 … are for weights")  # fmt: skip
    made.add_argument("--pin", action="append", default=[], metavar="PATTERN=FORMAT",
                        help="a format for the sites, modules or operations whose names match, as a shell matches them")  # fmt: skip
    made.add_argument("--no-cast", action="append", default=[], metavar="A,B", help="one format for sites that match and feed each other")
    made.add_argument("--policy", metavar="P", help="formats by roles, as JMP spells them: p=f32,c=bf16,o=f32")
    made.add_argument("--memory-budget", default="inf", metavar="SIZE", help="bytes of all values together, or 24GB, 512MiB …")
    made.add_argument("--target", dest="machine", metavar="NAME",
                        help="the machine: cpu, a100, h100, tpu_v5e, tpu_v5p; formats that it does not run are not chosen")  # fmt: skip
    made.add_argument("--least", choices=("moved", "bytes", "parameters", "peak", "time"),
                        help="what is minimized: bytes that are moved, casts included (the default), bytes\n"
                        "of all values or of parameters (the default with formats of weights), those live at the worst\n"
                        "moment, which --memory-budget is of then, or time as it is modelled on --target")  # fmt: skip
    made.add_argument("--plain", action="store_true",
                        help="formats as they are: no scales where values are too large or small, no saturation of masks")  # fmt: skip
    made.add_argument("--headroom", type=float, default=2.0, metavar="H", help="values may become H times as large as in the samples (2)")
    made.add_argument("--margin", type=float, default=1.0, metavar="M",
                        help="errors on samples must be M times smaller than the target, for inputs with larger ones (1)")  # fmt: skip
    made.add_argument("--certified", action="store_true", help="the error is proved to be within the target too, not only estimated")
    made.add_argument("--width", type=float, default=0.0, metavar="W",
                        help="with --certified: for all inputs within W of each element of the samples (default 0)")  # fmt: skip
    made.add_argument("--all", action="store_true", help="list every site, not only those that differ from the most frequent format")
    made.add_argument("--json", metavar="OUT.json", help="write everything as JSON too")
    made.add_argument("--picture", metavar="OUT.svg", help="draw the sites that are wider than others, or what stands in the way")
    made.add_argument("--emit", choices=("torch",), help="write the model with its casts, in the torch dialect")
    made.add_argument("-o", dest="output", metavar="OUT", help="write the model to this file instead of stdout")
    add_report(made)
    return made
