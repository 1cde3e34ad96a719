"""xDSL's equivalence dialect on the program and the rules of `egraph_peers`: PDL patterns, matched by its interpreter."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from typing import Any

import xdsl.transforms.apply_eqsat_pdl as eqsat
from xdsl.context import Context
from xdsl.dialects import arith, builtin, eqsat_pdl_interp, equivalence, func, math, pdl, pdl_interp
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.transforms.convert_pdl_to_pdl_interp.conversion import ConvertPDLToPDLInterpPass
from xdsl.transforms.eqsat_create_eclasses import EqsatCreateEclassesPass

_OPERATIONS = {"add": "arith.addf", "mul": "arith.mulf", "exp": "math.exp", "neg": "arith.negf"}
_DIALECTS = (
    builtin.Builtin, func.Func, pdl.PDL, pdl_interp.PDLInterp, equivalence.Equivalence, eqsat_pdl_interp.EqSatPDLInterp, math.Math,
    arith.Arith,
)  # fmt: skip
Term = Any
"""A name, or an operation's name and its operands."""
SIDES: list[tuple[Term, Term]] = [
    (("add", ("add", "a", "b"), "c"), ("add", "a", ("add", "b", "c"))), (("mul", ("mul", "a", "b"), "c"), ("mul", "a", ("mul", "b", "c"))),
    (("mul", "a", ("add", "b", "c")), ("add", ("mul", "a", "b"), ("mul", "a", "c"))),
    (("exp", ("add", "a", "b")), ("mul", ("exp", "a"), ("exp", "b"))), (("neg", ("add", "a", "b")), ("add", ("neg", "a"), ("neg", "b"))),
]  # fmt: skip


class _Converted:
    """In the place of a call of mlir-opt, which need not be there: xDSL has the conversion too."""

    def __init__(self, arguments: Sequence[str]) -> None:
        assert "--convert-pdl-to-pdl-interp" in arguments

    def apply(self, ctx: Context, op: builtin.ModuleOp) -> None:
        ConvertPDLToPDLInterpPass().apply(ctx, op)


def _written(term: Term, lines: list[str], count: list[int]) -> str:
    if isinstance(term, str):
        return f"%{term}"
    operands = [_written(part, lines, count) for part in term[1:]]
    count[0] += 1
    number, kinds = count[0], ", ".join("!pdl.value" for _ in operands)
    name = _OPERATIONS[term[0]]
    lines.append(f'%o{number} = pdl.operation "{name}" ({", ".join(operands)} : {kinds}) {{"fastmath" = %fm}} -> (%ty : !pdl.type)')
    lines.append(f"%r{number} = pdl.result 0 of %o{number}")
    return f"%r{number}"


def _names(term: Term) -> set[str]:
    return {term} if isinstance(term, str) else set().union(*map(_names, term[1:]))


def _pattern(number: int, left: Term, right: Term) -> str:
    count = [0]
    lines = [f"%{name} = pdl.operand" for name in sorted(_names(left))]
    lines += ["%ty = pdl.type : f64", "%fm = pdl.attribute = #arith.fastmath<none>"]
    _written(left, lines, count)
    root, body = count[0], list[str]()
    result = _written(right, body, count)
    rewrite = [f"pdl.rewrite %o{root} {{", *body, f"pdl.replace %o{root} with ({result} : !pdl.value)", "}"]
    return "\n".join([f"pdl.pattern @p{number} : benefit(1) {{", *lines, *rewrite, "}"])


def xdsl_equivalence(listed: list[tuple[str, tuple[int, ...]]], inputs: int, rounds: int) -> tuple[int, float]:
    """Nodes and seconds."""
    vars(eqsat)["MLIROptPass"] = _Converted
    context = Context()
    for dialect in _DIALECTS:
        context.load_dialect(dialect)
    sides = [*SIDES, *((b, a) for a, b in SIDES), *((((n, "a", "b")), (n, "b", "a")) for n in ("add", "mul"))]
    patterns = "\n".join(_pattern(number, *pair) for number, pair in enumerate(sides))
    lines = ["func.func @f(" + ", ".join(f"%v{i} : f64" for i in range(inputs)) + ") -> f64 {"]
    for index, (name, operands) in enumerate(listed):
        lines.append(f"%v{inputs + index} = {_OPERATIONS[name]} " + ", ".join(f"%v{o}" for o in operands) + " : f64")
    lines.append(f"func.return %v{inputs + len(listed) - 1} : f64\n}}")
    module = Parser(context, "\n".join(lines)).parse_module()
    EqsatCreateEclassesPass().apply(context, module)
    with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
        file.write(f"builtin.module {{\n{patterns}\n}}")
        file.flush()
        start = time.perf_counter()
        eqsat.ApplyEqsatPDLPass(pdl_file=file.name, max_iterations=rounds).apply(context, module)
        seconds = time.perf_counter() - start
    return sum(_is_node(operation) for operation in module.walk()), seconds


def _is_node(operation: Operation) -> bool:
    return operation.name in _OPERATIONS.values()
