"""`hnfc serve`: the local page, until Ctrl-C."""

from __future__ import annotations

import argparse
import json
import os
import sys

from hnfc.cli.terminal import DONE, say, show, write
from hnfc.core.errors import UsageError
from hnfc.serving.running import RequestLimits
from hnfc.serving.server import LocalServer


def run(options: argparse.Namespace) -> int:
    """Serves; the exit code."""
    if not 0 <= options.port <= 65535:
        raise UsageError(f"--port takes a number from 0 to 65535, not {options.port}")
    if not 0 < options.seconds < float("inf") or not 0.5 <= options.memory < float("inf"):
        raise UsageError("--seconds takes a number above 0, and --memory one from 0.5")
    try:
        server = LocalServer(options.port, RequestLimits(options.seconds, int(options.memory * 2**30)))
    except OSError as error:
        raise UsageError(f"port {options.port} cannot be had ({error.strerror}); leave --port out for a free one") from None
    with server:
        show(server.address)
        sys.stdout.flush()
        if options.json:
            about = {"address": server.address, "seconds": options.seconds, "memory_gib": options.memory, "process": os.getpid()}
            write(options.json, (json.dumps(about, indent=1) + "\n").encode())
        say("open this address in a browser; Ctrl-C ends the server")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("ended")
    return DONE
