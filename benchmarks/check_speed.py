"""Seconds that `hnfc check` takes: the library cold, one changed rule, all of it cached; and a computer algebra system on the same rules.

    python benchmarks/check_speed.py

The peer is SymPy: `simplify(left - right)` on the rules that are made of pointwise functions it has, at most 10 s each. It
knows nothing of where a side is defined, of shapes and of sums, so it answers a smaller question.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import sympy

from hnfc.dsl import core
from hnfc.dsl.rulebook import shipped
from hnfc.dsl.soundness import prove

ROOT = Path(__file__).parent.parent
PEER_SECONDS = 10

FUNCTIONS: dict[str, Any] = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": lambda x, y: x / y, "neg": lambda x: -x,
    "square": lambda x: x**2, "pow": lambda x, y: x**y, "exp": sympy.exp, "log": sympy.log, "sqrt": sympy.sqrt, "abs": sympy.Abs,
    "rsqrt": lambda x: 1 / sympy.sqrt(x), "reciprocal": lambda x: 1 / x, "tanh": sympy.tanh, "sin": sympy.sin, "cos": sympy.cos,
    "log1p": lambda x: sympy.log(1 + x), "expm1": lambda x: sympy.exp(x) - 1, "sigmoid": lambda x: 1 / (1 + sympy.exp(-x)),
    "silu": lambda x: x / (1 + sympy.exp(-x)), "softplus": lambda x: sympy.log(1 + sympy.exp(x)), "maximum": sympy.Max,
    "minimum": sympy.Min, "relu": lambda x: sympy.Max(x, 0), "hypot": lambda x, y: sympy.sqrt(x**2 + y**2), "erf": sympy.erf,
    "sinh": sympy.sinh, "cosh": sympy.cosh, "asinh": sympy.asinh, "acosh": sympy.acosh, "atanh": sympy.atanh, "tan": sympy.tan,
    "log_sigmoid": lambda x: sympy.log(1 / (1 + sympy.exp(-x))), "logaddexp": lambda x, y: sympy.log(sympy.exp(x) + sympy.exp(y)),
}  # fmt: skip


class Foreign(Exception):
    """The peer has no such operation."""


def translated(node: core.Expr) -> Any:
    match node:
        case core.Capture(name):
            return sympy.Symbol(name, real=True)
        case core.Literal(value) if value == value and abs(value) != float("inf"):
            return sympy.nsimplify(value) if isinstance(value, float) else sympy.Rational(value.numerator, value.denominator)
        case core.Apply(attributes=()) if node.name in FUNCTIONS:
            return FUNCTIONS[node.name](*map(translated, node.operands))
    raise Foreign


def _simplifies(sides: tuple[Any, Any], pipe: Any) -> None:
    pipe.send(bool(sympy.simplify(sides[0] - sides[1]) == 0))


def peer(rules: Iterable[core.Rule]) -> list[tuple[core.Rule, bool | None, float]]:
    """Each rule that the peer can read, what it answers (None: out of time), and its seconds."""
    found = []
    context = multiprocessing.get_context("fork")
    for rule in rules:
        try:
            sides = translated(rule.pattern), translated(rule.replacement)
        except Foreign:
            continue
        here, there = context.Pipe()
        start = time.perf_counter()
        process = context.Process(target=_simplifies, args=(sides, there))
        process.start()
        answer = here.recv() if here.poll(PEER_SECONDS) else None
        process.kill()
        process.join()
        found.append((rule, answer, time.perf_counter() - start))
    return found


def run(cache: str, *arguments: str) -> float:
    """Seconds of one `hnfc check`, start-up included."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HNFC_CACHE_DIR": cache, "PYTHONWARNINGS": "ignore"}
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "hnfc.cli.main", "check", *arguments], env=environment, check=False, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    files = sorted(map(str, (ROOT / "rules").glob("*.hnf")))
    rules = shipped().rules
    print(f"{len(rules)} rules, {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory() as cache:
        print(f"library cold, over the reals       {run(cache, '--no-ieee', '--no-cache', *files):6.1f} s")
        print(f"library cold, with all formats     {run(cache, '--no-cache', *files):6.1f} s")
        run(cache, *files)
        print(f"library cached                     {run(cache, *files):6.1f} s")
        print(f"the same, each rule looked up      {run(cache, '--json', str(Path(cache) / 'out.json'), *files):6.1f} s")
        one = Path(cache) / "one.hnf"
        one.write_text('library one "one"\nrule one log(1 + exp(x)) => max(x, 0) + log1p(exp(-abs(x)))\n', encoding="utf-8")
        print(f"one changed rule, with start-up    {run(cache, '--no-cache', str(one)):6.1f} s")
        print(f"the same over the reals only       {run(cache, '--no-cache', '--no-ieee', str(one)):6.1f} s")
    answers = peer(rules)
    start = time.perf_counter()
    proved = sum(prove(rule).proved for rule, _, _ in answers)
    own = time.perf_counter() - start
    theirs = sum(seconds for _, _, seconds in answers)
    shown = sum(answer is True for _, answer, _ in answers)
    print(f"{len(answers)} pointwise rules: hnfc proves {proved} in {own:.1f} s")
    print(f"   SymPy simplifies {shown} of them to 0 in {theirs:.1f} s, {theirs / own:.1f} times as long")


if __name__ == "__main__":
    main()
