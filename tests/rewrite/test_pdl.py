"""Rules as PDL: the interpreters of xDSL and MLIR make of a module what our rewriter makes of it, and what PDL cannot say is named."""

from __future__ import annotations

import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from torch_mlir import ir, rewrite
from xdsl.dialects import pdl
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.pdl import PDL
from xdsl.interpreters.pdl import PDLRewritePattern
from xdsl.ir import Block, Region
from xdsl.parser import Parser
from xdsl.pattern_rewriter import PatternRewriteWalker
from xdsl.printer import Printer

from hnfc.core.dead_code import erase_dead
from hnfc.core.interpreter import evaluate
from hnfc.core.verdicts import verdicts
from hnfc.dialects.types import ELEMENT_TYPES, tensor
from hnfc.dsl import core
from hnfc.dsl.rulebook import load_text, shipped
from hnfc.pipeline.context import PipelineContext
from hnfc.rewrite.bindings import AXIS, Binding
from hnfc.rewrite.builder import ReplacementBuilder
from hnfc.rewrite.greedy import RulePattern
from hnfc.rewrite.pdl import CONSTRAINTS, pdl_module

SHAPE = (3, 4)
SAYABLE, REASONS = pdl_module(shipped().rules)


def program(rule: core.Rule) -> ModuleOp:
    """A function that computes the rule's left side, on tensors of one type."""
    block = Block()
    bindings: dict[str, Binding] = {}
    for name, capture in core.captures(rule.pattern).items():
        bindings[name] = 2 if capture.const else block.insert_arg(tensor("f64", SHAPE), len(block.args))
    for node in core.walk(rule.pattern):
        bindings |= {AXIS + str(k): frozenset({-1}) for k in dict(getattr(node, "attributes", ())).get("axes", ())}
    builder = ReplacementBuilder(bindings, ELEMENT_TYPES["f64"])
    result = builder.value(rule.pattern)
    block.add_ops([*builder.operations, ReturnOp(result)])
    kind = FunctionType.from_lists([a.type for a in block.args], [result.type])
    return ModuleOp([FuncOp("main", kind, Region(block))])


def by_pdl(pattern: pdl.PatternOp, module: ModuleOp) -> ModuleOp:
    """The module after one walk with the pattern, which is printed and read again first."""
    context = PipelineContext()
    context.load_dialect(PDL)
    read = Parser(context, str(ModuleOp([pattern.clone()]))).parse_module()
    read.verify()
    (rewrite,) = (op for op in read.walk() if isinstance(op, pdl.RewriteOp))
    found = PDLRewritePattern(rewrite, context, native_constraints=dict(CONSTRAINTS))
    PatternRewriteWalker(found, apply_recursively=False).rewrite_module(module)
    module.verify()
    return module


SCALARS = ("num.constant", "num.broadcast")
"""Our rewriter makes numbers as scalars, and broadcasts one that is a result; in a pattern they have the type of what they meet."""


def computing(module: ModuleOp) -> list[str]:
    """The operations that are left without dead ones and numbers."""
    (function,) = module.ops
    erase_dead(reversed(list(function.body.block.ops)))
    return sorted(op.name for op in module.walk() if op.name.startswith("num.") and op.name not in SCALARS)


@pytest.mark.parametrize("pattern", SAYABLE.ops, ids=lambda p: p.sym_name.data)
def test_the_interpreter_of_xdsl_makes_what_our_rewriter_makes(pattern: pdl.PatternOp) -> None:
    rule = shipped().named(pattern.sym_name.data)
    ours = program(rule)
    theirs = by_pdl(pattern, ours.clone())
    assert str(theirs) != str(ours)
    PatternRewriteWalker(RulePattern(rule), apply_recursively=False).rewrite_module(ours)
    assert computing(theirs) == computing(ours)
    values = []
    for module in (ours, theirs):
        (function,) = module.ops
        block = function.body.block
        rng = np.random.default_rng(0)
        inputs = {argument: rng.uniform(1.1, 2.0, SHAPE) for argument in block.args}
        values.append(evaluate(block, inputs)[block.last_op.operands[0]])
    np.testing.assert_array_equal(*(np.broadcast_to(value, np.broadcast_shapes(*(v.shape for v in values))) for value in values))


@pytest.mark.parametrize(("element", "changes"), [("f32", True), ("si64", False), ("complex<f32>", False)])
def test_patterns_are_of_real_numbers(element: str, changes: bool) -> None:
    rule = load_text('library l "l"\nrule r "r"\n    source "s"\n    (a + b) - b => a\n    structural', "l.hnf").rules[0]
    t = f"tensor<3x4x{element}>"
    text = f"""func.func @main(%a: {t}, %b: {t}) -> {t} {{
      %s = num.add %a, %b : {t}, {t} -> {t}
      %d = num.sub %s, %b : {t}, {t} -> {t}
      func.return %d : {t}
    }}"""
    module = Parser(PipelineContext(), text).parse_module()
    assert isinstance(module, ModuleOp)
    (pattern,) = pdl_module([rule])[0].ops
    assert (str(by_pdl(pattern, module.clone())) != str(module)) is changes


def test_every_rule_is_a_pattern_or_has_a_reason() -> None:
    names = [pattern.sym_name.data for pattern in SAYABLE.ops]
    assert sorted([*names, *REASONS]) == sorted(rule.name for rule in shipped().rules)
    assert REASONS["norm_scaled"] == "it has a condition"
    assert "both directions" in REASONS["difference_is_sum"]


def names(text: str) -> list[str]:
    return sorted(re.findall(r'"(num\.\w+)"', text))


def generic(module: ModuleOp) -> str:
    """The module as MLIR reads it, which knows nothing of our attributes."""
    out = StringIO()
    Printer(out, print_generic_format=True).print_op(module)
    return out.getvalue().replace("#num.ints", "")


@pytest.mark.parametrize("pattern", SAYABLE.ops, ids=lambda p: p.sym_name.data)
def test_the_interpreter_of_mlir_makes_the_same(pattern: pdl.PatternOp) -> None:
    ours = program(shipped().named(pattern.sym_name.data))
    seen = []
    with ir.Context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(generic(ours))
        theirs = ir.Module.parse(str(ModuleOp([pattern.clone()])))
        patterns = rewrite.PDLModule(theirs)
        for name in CONSTRAINTS:
            # what it returns is whether the constraint fails
            patterns.register_constraint_function(name, lambda rewriter, results, values: seen.append(values))
        rewrite.walk_and_apply_patterns(module.operation, patterns.freeze())
        assert seen and names(str(module)) == names(generic(by_pdl(pattern, ours)))
        assert module.operation.verify()


def test_the_command_writes_patterns_and_names_the_others(tmp_path: Path) -> None:
    file = tmp_path / "my.hnf"
    file.write_text(
        'library mine "mine"\nrule sayable "s"\n    source "s"\n    log(exp(x)) => x\n'
        'rule conditional "c"\n    source "s"\n    sqrt(x * x) => x\n    where x >= 0\n'
    )
    command = [sys.executable, "-m", "hnfc.cli.main", "rules", str(file), "--emit", "pdl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    assert "pdl.pattern @sayable" in done.stdout and "conditional" not in done.stdout
    assert "conditional: not in PDL: it has a condition" in done.stderr
    assert all(verdict.proved for verdict in verdicts(load_text(file.read_text(), "my.hnf").rules).values())
