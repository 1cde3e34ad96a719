"""Certified bounds of FPBench's straight-line programs, beside those of FPTaylor where a table of them is given.

    python benchmarks/bounds.py FOLDER [--against TABLE.tsv] [--seconds S]

FOLDER holds FPBench's .fpcore files. TABLE has lines `FILE__NN_name`, FPTaylor's bound, what it estimates to be attained, its seconds:
NN is the place of the program in its file. Ratios are hnfc's over FPTaylor's: below 1 hnfc's are tighter, or quicker.
"""

from __future__ import annotations

import argparse
import math
import statistics
from pathlib import Path

from hnfc.analysis.branch_and_bound import BoundLimits
from hnfc.analysis.programs import bound_program
from hnfc.analysis.taylor import NotAnalyzed
from hnfc.frontend.fpcore import FPCoreProgram, all_programs


def rivals(path: str) -> dict[str, tuple[float, float]]:
    """Bound and seconds by the name of the file and the place in it."""
    found = {}
    for line in Path(path).read_text().splitlines():
        cells = line.split("\t")
        if len(cells) == 4 and "__" in cells[0]:
            file, rest = cells[0].split("__", 1)
            found[f"{file}__{int(rest[:2]):02d}"] = float(cells[1]), float(cells[3])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder")
    parser.add_argument("--against", metavar="TABLE.tsv")
    parser.add_argument("--seconds", type=float, default=2.0, help="the longest search for one program")
    options = parser.parse_args()
    known = rivals(options.against) if options.against else {}
    ratios, times, count = [], [], 0
    print(f"{'program':48} {'bound':>11} {'attained':>11} {'seconds':>8}" + (f" {'ratio':>7} {'time':>7}" if known else ""))
    for path in sorted(Path(options.folder).glob("*.fpcore")):
        for place, program in enumerate(all_programs(path.read_text(encoding="utf-8"), str(path))):
            key = f"{path.stem}__{place:02d}"
            if not isinstance(program, FPCoreProgram) or (known and key not in known):
                continue
            try:
                found = bound_program(program, BoundLimits(seconds=options.seconds)).maximum
            except NotAnalyzed:
                continue
            count += 1
            line = f"{key + ' ' + program.name:48} {found.bound:11.4g} {found.attained:11.4g} {found.seconds:8.2f}"
            if key in known:
                bound, seconds = known[key]
                ratios.append(found.bound / bound)
                times.append((found.seconds, seconds))
                line += f" {ratios[-1]:7.3f} {found.seconds / seconds:7.3f}"
            print(line, flush=True)
    print(f"{count} programs")
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        own, other = (sum(column) for column in zip(*times, strict=True))
        print(
            f"bounds: geometric mean {mean:.3f} of FPTaylor's, worst {max(ratios):.3f}; time: {own:.1f} s, {own / other:.3f} of FPTaylor's"
        )


if __name__ == "__main__":
    main()
