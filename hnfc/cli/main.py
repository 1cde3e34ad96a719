"""The command line `hnfc`. IR goes to stdout, words to stderr; heavy imports wait until a command needs them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from hnfc.cli.terminal import INTERRUPTED, USAGE, WRONG, say
from hnfc.core.errors import ModelError, UsageError

_RULE_COMMANDS = ("check", "explain", "test", "fmt", "rules")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code: 0 done, 1 the input is wrong or a rule is refuted, 2 usage, 3 not proved."""
    given = _join_ranges(list(sys.argv[1:] if arguments is None else arguments))
    try:
        command = given[0] if given else ""
        if command in _RULE_COMMANDS:
            from hnfc.cli.rules import run
            from hnfc.dsl.depth import with_room

            return with_room(run, command, given[1:])
        if command == "run":
            from hnfc.cli.run import run as run_model

            return run_model(given[1:])
        if command == "analyze":
            from hnfc.cli.analyze import run as analyze

            return analyze(given[1:])
        if command == "precision":
            from hnfc.cli.precision import run as precision

            return precision(given[1:])
        from hnfc.cli.model import optimize

        if any(option.startswith("--rules") for option in given):
            from hnfc.dsl.depth import with_room

            # the user's rules may be nested deeply
            return with_room(optimize, given)
        return optimize(given)
    except KeyboardInterrupt:
        say("interrupted; nothing was written")
        return INTERRUPTED
    except BrokenPipeError:
        # whoever read our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return WRONG
    except UsageError as error:
        say(f"hnfc: {error}")
        return USAGE
    except ModelError as error:
        say(f"error: {error}")
        return WRONG
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        say(f"error: {place}{error.strerror or error}")
        return WRONG
    except MemoryError:
        say("error: not enough memory for this model")
        return WRONG


def _join_ranges(given: list[str]) -> list[str]:
    """`--range -40:40` as `--range=-40:40`: argparse would take the bound for an option."""
    joined: list[str] = []
    for argument in given:
        if joined and joined[-1] == "--range" and ":" in argument:
            joined[-1] = f"--range={argument}"
        else:
            joined.append(argument)
    return joined


if __name__ == "__main__":
    sys.exit(main())
