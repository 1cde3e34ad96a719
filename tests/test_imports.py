"""Imports go one way: each folder imports what its row allows, and rows only name folders above them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.imports import TREES, circles, imports, loading, misplaced, place

ROOT = Path(__file__).parent.parent
ANYWHERE = frozenset(sys.stdlib_module_names) | {"numpy", "xdsl"}
FACTS = {"dialects": "types and facts of operations", "dialects/num": "the operations"}
LANGUAGE = FACTS | {"dsl": "rules"}
ALLOWED: dict[str, dict[str, str]] = {
    "dialects/formats": {},
    "dialects": {"dialects/formats": "formats of element types"},
    "dialects/num": {
        "dialects": "types and facts",
        "dialects/formats": "round_to",
        "ml_dtypes": "types that NumPy lacks",
        "scipy": "special functions",
    },
    "dsl": FACTS | {"dialects/formats": "formats that rule files declare", "lark": "the grammar", "flint": "polynomials"},
    "dsl/soundness": LANGUAGE | {"dialects/formats": "rules that round", "flint": "ball arithmetic, polynomials", "z3": "the solver"},
    "dsl/certificates": {"dialects": "meanings of operations", "dsl": "rules", "dsl/soundness": "what a verdict claims"},
    "dsl/ieee": LANGUAGE
    | {
        "dialects/formats": "rounding to formats",
        "dsl/soundness": "typing, samples and caches of the prover",
        "flint": "digits of exact results",
        "z3": "floating-point queries",
    },
    "dsl/error": LANGUAGE | {"dsl/soundness": "signs and conditions that are proved", "flint": "roots of polynomials"},
    "hnfc/core": LANGUAGE
    | {
        "dsl/soundness": "balls for exact values; verdicts",
        "dsl/ieee": "verdicts in formats",
        "dsl/error": "reports that ship",
        "dsl/certificates": "certificates that ship",
        "distributed": "workers of a cluster",
        "flint": "exact values",
        "markupsafe": "results in notebooks",
        "ml_dtypes": "tensors of narrow types",
        "safetensors": "saved steps as samples",
        "torch_mlir": "operations of the torch dialect",
    },
    "hnfc/validation": FACTS
    | {"hnfc/core": "the interpreter", "dsl/ieee": "neighbours of a point without a value", "torch_mlir": "modules that are compared"},
    "hnfc/formats": {"dialects/formats": "kinds and rounding", "dsl": "formats that files declare"},
    "hnfc/sheaf": {
        "hnfc/core": "HiGHS",
        "flint": "Smith normal forms",
        "scipy": "integer programs",
        "z3": "minimal cores",
    },
    "hnfc/frontend": FACTS | {"hnfc/core": "errors, the emitter", "torch_mlir": "modules", "onnx": "its files"},
    "hnfc/backend": FACTS
    | {
        "hnfc/core": "errors, the emitter",
        "hnfc/frontend": "the imported module is what gets patched",
        "torch_mlir": "modules",
        "iree": "its compiler",
        "onnx": "what torch has no operation for; files that are written",
        "onnxscript": "torch's exporter of ONNX needs it",
        "onnxruntime": "--on onnx",
    },
    "hnfc/analysis": LANGUAGE
    | {
        "dialects/formats": "formats of values",
        "dsl/error": "algorithms of composed operations",
        "hnfc/core": "errors, samples, the interpreter",
        "hnfc/formats": "formats by name",
        "hnfc/frontend": "models and FPCore programs that are analyzed",
        "hnfc/backend": "FX graphs for sensitivities; FPCore text",
        "torch_mlir": "modules",
    },
    "hnfc/rewrite": LANGUAGE
    | {
        "dsl/soundness": "exact evaluation in probes",
        "hnfc/core": "the interpreter",
        "hnfc/validation": "each rewrite is probed",
        "hnfc/analysis": "ranges and costs",
    },
    "hnfc/egraph": LANGUAGE
    | {
        "hnfc/core": "the interpreter, verdicts, HiGHS",
        "hnfc/analysis": "ranges, costs, bounds",
        "hnfc/rewrite": "patterns and conditions",
        "scipy": "integer programs",
    },
    "hnfc/pipeline": LANGUAGE
    | {
        "dsl/soundness": "verdicts",
        "hnfc/core": "errors, samples, verdicts",
        "hnfc/validation": "the last stage",
        "hnfc/frontend": "the first stage",
        "hnfc/backend": "the export",
        "hnfc/analysis": "ranges",
        "hnfc/rewrite": "the greedy stage",
        "hnfc/egraph": "the search stage",
        "torch_mlir": "modules",
    },
    "hnfc/accuracy": LANGUAGE
    | {
        "hnfc/analysis": "ranges of regions",
        "hnfc/pipeline": "the group of rules that were found",
        "hnfc/rewrite": "values on samples",
        "dsl/soundness": "ball arithmetic",
        "hnfc/core": "verdicts",
        "hnfc/frontend": "FPCore",
        "hnfc/backend": "FPCore text",
        "flint": "balls and polynomials",
    },
    "hnfc/discovery": {
        "dialects/num": "the operations",
        "dsl": "rules",
        "dsl/soundness": "verdicts, typing",
        "dsl/ieee": "values at points",
        "hnfc/core": "errors, verdicts",
        "hnfc/rewrite": "tests of the rules",
        "egglog": "what follows from rules",
    },
    "hnfc/report": {
        "dialects": "the constants of proofs, facts of operations",
        "dialects/num": "the page of the dialect",
        "dsl": "rules",
        "dsl/soundness": "verdicts and proofs",
        "dsl/ieee": "verdicts in formats",
        "dsl/error": "error formulas",
        "dsl/certificates": "theorems for Coq",
        "hnfc/core": "verdicts",
        "hnfc/validation": "errors",
        "hnfc/analysis": "findings",
        "hnfc/rewrite": "near misses",
        "hnfc/pipeline": "what was compiled",
    },
    "hnfc/pytorch": {
        "hnfc/accuracy": "the search for better forms",
        "dialects": "intervals and types",
        "hnfc/core": "errors, samples, tensors",
        "hnfc/validation": "gradients before and after",
        "hnfc/frontend": "captures",
        "hnfc/backend": "FX graphs",
        "hnfc/analysis": "hnfc.analyze",
        "hnfc/formats": "formats of types",
        "hnfc/egraph": "settings of a search",
        "hnfc/pipeline": "compilation",
        "hnfc/report": "results print themselves",
        "torch_mlir": "modules",
        "safetensors": "saved steps as samples",
    },
    "hnfc/jax": {
        "hnfc/accuracy": "the search for better forms",
        "dialects": "intervals and types",
        "dialects/num": "operations as functions of JAX",
        "hnfc/core": "errors, evaluation of what hnfc does not know",
        "hnfc/validation": "gradients before and after",
        "hnfc/frontend": "StableHLO and its marks",
        "hnfc/analysis": "ranges of samples",
        "hnfc/egraph": "settings of a search",
        "hnfc/pipeline": "compilation",
        "hnfc/report": "results print themselves",
        "torch_mlir": "modules",
        "jax": "functions that are rewritten",
    },
    "hnfc/deployment": {
        "dialects/formats": "kinds of formats",
        "hnfc/core": "errors",
        "hnfc/formats": "packed tensors",
        "safetensors": "checkpoints",
    },
    "hnfc/precision": LANGUAGE
    | {
        "hnfc/deployment": "files and settings for other programs",
        "dialects/formats": "formats",
        "hnfc/core": "errors, samples, tensors, HiGHS",
        "hnfc/formats": "formats by name",
        "hnfc/sheaf": "the mathematics of assignments",
        "hnfc/frontend": "captures",
        "hnfc/backend": "graphs that run",
        "hnfc/analysis": "sensitivities and bounds",
        "hnfc/pipeline": "rules before the assignment",
        "hnfc/pytorch": "modules in mixed precision are optimized modules",
        "ml_dtypes": "casts of arrays",
        "scipy": "integer programs",
        "torch_mlir": "modules",
    },
    "hnfc/sharded": {
        "dialects/formats": "kinds of formats",
        "hnfc/core": "errors",
        "hnfc/validation": "tolerances",
        "hnfc/formats": "formats of weights",
        "hnfc/frontend": "captures",
        "hnfc/backend": "FX graphs",
        "hnfc/pipeline": "compilation of a layer",
        "hnfc/deployment": "the layout of compressed-tensors",
        "hnfc/pytorch": "calls of a sample",
        "safetensors": "files of tensors",
        "transformers": "modules of a configuration",
    },
    "hnfc/pages": {
        "dsl/certificates": "answers of Coq",
        "hnfc/core": "certificates",
        "dialects": "intervals and formats of values",
        "dsl": "rules",
        "dsl/soundness": "verdicts and counterexamples",
        "dsl/ieee": "verdicts in formats",
        "dsl/error": "error formulas",
        "hnfc/validation": "errors, tolerances",
        "hnfc/analysis": "findings",
        "hnfc/pipeline": "what was compiled, graphs",
        "hnfc/accuracy": "FPCore programs",
        "hnfc/report": "the words of the text reports",
        "hnfc/precision": "assignments and refusals",
        "jinja2": "templates",
        "markupsafe": "escaping",
        "vl_convert": "scripts of Vega-Lite",
    },
    "hnfc/tracing": {
        "dialects": "how operations accumulate",
        "dialects/num": "the operations",
        "hnfc/core": "errors",
        "hnfc/frontend": "places of operations",
        "hnfc/pipeline": "rules as remedies",
        "hnfc/pytorch": "rewritten modules as remedies",
        "hnfc/precision": "wider formats as remedies",
    },
    "hnfc/watching": {
        "hnfc/core": "errors",
        "hnfc/frontend": "places of operations",
        "hnfc/pytorch": "a copy of the model that is run again",
        "hnfc/tracing": "the reason of a bad step",
        "hnfc/pages": "the page of a run",
        "rich": "the live table",
        "lightning": "a callback for its Trainer",
        "pytorch_lightning": "the same under its other name",
        "transformers": "a callback for its Trainer",
        "safetensors": "saved steps",
    },
    "hnfc/language_server": LANGUAGE
    | {
        "dsl/soundness": "the prover",
        "dsl/ieee": "verdicts in formats",
        "hnfc/core": "conditions that verdicts offer",
        "hnfc/rewrite": "tests that are written",
        "hnfc/report": "proofs and verdicts in words",
        "hnfc/pages": "the page of a rule",
        "pygls": "the protocol",
        "pygments": "colours of documentation",
        "lsprotocol": "its types",
    },
    "hnfc/serving": {
        "hnfc/pages": "pages that say why there is no report",
        "jinja2": "the page",
    },
    "hnfc/runners": FACTS
    | {
        "dsl/soundness": "exact values",
        "hnfc/core": "errors, the emitter",
        "hnfc/frontend": "modules",
        "hnfc/backend": "what runs them",
        "torch_mlir": "modules",
    },
    "hnfc": {
        "hnfc/pipeline": "public names",
        "hnfc/precision": "public names",
        "hnfc/pytorch": "public names",
        "hnfc/rewrite": "public names",
        "hnfc/tracing": "public names",
        "hnfc/watching": "public names",
    },
    "hnfc/cli": {
        "dialects": "formats of results",
        "dsl": "rule files and diagnostics",
        "dsl/soundness": "obligations as SMT-LIB",
        "dsl/certificates": "certificates for Coq",
        "dsl/ieee": "names of formats",
        "hnfc/core": "errors, samples, verdicts",
        "hnfc/validation": "tolerances, errors",
        "hnfc/formats": "names of formats",
        "hnfc/frontend": "models",
        "hnfc/backend": "forms of output",
        "hnfc/analysis": "hnfc analyze",
        "hnfc/rewrite": "hnfc test, --why-not, rules as PDL",
        "hnfc/egraph": "options of a search",
        "hnfc/pipeline": "hnfc MODEL",
        "hnfc/accuracy": "FPCore programs",
        "hnfc/discovery": "hnfc discover",
        "hnfc/report": "what is printed",
        "hnfc/precision": "hnfc precision",
        "hnfc/pages": "--report",
        "hnfc/pytorch": "saved steps as samples",
        "hnfc/tracing": "hnfc trace",
        "hnfc/watching": "hnfc replay",
        "hnfc/sharded": "models in folders",
        "hnfc/language_server": "hnfc lsp",
        "hnfc/serving": "hnfc serve",
        "rich": "the spinner",
        "shtab": "scripts of completion",
    },
}
"""By folder what it may import, and why; `torch` is for the files of ON_TORCH. Folders lower in the list stand on those above."""
PUBLIC = {
    ("dsl/__init__.py", "dsl/soundness"): "hnfc.dsl.check",
    ("hnfc/__main__.py", "hnfc/cli"): "python -m hnfc",
    ("hnfc/sheaf/__init__.py", "hnfc/precision"): "the names of the literature, hnfc.sheaf.PrecisionOptimizer among them",
}
"""Public names of a package that lie in a folder above it and are loaded when they are asked for."""
AT_START = "`import hnfc.dsl` loads neither Z3 nor ball arithmetic"
SPECIAL = "scipy.special takes as long to load as the rest of the dialect (0.27 s of processor time)"
OPTIONAL = "an optional package"
NAMED = "xDSL's tools load a dialect, pass or target once it is named"
REPORTING = ("accuracy", "analyze", "explain", "judging", "precision", "replay", "rewriting", "run")
PAGES = "loaded once there is a page to write: 0.2 to 0.8 s of processor time"
TORCH = "runs on torch, which is an optional package"
LATE = {
    ("dialects/num/activation.py", "scipy.special"): SPECIAL,
    ("dialects/num/special.py", "scipy.special"): SPECIAL,
    ("dsl/__init__.py", "hnfc.dsl.soundness.checking"): AT_START,
    ("hnfc/cli/check.py", "hnfc.cli.judging"): "an answer that is kept loads neither the language nor the prover",
    ("dsl/soundness/parallel.py", "resource"): "not on every system",
    ("hnfc/core/executors.py", "distributed"): OPTIONAL,
    ("hnfc/sharded/model.py", "transformers"): OPTIONAL,
    ("hnfc/backend/iree.py", "iree"): OPTIONAL,
    ("hnfc/frontend/onnx.py", "onnx"): OPTIONAL,
    ("hnfc/frontend/onnx.py", "onnx.inliner"): OPTIONAL,
    ("hnfc/backend/onnx_reference.py", "onnx"): OPTIONAL,
    ("hnfc/backend/onnx_reference.py", "onnx.reference"): OPTIONAL,
    ("hnfc/backend/onnx.py", "onnx"): OPTIONAL,
    ("hnfc/backend/onnx.py", "onnxscript"): OPTIONAL,
    ("hnfc/cli/model.py", "hnfc.backend.onnx"): TORCH,
    ("hnfc/frontend/onnx.py", "torch_mlir.extras"): "needs onnx, an optional package",
    ("hnfc/backend/execution.py", "hnfc.backend.on_torch"): TORCH,
    ("hnfc/backend/execution.py", "hnfc.backend.onnx"): TORCH,
    ("hnfc/backend/onnx.py", "onnxruntime"): OPTIONAL,
    ("hnfc/backend/execution.py", "hnfc.backend.opaque_on_torch"): TORCH,
    ("hnfc/cli/analyze.py", "hnfc.analysis.calibrated"): TORCH,
    ("hnfc/cli/analyze.py", "hnfc.core.tensors"): TORCH,
    ("hnfc/formats/rounding.py", "hnfc.formats.torch_rounding"): TORCH,
    ("hnfc/precision/__init__.py", "hnfc.precision.optimizer"): TORCH,
    ("hnfc/precision/casting.py", "hnfc.formats.torch_rounding"): TORCH,
    ("hnfc/core/saved_steps.py", "safetensors"): OPTIONAL,
    ("hnfc/pytorch/saved_calls.py", "safetensors"): OPTIONAL,
    ("hnfc/pytorch/saved_calls.py", "safetensors.torch"): OPTIONAL,
    ("hnfc/watching/folder.py", "safetensors"): OPTIONAL,
    ("hnfc/watching/folder.py", "safetensors.torch"): OPTIONAL,
    ("hnfc/watching/followers.py", "torch.utils.tensorboard"): OPTIONAL,
    ("hnfc/rewriter.py", "hnfc.pytorch.rewriter"): TORCH,
    **{(f"hnfc/cli/{command}.py", "hnfc.cli.pages"): PAGES for command in REPORTING},
    ("hnfc/pages/vega.py", "vl_convert"): OPTIONAL,
    ("hnfc/cli/lsp.py", "hnfc.language_server.server"): OPTIONAL,
    ("hnfc/language_server/judging.py", "resource"): "not on every system",
    ("hnfc/cli/model_options.py", "hnfc.cli.doctor"): "the metadata of packages are loaded for --version alone",
    ("hnfc/cli/opt.py", "hnfc.backend.torch_mlir"): "hnfc-opt --help loads no compiler",
    ("hnfc/cli/opt.py", "hnfc.frontend.models"): "hnfc-opt --help loads no compiler",
    ("hnfc/pipeline/universe.py", "hnfc.dialects.num"): NAMED,
    ("hnfc/pipeline/universe.py", "hnfc.pipeline.passes"): NAMED,
    ("hnfc/pipeline/universe.py", "hnfc.pipeline.torch_forms"): NAMED,
    ("hnfc/cli/progress.py", "rich"): "loaded once a command takes longer than two seconds",
    ("hnfc/cli/progress.py", "rich.console"): "loaded once a command takes longer than two seconds",
}
"""Imports inside functions, and why they are not at the top."""
ON_TORCH = (
    "hnfc/pytorch/",
    "hnfc/tracing/",
    "hnfc/watching/",
    "hnfc/sharded/",
    "hnfc/cli/folders.py",
    "hnfc/frontend/places.py",
    "hnfc/frontend/decompositions.py",
    "hnfc/frontend/pytorch.py",
    "hnfc/frontend/training.py",
    "hnfc/frontend/signature.py",
    "hnfc/core/onnx_exporter.py",
    "hnfc/core/tensors.py",
    "hnfc/backend/control_flow.py",
    "hnfc/backend/declared.py",
    "hnfc/backend/on_torch.py",
    "hnfc/backend/onnx.py",
    "hnfc/backend/onnx_reference.py",
    "hnfc/backend/opaque_on_torch.py",
    "hnfc/backend/aliasing.py",
    "hnfc/backend/autograd.py",
    "hnfc/backend/deviations.py",
    "hnfc/backend/functions.py",
    "hnfc/backend/fx.py",
    "hnfc/backend/gradients.py",
    "hnfc/backend/rows.py",
    "hnfc/frontend/inlining.py",
    "hnfc/analysis/calibrated.py",
    "hnfc/analysis/perturbation.py",
    "hnfc/analysis/observed.py",
    "hnfc/deployment/",
    "hnfc/precision/amp.py",
    "hnfc/precision/analyzed.py",
    "hnfc/precision/cast_insertion.py",
    "hnfc/precision/certifying.py",
    "hnfc/precision/compensation.py",
    "hnfc/precision/computation.py",
    "hnfc/precision/copying.py",
    "hnfc/precision/distances.py",
    "hnfc/precision/files.py",
    "hnfc/precision/instances.py",
    "hnfc/precision/open_sizes.py",
    "hnfc/precision/optimizer.py",
    "hnfc/precision/rewriting.py",
    "hnfc/precision/running.py",
    "hnfc/precision/samples.py",
    "hnfc/precision/solving.py",
    "hnfc/precision/storing.py",
    "hnfc/formats/observers.py",
    "hnfc/formats/packed.py",
    "hnfc/formats/torch_arrays.py",
    "hnfc/formats/torch_rounding.py",
    "hnfc/precision/training.py",
    "hnfc/cli/precision.py",
    "hnfc/cli/replay.py",
    "hnfc/cli/trace.py",
)
"""What is about PyTorch's modules; everything else works where torch is not installed."""


