"""`hnfc trace`: the first operation of a model that goes wrong on a sample."""

from __future__ import annotations

import argparse
import json
from typing import Any

from hnfc.cli.folders import sample_from
from hnfc.cli.progress import Progress
from hnfc.cli.replay import maker
from hnfc.cli.terminal import DONE, finite, show, write
from hnfc.core.errors import UsageError, first_line
from hnfc.tracing import Event, trace


def run(options: argparse.Namespace) -> int:
    """Prints the trace; the exit code."""
    make, sample = maker(options.model), sample_from(options.calibrate)
    with Progress() as progress:
        progress("tracing …")
        try:
            found = trace(make(), sample, backward=options.backward)
        except TypeError as error:
            raise UsageError(f"the model does not take the sample: {first_line(error)}") from error
    show(str(found))
    if options.json:
        events = [_as_data(event) for event in found.events]
        data = {"kind": "trace", "text": str(found), "operations": found.operations, "events": events}
        write(options.json, (json.dumps(finite(data), indent=1) + "\n").encode())
    return DONE


def _as_data(event: Event) -> dict[str, Any]:
    names = ("kind", "operation", "module", "source", "reason", "backward", "elements", "error", "remedies")
    return {name: getattr(event, name) for name in names}
