"""Options of `hnfc MODEL`, and those of every command that rewrites a model."""

from __future__ import annotations

import argparse

from hnfc.cli.jobs_options import add_jobs
from hnfc.cli.parsing import CommandParser
from hnfc.cli.report_options import add_report
from hnfc.cli.terminal import show
from hnfc.validation.tolerance import TOLERANCE

EXAMPLE = """examples:
  hnfc examples/naive_attention.mlir -O stability --range -40:40 -o stable.mlir
  hnfc programs.fpcore -O accuracy -o better.fpcore

commands (`hnfc help COMMAND` explains one):
  models    run, analyze, precision, trace, replay
  rules     check, explain, test, fmt, rules, discover
  hnfc      lsp, serve, doctor, completion, help"""

_MODEL = (
    "a .mlir or .mlirbc file in the torch dialect or StableHLO (text, bytecode, what jax.export serializes), or an .onnx file; - is stdin. "
    "Or FPCore programs (.fpcore), with -O accuracy. Or a folder of safetensors with config.json, which is read layer by layer"
)
TOLERATED = TOLERANCE.replace(", or", ",\nor")
_FORMS = ("torch", "num", "linalg", "stablehlo", "mlirbc", "vhlo", "iree", "onnx", "c", "python")
CODE = ("c", "python")
"""Forms of FPCore programs."""


def parser(command: str) -> argparse.ArgumentParser:
    made = CommandParser(
        "", examples=EXAMPLE, usage="hnfc MODEL [options]\n       hnfc COMMAND [options] …",
        description="Rewrites a model so that it stays finite and accurate, and says why that is safe.\n"
        f"A rewrite is taken back unless each output has {TOLERATED}.",
    )  # fmt: skip
    made.add_argument("model", metavar="MODEL", help=_MODEL)
    add_rewriting(made, "stability")
    made.add_argument("--calibrate", metavar="F.npz",
                      help="samples of the inputs: arrays arg0, arg1, …; or the folder of a step\nthat hnfc.watch saved")  # fmt: skip
    made.add_argument("--work", metavar="DIR", help="a model in a folder: where a run that was ended goes on; deleted at its end")
    made.add_argument("-o", dest="output", metavar="OUT", help="write the model to this file instead of stdout")
    made.add_argument(
        "--emit", choices=_FORMS,
        help="the form of the output, by the suffix of OUT if not given: the torch dialect (default), hnfc's own, linalg or StableHLO as "
        "text; the torch dialect as bytecode (mlirbc), StableHLO as a portable artifact (vhlo), compiled by IREE for this processor "
        "(iree), or an ONNX model; FPCore programs as functions of C, or of Python with NumPy",
    )  # fmt: skip
    made.add_argument("--unproved", action="store_true",
                        help="FPCore: also series without a proved remainder, and rules whose condition failed at points")  # fmt: skip
    made.add_argument("--why-not", action="append", default=[], metavar="RULE",
                        help="say for the places that come closest to this rule what keeps it from running")  # fmt: skip
    add_jobs(made)
    made.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    return made


def add_rewriting(parser: argparse.ArgumentParser, level: str | None) -> None:
    """The options that say how a model is rewritten."""
    default, drawn = (f"{level} (default)", "; samples are drawn from it") if level else ("stability", "")
    parser.add_argument(
        "-O", dest="level", default=level, metavar="LEVEL",
        help=f"{default}, fusion, folding, reassociation, precision, compensated, accuracy (searches for better forms everywhere), "
        "all, none; or rule groups",
    )  # fmt: skip
    parser.add_argument("--rules", action="append", default=[], metavar="F.hnf", help="rules of your own, run with those of the level")
    parser.add_argument("--range", dest="ranges", action="append", default=[], metavar="arg0=LO:HI",
                        help=f"all values of an input lie there (LO:HI alone: of every input){drawn}")  # fmt: skip
    parser.add_argument(
        "--search", default="greedy", metavar="KIND",
        help="greedy (default): every rule that fits; egraph, beam, restarts: of all that rules can make, what costs least",
    )  # fmt: skip
    parser.add_argument("--cost", metavar="MIX", help="what a search minimises: error, bound, curvature, time, flops, or error+0.1*time "
                        "(default error+0.01*flops), each relative to what greedy found; error and bound need samples")  # fmt: skip
    parser.add_argument("--target", metavar="NAME", help="the machine: cpu, a100, h100, tpu_v5e, tpu_v5p, or one of a rule file; for the "
                        "cost time; rules that need a format which it lacks are off")  # fmt: skip
    parser.add_argument(
        "--deepening", type=float, default=0.0, metavar="G", help="operations at the outputs cost 1+G times as much (default 0)"
    )
    parser.add_argument("--seconds", type=float, metavar="S", help="the longest search (default 20)")
    parser.add_argument("--assume", action="append", default=[], metavar="RULE", help="you vouch for the `where` of this rule")
    parser.add_argument("--allow-unproved", action="append", default=[], metavar="RULE", help="let this rule run unproved, unless vacuous")
    parser.add_argument("--no-validate", action="store_true", help="do not run old and new on the samples")
    parser.add_argument("--json", metavar="OUT.json", help="write the report as JSON too")
    add_report(parser)


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from hnfc.cli.doctor import version_of

        show(f"hnfc {version_of('hnfc')}")
        parser.exit()