def test_each_folder_imports_what_it_may():
    assert misplaced(ROOT, ALLOWED, PUBLIC, ANYWHERE | {"torch"}) == []


def test_folders_stand_on_those_above_them():
    order = list(ALLOWED)
    for folder, allowed in ALLOWED.items():
        assert all(allowed.values()), folder
        assert all(name not in ALLOWED or order.index(name) < order.index(folder) for name in allowed), folder
    files, found = imports(ROOT)
    folders = {str(Path(file).parent) for file in files.values()}
    assert folders == set(ALLOWED)
    used = {(str(Path(each.file).parent), place(each.module, files)) for each in found}
    assert [(folder, name) for folder, allowed in ALLOWED.items() for name in allowed if (folder, name) not in used] == []


def test_no_files_import_each_other():
    assert circles(ROOT) == []


def test_imports_stand_at_the_top():
    late = {(each.file, each.module) for each in imports(ROOT)[1] if each.late}
    assert late - LATE.keys() == set() and LATE.keys() - late == set()


def test_the_files_that_load_torch_are_known():
    found = loading(ROOT, "torch")
    assert [file for file in sorted(found) if not file.startswith(ON_TORCH)] == []
    assert [place for place in ON_TORCH if not any(file.startswith(place) for file in found)] == []


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    for tree in TREES:
        shutil.copytree(ROOT / tree, tmp_path / tree, symlinks=True, ignore=lambda _, names: [n for n in names if n == "__pycache__"])
    return tmp_path


