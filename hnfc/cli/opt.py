"""`hnfc-opt`: runs named passes one after another and prints what comes out."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from hnfc.core.errors import ModelError

_EXAMPLE = """passes:
  import-torch          a file in the torch dialect → num
  lift                  canonical form of movement
  rewrite{group=NAME}   the proved rules of a level or group (default stability)
  erase-dead            drop what nothing uses
  export-torch          num → the torch dialect

example:
  hnfc-opt examples/naive_attention.mlir -p 'import-torch,lift,rewrite{group=stability},export-torch'"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="hnfc-opt", description="Runs passes over a module in the torch or the num dialect.", epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("model", nargs="?", default="-", metavar="MODEL", help="a file; - (the default) is stdin")
    parser.add_argument("-p", "--passes", default="", help="names of passes, joined by commas; {key=value} gives options")
    parser.add_argument("--print-between", action="store_true", help="print the module before each pass, to stderr")
    options = parser.parse_args(arguments)
    try:
        sys.stdout.write(run(options.model, options.passes, options.print_between))
        return 0
    except ModelError as error:
        print(f"error: {error}", file=sys.stderr)
    except OSError as error:
        print(f"error: {error.filename or options.model}: {error.strerror or error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return 1


def run(path: str, pipeline: str, print_between: bool = False) -> str:
    """The module as text after the passes. Raises ModelError for a bad file or pipeline."""
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.parser import Parser
    from xdsl.utils.arg_spec import parse_pipeline
    from xdsl.utils.exceptions import ArgSpecParseError, ParseError, VerifyException

    from hnfc.backend.torch_mlir import emit_torch
    from hnfc.frontend.models import read_model
    from hnfc.pipeline.passes import PASSES, ImportTorchPass, PipelineContext

    try:
        specs = list(parse_pipeline(pipeline)) if pipeline.strip() else []
        for spec in specs:
            if spec.name not in PASSES:
                raise ModelError(f"there is no pass `{spec.name}`; there are {', '.join(PASSES)}")
        passes = [PASSES[spec.name].from_pass_spec(spec) for spec in specs]
    except (ArgSpecParseError, ValueError) as error:
        raise ModelError(f"cannot read the passes `{pipeline}`: {str(error).strip().splitlines()[-1]}") from None
    text = sys.stdin.read() if path == "-" else None
    if passes and isinstance(passes[0], ImportTorchPass):
        road = PipelineContext(read_model(path if text is None else text.encode()))
        module = ModuleOp([])
    else:
        road = PipelineContext()
        source = Path(path).read_text(encoding="utf-8") if text is None else text
        try:
            parsed = Parser(road, source, path).parse_module()
            parsed.verify()
        except (ParseError, VerifyException) as error:
            message = str(error).strip()
            raise ModelError(message, None if message.startswith(path) else path) from None
        if not isinstance(parsed, ModuleOp):
            raise ModelError("the file holds no module", path)
        module = parsed
    for step in passes:
        if print_between:
            print(f"// before {step.name}\n{module}", file=sys.stderr)
        step.apply(road, module)
        try:
            module.verify()
        except VerifyException as error:
            raise ModelError(f"after {step.name}: {error}") from None
    if road.exported is None:
        return str(module).rstrip() + "\n"
    return emit_torch(road.exported, road.imported is not None and road.imported.located)


if __name__ == "__main__":
    sys.exit(main())
