"""Equality saturation beside its peers: hnfc's e-graph, egglog's, and xDSL's equivalence dialect, on one program with the same rules.

    python benchmarks/egraph_peers.py [--operations 300 1500] [--rounds 2]

The program is a chain of random scalar operations; the rules are those that all three can say: no axes, no sizes, no conditions.
Commutativity is built into hnfc's matcher and is a rule for the others. A peer that is not installed is left out.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

from xdsl.ir import Block, SSAValue

from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.types import tensor
from hnfc.dsl import core
from hnfc.dsl.rulebook import load_text, shipped
from hnfc.egraph import Limits, Program, Saturation, directions
from hnfc.report.table import table

sys.path.insert(0, str(Path(__file__).parent))
from egraph_peers_xdsl import xdsl_equivalence

RULES = {
    "add_associates": ("(a + b) + c", "a + (b + c)"),
    "mul_associates": ("(a * b) * c", "a * (b * c)"),
    "distributes": ("a * (b + c)", "a * b + a * c"),
    "exp_of_sum": ("exp(a + b)", "exp(a) * exp(b)"),
    "negatives": ("neg(a + b)", "neg(a) + neg(b)"),
}
_NO_LIMITS = {"nodes": 10**7, "matches": 10**7, "seconds": 600.0}
Random = list[tuple[str, tuple[int, ...]]]


def program(operations: int, inputs: int = 8, seed: int = 0) -> Random:
    """Names of operations and the places of their operands, the first `inputs` of which are inputs; near ones are likelier."""
    draw = random.Random(seed)
    found: Random = []
    for index in range(operations):
        name = draw.choice(("add", "add", "mul", "mul", "exp", "neg"))
        arity = 2 if name in ("add", "mul") else 1
        top = inputs + index
        found.append((name, tuple(max(top - 1 - int(draw.expovariate(0.1)), draw.randrange(inputs)) for _ in range(arity))))
    return found


def ours(listed: Random, inputs: int, rounds: int) -> tuple[int, float]:
    """Nodes and seconds."""
    block = Block(arg_types=[tensor("f64", ())] * inputs)
    values: list[SSAValue] = list(block.args)
    for name, operands in listed:
        operation = OPERATIONS[name].make(*(values[o] for o in operands))
        block.add_op(operation)
        values.append(operation.results[0])
    text = "\n".join(f"rule {name} {a} <=> {b} structural" for name, (a, b) in RULES.items())
    start = time.perf_counter()
    graph = Program.of(block).graph
    ways = [way for rule in load_text(text, "peers.hnf").rules for way in directions(rule, both=True)]
    Saturation(graph, ways, Limits(rounds=rounds, **_NO_LIMITS)).run()  # type: ignore[arg-type]
    return graph.nodes, time.perf_counter() - start


_OPERATORS = {"add": "Add", "mul": "Mul", "exp": "Exp", "neg": "Neg"}
_EGGLOG_RULES = [
    ("(Add (Add a b) c)", "(Add a (Add b c))"), ("(Mul (Mul a b) c)", "(Mul a (Mul b c))"),
    ("(Mul a (Add b c))", "(Add (Mul a b) (Mul a c))"), ("(Exp (Add a b))", "(Mul (Exp a) (Exp b))"),
    ("(Neg (Add a b))", "(Add (Neg a) (Neg b))"),
]  # fmt: skip


def egglog(listed: Random, inputs: int, rounds: int) -> tuple[int, float]:
    """Nodes and seconds."""
    from egglog import bindings

    lines = ["(datatype T (In i64) (Add T T) (Mul T T) (Exp T) (Neg T))", "(rewrite (Add a b) (Add b a))", "(rewrite (Mul a b) (Mul b a))"]
    lines += [f"(birewrite {a} {b})" for a, b in _EGGLOG_RULES]
    lines += [f"(let v{i} (In {i}))" for i in range(inputs)]
    for index, (name, operands) in enumerate(listed):
        lines.append(f"(let v{inputs + index} ({_OPERATORS[name]} {' '.join(f'v{o}' for o in operands)}))")
    lines.append(f"(run {rounds})")
    graph = bindings.EGraph()
    start = time.perf_counter()
    graph.run_program(*graph.parse_program("\n".join(lines)))
    seconds = time.perf_counter() - start
    sizes = graph.run_program(*graph.parse_program("(print-size)"))
    return sum(int(part) for part in "".join(c if c.isdigit() else " " for c in str(sizes)).split()), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--operations", type=int, nargs="+", default=[300, 1500])
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    peers: dict[str, Callable[[Random, int, int], tuple[int, float]]] = {"hnfc": ours, "xDSL": xdsl_equivalence, "egglog": egglog}
    rows = []
    for count in options.operations:
        listed = program(count)
        for name, run in peers.items():
            try:
                nodes, seconds = run(listed, 8, options.rounds)
            except ModuleNotFoundError:
                continue
            rows.append([str(count), name, str(nodes), f"{seconds:.2f}", f"{nodes / seconds:.0f}"])
    print(table(["operations", "e-graph", "nodes", "seconds", "nodes a second"], rows, 3))
    rules = shipped().only(("canonical", "stability", "cancellation", "fusion", "algebra", "reassociation")).rules
    plain = sum(is_plain(rule) for rule in rules)
    print(
        f"{plain} of the {len(rules)} rules of these groups have no axes, sizes, settings, types or conditions, which only hnfc's can say"
    )


def is_plain(rule: core.Rule) -> bool:
    """Whether a rule is about scalars: what an e-graph that knows nothing of tensors can say."""
    nodes = [*core.walk(rule.pattern), *core.walk(rule.replacement)]
    plain = all(isinstance(n, core.Capture | core.Literal) or (isinstance(n, core.Apply) and not n.attributes) for n in nodes)
    return plain and rule.where == core.TRUE and not any(isinstance(n, core.Capture) and (n.const or n.dtypes) for n in nodes)


if __name__ == "__main__":
    main()