@pytest.mark.parametrize(
    ("file", "statement"),
    [
        ("dsl/targets.py", "import hnfc.precision"),
        ("dsl/soundness/scan.py", "from hnfc.dsl import ieee"),
        ("dialects/facts.py", "from hnfc.dsl.core import Rule"),
        ("hnfc/core/samples.py", "from hnfc import frontend"),
        ("hnfc/analysis/ranges.py", "def late():\n    import hnfc.precision.optimizer"),
        ("hnfc/sheaf/cover.py", "if TYPE_CHECKING:\n    from hnfc.precision.problem import Problem"),
        ("hnfc/report/text.py", "import rich"),
    ],
)
def test_a_planted_import_is_found(copied: Path, file: str, statement: str):
    with (copied / file).open("a", encoding="utf-8") as source:
        source.write(f"\n{statement}\n")
    wrong = misplaced(copied, ALLOWED, PUBLIC, ANYWHERE | {"torch"})
    assert len(wrong) == 1 and wrong[0].startswith(f"{file}:"), wrong


def test_a_planted_circle_is_found(copied: Path):
    (copied / "hnfc" / "core" / "one.py").write_text("from hnfc.core.other import x\n", encoding="utf-8")
    (copied / "hnfc" / "core" / "other.py").write_text("def f():\n    from hnfc.core import one\n", encoding="utf-8")
    assert circles(copied) == [["hnfc/core/one.py", "hnfc/core/other.py"]]


def test_the_folders_are_the_package():
    for name in ("dialects", "dsl", "rules"):
        assert (ROOT / "hnfc" / name).is_symlink() and (ROOT / "hnfc" / name).resolve() == ROOT / name


def test_the_command_line_on_a_file_loads_no_torch():
    code = "import sys, hnfc, hnfc.pipeline.compile, hnfc.rewriter, hnfc.cli.main, hnfc.cli.model; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
