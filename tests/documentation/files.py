"""Files that commands of the pages read, and commands that no test of pages can run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.terminal import hnfc

ROOT = Path(__file__).resolve().parents[2]
Maker = Callable[[Path], object]
"""A function that makes the file at a path, with what it needs beside it."""

POLICY = '''import torch


class Policy(torch.nn.Module):
    """Probabilities of three actions, and their cost."""

    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(4, 3)

    def forward(self, x, y):
        scores = self.head(x)

        e = torch.exp(scores)

        p = e / e.sum(-1, keepdim=True)
        return (p * y).sum(-1).mean()


def make_model():
    model = Policy()
    with torch.no_grad():
        model.head.weight.copy_(torch.tensor([[6.0] * 4, [5.9] * 4, [5.0] * 4]))
        model.head.bias.zero_()
    return model
'''
TRAINING = """import sys
import torch
import hnfc
from policy import make_model

torch.manual_seed(1)
model = make_model()
x = 0.3 + 0.7 * torch.rand(16, 4)
y = torch.nn.functional.one_hot(torch.ones(16, dtype=torch.long), 3).float()
optimizer = torch.optim.SGD(model.parameters(), 0.01)
with hnfc.watch(model, folder=sys.argv[1]) as watching:
    for step in range(100):
        optimizer.zero_grad()
        model(x * (1 + step / 4), y).backward()
        optimizer.step()
"""
"""Scores grow from step to step, until an exponential overflows and the loss is NaN."""
LEVELS = """import torch

class Levels(torch.nn.Module):
    def forward(self, x): return torch.reciprocal(x) - torch.reciprocal(x + 1)
"""
SESSIONS = {
    "docs/accuracy.md": """import torch
import hnfc
from levels import Levels
torch.manual_seed(0)
model = Levels()
better = hnfc.optimize(model, 1 + 1e4 * torch.rand(1000), "accuracy")
"""
}
"""Python before the first `>>>` of a page. tests/soundness/test_research.py runs those of docs/research.md."""
OF_THE_POLICY = """func.func @main(%x: !torch.vtensor<[16,4],f32>, %y: !torch.vtensor<[16,3],f32>) -> !torch.vtensor<[16,3],f32> {
  %0 = torch.aten.exp %y : !torch.vtensor<[16,3],f32> -> !torch.vtensor<[16,3],f32>
  return %0 : !torch.vtensor<[16,3],f32>
}
"""
DOPPLER = """(FPCore (u v T)
  :name "doppler" :precision binary64
  :pre (and (<= -100 u 100) (<= 20 v 20000) (<= -30 T 50))
  (let ([t1 (+ 331.4 (* 0.6 T))]) (/ (* (- t1) v) (* (+ t1 u) (+ t1 u)))))
