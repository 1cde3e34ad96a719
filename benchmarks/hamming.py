"""Bits of error of FPCore programs before and after `-O accuracy`, beside Herbie's where a table of them is given.

    python benchmarks/hamming.py FOLDER [--against TABLE.tsv] [--points N] [--seed S]

FOLDER holds .fpcore files, such as Herbie's Hamming problems (bench/hamming in its repository). TABLE is tab-separated and has the
headings `benchmark`, `bits_before`, `herbie2.3_bits`, and `seconds` behind it; Herbie is not run. Bits are measured on points that
neither the search nor its branches saw, outside of the time that is given.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import numpy as np

from hnfc.accuracy import ImprovementSettings, NotImproved, improve, rules_for_programs
from hnfc.accuracy.evaluation import TermEvaluator
from hnfc.accuracy.ordinals import bits_of_error
from hnfc.accuracy.points import draw
from hnfc.frontend.fpcore import FPCoreProgram, all_programs


def rivals(path: str) -> dict[str, tuple[float, float, float]]:
    """Bits before and after, and seconds, by the name of the program."""
    lines = [line.split("\t") for line in Path(path).read_text().splitlines() if line and not line.startswith("#")]
    headings, rows = lines[0], lines[1:]
    after = headings.index("herbie2.3_bits")
    seconds = headings.index("seconds", after)
    return {row[0]: (float(row[headings.index("bits_before")]), float(row[after]), float(row[seconds])) for row in rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder")
    parser.add_argument("--against", metavar="TABLE.tsv")
    parser.add_argument("--points", type=int, default=8000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    known = rivals(options.against) if options.against else {}
    began = time.perf_counter()
    rules = rules_for_programs()
    print(f"{len(rules)} proved rules, read in {time.perf_counter() - began:.2f} s; {options.points} points, seed {options.seed}")
    print(f"{'program':44} {'before':>7} {'after':>7} {'seconds':>8} {'branches':>8}" + (f" {'Herbie':>7} {'seconds':>8}" if known else ""))
    rows: list[tuple[float, ...]] = []
    for path in sorted(Path(options.folder).glob("*.fpcore")):
        for program in all_programs(path.read_text(encoding="utf-8"), path.name):
            if not isinstance(program, FPCoreProgram):
                print(program)
                continue
            try:
                found = improve(program, rules, ImprovementSettings(seed=options.seed))
            except NotImproved as reason:
                print(f"{program.name}: {reason}")
                continue
            sample = draw(found.original, found.domain, options.points, np.random.default_rng(options.seed + 99_991))
            evaluator = TermEvaluator(sample.inputs)
            before, after = (float(bits_of_error(evaluator.values(t), sample.exact).mean()) for t in (found.original, found.term))
            row = [before, after, found.seconds]
            line = f"{program.name:44} {before:7.2f} {after:7.2f} {found.seconds:8.3f} {len(found.branches):8}"
            if program.name in known:
                _, theirs, seconds = known[program.name]
                row += [theirs, seconds]
                line += f" {theirs:7.2f} {seconds:8.1f}"
            rows.append(tuple(row))
            print(line, flush=True)
    if rows:
        means = [statistics.fmean(column) for column in zip(*rows, strict=False)]
        line = f"{'mean':44} {means[0]:7.2f} {means[1]:7.2f} {means[2]:8.3f} {'':8}"
        print(line + (f" {means[3]:7.2f} {means[4]:8.1f}" if len(means) > 3 else ""))


if __name__ == "__main__":
    main()
