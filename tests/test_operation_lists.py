"""Facts of operations stand in their classes: every list of operation names elsewhere has a reason here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.operation_lists import lists_in

ROOT = Path(__file__).parent.parent

HANDLERS = "how this one reader writes or computes each operation"
ATOMS = "kinds of atoms of an algebra, which are named as functions are"
SYNTAX = "operators and forms of the rule language"
FOREIGN = "names of torch, NumPy, StableHLO or FPCore, some of which are the dialect's too"
WORDS = "how formulas are written for people"
KERNELS = "kernels of one runner, as they were measured"
PROVER = "operations that one tactic of the prover or the matcher treats; others are refused or take the general way"

REASONS: dict[str, dict[str, str]] = {
    "dsl/description.py": {"_application": SYNTAX},
    "dsl/error/expression.py": {"_atom": ATOMS},
    "dsl/error/polynomial.py": {"BINDING": ATOMS},
    "dsl/error/floating.py": {"_moved": HANDLERS},
    "dsl/error/intervals.py": {"_atom_bounds": ATOMS},
    "dsl/error/moves.py": {"_shape": HANDLERS},
    "dsl/error/rebuilding.py": {"PRIMITIVES": ATOMS, "_parts": ATOMS},
    "dsl/error/side.py": {"TRANSPARENT": WORDS},
    "dsl/error/text.py": {"atom": WORDS, "function": WORDS},
    "dsl/ieee/smt.py": {"_FUNCTIONS": HANDLERS},
    "dsl/ieee/working.py": {"ROUNDED_BY_IEEE": FOREIGN},
    "dsl/movement.py": {"FORMS": SYNTAX, "ON_BOUNDS": HANDLERS},
    "dsl/syntax.py": {"OPERATORS": SYNTAX},
    "dsl/soundness/deducing.py": {"_signs_of_elements": ATOMS},
    "dsl/soundness/formulas.py": {"STEMS": ATOMS},
    "dsl/soundness/monomial.py": {"BINDERS": ATOMS},
    "dsl/soundness/normal_form.py": {"rebuild": ATOMS},
    "dsl/soundness/signs.py": {"atom_sign": ATOMS},
    "dsl/soundness/theorems.py": {"_named": ATOMS},
    "hnfc/accuracy/arithmetic.py": {"_expand": PROVER, "_AT_ZERO": HANDLERS},
    "hnfc/accuracy/expanding.py": {"_FUNCTIONS": HANDLERS},
    "hnfc/accuracy/code.py": {"_OF_C": FOREIGN, "_OF_PYTHON": FOREIGN, "_SHARED": FOREIGN},
    "hnfc/accuracy/reading.py": {"_UNNAMED": FOREIGN},
    "hnfc/accuracy/reference.py": {"_PLAIN": HANDLERS, "_PARTIAL": HANDLERS},
    "hnfc/accuracy/remainder.py": {"_RULES": HANDLERS},
    "hnfc/accuracy/rescaling.py": {"_HANDLERS": HANDLERS},
    "hnfc/accuracy/rules.py": {"_EXPRESSIBLE": HANDLERS},
    "hnfc/accuracy/terms.py": {"_SHAPES": HANDLERS},
    "hnfc/accuracy/unfolding.py": {"_UNFOLDED": HANDLERS},
    "hnfc/analysis/composed.py": {"_COMPOSED": HANDLERS},
    "hnfc/analysis/cost.py": {"_IN_PLACE": KERNELS},
    "hnfc/analysis/rounding.py": {"other_algorithm": KERNELS},
    "hnfc/backend/expansions.py": {"_NARROW_IN_LOWERED_CODE": KERNELS, "_NARROW": HANDLERS},
    "hnfc/backend/fpcore.py": {"_WRITTEN": FOREIGN},
    "hnfc/backend/functions.py": {"_VALUES": HANDLERS},
    "hnfc/backend/fx.py": {"_OPERATORS": FOREIGN},
    "hnfc/backend/gradients.py": {"_POINTWISE": FOREIGN},
    "hnfc/backend/native.py": {"_PLAIN": HANDLERS},
    "hnfc/backend/on_iree.py": {"FORMS": HANDLERS, "_LIBRARY": KERNELS},
    "hnfc/backend/on_onnx.py": {"_OWN": HANDLERS},
    "hnfc/egraph/graph.py": {"_FOLDED": PROVER},
    "hnfc/frontend/fpcore_builder.py": {"PLAIN": FOREIGN},
    "hnfc/frontend/stablehlo.py": {"_ON_BYTES": FOREIGN},
    "hnfc/frontend/stablehlo_marks.py": {"_PLAIN": FOREIGN},
    "hnfc/frontend/stablehlo_elementwise.py": {"_TWO": FOREIGN},
    "hnfc/jax/derivatives.py": {"FUNCTIONS": HANDLERS},
    "hnfc/jax/operations.py": {"_OF_NUMPY": FOREIGN, "_OF_LAX": FOREIGN, "_REDUCTIONS": HANDLERS},
    "hnfc/report/proof_steps.py": {"FAMILIAR": WORDS},
    "hnfc/rewrite/builder.py": {"fold": HANDLERS},
    "hnfc/rewrite/canonicalization.py": {"_OF_REDUCTIONS": PROVER},
    "hnfc/rewrite/matcher.py": {"_RARITY": PROVER},
    "hnfc/rewrite/nary_terms.py": {"ARITHMETIC": PROVER},
    "hnfc/rewrite/movement.py": {"MOVES": PROVER},
    "hnfc/tracing/guards.py": {"_KINDS": FOREIGN},
    "hnfc/tracing/judging.py": {"_GROWING": FOREIGN},
    "hnfc/tracing/words.py": {"_ELEMENTWISE": FOREIGN, "_SIGNS": WORDS},
}


def found(folder: str) -> dict[str, set[str]]:
    files = [p for p in sorted((ROOT / folder).rglob("*.py")) if not any(q.is_symlink() for q in (p, *p.parents))]
    return {str(path.relative_to(ROOT)): names for path in files if (names := set(lists_in(path)))}


@pytest.mark.parametrize("folder", ["dsl", "hnfc"])
def test_a_list_of_operations_has_a_reason(folder: str) -> None:
    known = {path: set(reasons) for path, reasons in REASONS.items() if path.startswith(f"{folder}/")}
    assert found(folder) == known


PLANTED = (
    'X = {"exp", "log", "sin", "cos"}',
    'X = ("num.exp", "num.log", "num.sin", "num.cos")',
    'def f(x):\n    match x:\n        case "exp" | "log" | "sin" | "cos":\n            return 1',
)


@pytest.mark.parametrize("text", PLANTED)
def test_a_planted_list_is_found(tmp_path: Path, text: str) -> None:
    (tmp_path / "planted.py").write_text(text)
    assert list(lists_in(tmp_path / "planted.py"))