"""


def written(text: str) -> Maker:
    return lambda path: path.write_text(text, encoding="utf-8")


def copied(source: str) -> Maker:
    return lambda path: shutil.copy(ROOT / source, path)


def converted(source: str, *options: str) -> Maker:
    """The file that the command itself writes for a model, unchanged."""
    return lambda path: succeeded(hnfc(ROOT / source, "-O", "none", *options, "-o", path.name, cwd=path.parent))


def succeeded(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stderr


def sample(path: Path) -> None:
    """One call of examples/naive_attention.mlir, at which it is finite."""
    rng = np.random.default_rng(0)
    np.savez(path, **{f"arg{number}": rng.uniform(-3, 3, (1, 2, 8, 16)).astype(np.float32) for number in range(3)})


def step(path: Path) -> None:
    """The folder of the step of a watched run that went wrong."""
    (path.parent / "training.py").write_text(TRAINING)
    (path.parent.parent / "policy.py").write_text(POLICY)
    environment = {"PYTHONPATH": f"{ROOT}:{path.parent.parent}"}
    command = [sys.executable, "training.py", "steps"]
    subprocess.run(command, cwd=path.parent, env=environment, check=True, capture_output=True, timeout=300)
    (found,) = (path.parent / "steps").iterdir()
    found.rename(path)


def llama(path: Path) -> None:
    from tests.sharded.tiny import write_llama

    write_llama(path, 2)


FILES: dict[str, Maker] = {
    "model.mlir": copied("examples/naive_attention.mlir"),
    "model.onnx": converted("examples/naive_attention.mlir"),
    "softmax.mlirbc": converted("tests/data/jax/softmax.mlir", "--emit", "vhlo"),
    "my.hnf": copied("examples/library/distances.hnf"),
    "programs.fpcore": copied("examples/quadratic.fpcore"),
    "doppler.fpcore": written(DOPPLER),
    "samples.npz": sample,
    "s.npz": sample,
    "F.npz": sample,
    "sample.npz": lambda path: np.savez(path, input_ids=np.arange(24).reshape(2, 12)),
    "folder": llama,
    "policy.py": written(POLICY),
    "train.py": written(POLICY),
    "levels.py": written(LEVELS),
    "hnfc-watch/step-580": step,
    "hnfc-watch/step-95": step,
}
"""Files and folders by name. Files of the repository, such as rules and examples, are copied."""
OF_PAGES: dict[str, dict[str, Maker]] = {"docs/watch.md": {"model.mlir": written(OF_THE_POLICY)}}
"""Files of one page that differ from those of the others."""
SHOWN = {
    "docs/tutorial.md": [(r"^rule sum_of_logs|^test log_splits", "mine.hnf"), (r"func\.func @main", "model.mlir")],
}
"""Blocks of pages that the reader writes to a file: words of the block, and the file."""
PRINTED = {"docs/discover.md": [(r"^rule +loses", "discover")]}
"""Blocks that show what an earlier command printed: words of the block, and the beginning of the command."""
PLACEHOLDERS = [
    (r"(?<=^help )COMMAND\b", "check"),
    (r"(?<=^completion )SHELL\b", "bash"),
    (r"(?<=^explain )RULE\b", "exp_product"),
    (r"(?<=^rules )NAME\b", "exp_product"),
    (r"^FILE\b", "model.mlir"),
    (r"(?<=^fmt )FILE\b|(?<=^check )FILE\b", "my.hnf"),
    (r"(?<=^analyze )FILE\b|^PROGRAMS\.fpcore", "programs.fpcore"),
    (r"(?<=--inputs )FILE\b", "F.npz"),
    (r"(?<=^replay )FOLDER\b", "hnfc-watch/step-580"),
    (r"\bFOLDER\b", "folder"),
    (r"\bMODEL\b", "model.mlir"),
]
"""Names in capitals and what a reader may put there."""
LEFT_OUT = {
    r"^serve\b": "waits for a browser: tests/serving",
    r"^lsp\b": "waits for an editor: tests/language_server",
    r" --watch\b": "waits for changes: tests/cli/test_project.py",
    r" --cluster\b": "needs a scheduler at an address: tests/core/test_executors.py",
}
"""Commands that do not end, or need another machine, and the tests that run them."""
NEEDS = {
    r"\bfolder\b": "transformers",
    r"^precision folder\b": "compressed_tensors",
    r"\.onnx\b": "onnx",
    r"--on iree\b": "iree",
    r"^discover\b": "egglog",
    r"^(replay|trace)\b": "torch",
}
"""Optional packages of commands."""


def provide(page: str, word: str, folder: Path) -> None:
    """Makes the file that a word of a command names, unless the page or an earlier command wrote it."""
    name = re.sub(r":\w+$", "", word)
    path = folder / name
    if name in ("", ".") or (path.is_absolute() and not path.is_relative_to(folder)) or path.exists():
        return
    sources = [base / name for base in (ROOT, (ROOT / page).parent)]
    maker = OF_PAGES.get(page, {}).get(name) or FILES.get(name)
    if maker is None:
        maker = next((copied(str(source)) for source in sources if source.is_file()), None)
    if maker is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        maker(path)
