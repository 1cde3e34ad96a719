"""`hnfc-opt`: xDSL's driver with the num dialect, our passes, and a model file as its input."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import IO

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.universe import XDSL_UNIVERSE
from xdsl.utils.arg_spec import parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException, ParseError, VerifyException
from xdsl.xdsl_opt_main import xDSLOptMain

from hnfc.core.errors import ModelError
from hnfc.core.located_parser import LocatedParser, located
from hnfc.pipeline.context import PipelineContext
from hnfc.pipeline.universe import HNFC_UNIVERSE, load_pass

_EXAMPLE = """passes:
  import-torch          a file in the torch dialect → num
  canonicalize-movement canonical form of movement
  rewrite{group=NAME}   the proved rules of a level or group (default stability)
  saturate{group=NAME}  equality saturation, and the cheapest form
  cse-rewritten         drop what rewrites made twice
  erase-dead            drop what nothing uses
  export-torch          num → the torch dialect
and those of xDSL (canonicalize, cse, dce …).

example:
  hnfc-opt examples/naive_attention.mlir -p 'import-torch,canonicalize-movement,rewrite{group=stability},export-torch'"""
_IMPORT = "import-torch"
_WITH_MEMORY = (_IMPORT, "cse-rewritten", "export-torch")
"""Passes that need what others before them did, which tools of xDSL do not keep."""
_UNIVERSES = (XDSL_UNIVERSE, HNFC_UNIVERSE)


class OptDriver(xDSLOptMain):
    """xDSL's driver. Its passes hand on the torch module that was read, which `export-torch` patches, and the record of rewrites."""

    def register_all_dialects(self) -> None:
        self.ctx = self.pipeline_context = PipelineContext()
        loaded = set(self.ctx.registered_dialect_names)
        for universe in _UNIVERSES:
            for name, factory in universe.all_dialects.items():
                if name not in loaded:
                    self.ctx.register_dialect(name, factory)

    def register_all_frontends(self) -> None:
        for universe in _UNIVERSES:
            self.available_frontends |= universe.all_frontends

    def register_all_passes(self) -> None:
        for universe in _UNIVERSES:
            self.available_passes |= universe.all_passes
        self.available_passes |= {name: load_pass(name) for name in _WITH_MEMORY}

    def register_all_targets(self) -> None:
        for universe in _UNIVERSES:
            self.available_targets |= universe.all_targets

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        super().register_all_arguments(arg_parser)
        arg_parser.prog, arg_parser.epilog = "hnfc-opt", _EXAMPLE
        arg_parser.formatter_class = argparse.RawDescriptionHelpFormatter

    def setup_pipeline(self) -> None:
        passes = self.args.passes
        try:
            unknown = [spec.name for spec in parse_pipeline(passes) if spec.name not in self.available_passes] if passes.strip() else []
            if unknown:
                raise ModelError(f"there is no pass `{unknown[0]}`; hnfc-opt --help lists the passes")
            super().setup_pipeline()  # type: ignore[no-untyped-call]
        except (ArgSpecParseError, ValueError) as error:
            raise ModelError(f"cannot read the passes `{passes}`: {str(error).strip().splitlines()[-1]}") from None
        verify = self.pipeline.callback
        assert verify is not None

        def callback(previous: ModulePass | None, module: ModuleOp, following: ModulePass | None) -> None:
            try:
                verify(previous, module, following)
            except VerifyException as error:
                after = f"after {previous.name}: " if previous is not None else ""
                raise VerifyException(after + located(error, module)) from None

        self.pipeline = PassPipeline(self.pipeline.passes, callback)

    def _is_stdin(self) -> bool:
        return self.args.input_file in (None, "-")

    def get_input_name(self) -> str:
        return "<stdin>" if self._is_stdin() else str(self.args.input_file)

    def get_input_stream(self) -> tuple[IO[bytes], str]:
        """The file or stdin; a file of any extension, since its content shows its form."""
        if self._is_stdin():
            return sys.stdin.buffer, "mlir"
        return open(self.args.input_file, "rb"), "mlir"

    def parse_chunk(self, chunk: IO[bytes], file_extension: str, start_offset: int = 0) -> ModuleOp | None:
        if self.args.frontend:
            return super().parse_chunk(chunk, file_extension, start_offset)
        context = self.pipeline_context
        if self.pipeline.passes and self.pipeline.passes[0].name == _IMPORT:
            from hnfc.frontend.models import read_model

            name = self.get_input_name()
            whole = not self._is_stdin() and not self.args.split_input_file
            # the lines before a chunk are empty ones, so that errors have the lines of the file
            context.begin(read_model(name) if whole else read_model(b"\n" * start_offset + chunk.read(), name))
            return ModuleOp([])
        context.begin()
        parser = LocatedParser(context, chunk.read().decode(), self.get_input_name(), start_offset)
        return parser.parse_module(not self.args.no_implicit_module)

    def output_resulting_program(self, prog: ModuleOp) -> str:
        context = self.pipeline_context
        if context.exported is None:
            return super().output_resulting_program(prog).rstrip() + "\n"
        from hnfc.backend.torch_mlir import emit_torch

        return emit_torch(context.exported, context.imported is not None and context.imported.located)


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        driver = OptDriver("Runs passes over a module in the torch or the num dialect.", arguments)
        driver.run()  # type: ignore[no-untyped-call]
        return 0
    except (ModelError, ParseError, DiagnosticException) as error:
        print(f"error: {str(error).strip()}", file=sys.stderr)
    except UnicodeDecodeError:
        print("error: the file is no text; a model in binary form needs -p import-torch", file=sys.stderr)
    except OSError as error:
        print(f"error: {error.filename or 'stdout'}: {error.strerror or error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return 1


if __name__ == "__main__":
    sys.exit(main())
