"""`hnfc trace`: the first operation of a model that goes wrong on a sample."""

from __future__ import annotations

import argparse
import json

from hnfc.cli.folders import sample_from
from hnfc.cli.progress import Progress
from hnfc.cli.replay import maker
from hnfc.cli.terminal import DONE, show, write
from hnfc.core.errors import UsageError
from hnfc.tracing import trace


def run(options: argparse.Namespace) -> int:
    """Prints the trace; the exit code."""
    make, sample = maker(options.model), sample_from(options.calibrate)
    with Progress() as progress:
        progress("tracing …")
        try:
            found = trace(make(), sample, backward=options.backward)
        except TypeError as error:
            raise UsageError(f"the model does not take the sample: {str(error).splitlines()[0]}") from error
    show(str(found))
    if options.json:
        write(options.json, (json.dumps({"kind": "trace", "text": str(found)}, indent=1) + "\n").encode())
    return DONE
