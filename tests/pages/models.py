"""Small models in the torch dialect, with modules and places."""

from __future__ import annotations

from pathlib import Path

_HEAD = "!torch.vtensor<[3,5],f32>"


def unary(*operations: str) -> str:
    """A function that applies operations of one operand, one after another, each in a module of its own."""
    lines = [f"func.func @main(%x0: {_HEAD}) -> {_HEAD} {{"]
    for number, name in enumerate(operations):
        place = f'loc("block.{number}.{name}"("model.py":{number + 3}:0))'
        lines.append(f"  %x{number + 1} = torch.aten.{name} %x{number} : {_HEAD} -> {_HEAD} {place}")
    return "\n".join([*lines, f"  return %x{len(operations)} : {_HEAD}", "}"])


TEXTS = {
    "log of exp": unary("exp", "log"),
    "nothing to do": unary("tanh"),
    "sigmoid": unary("neg", "sigmoid", "log"),
    "twice": unary("exp", "log", "tanh", "exp", "log"),
    "no operation": unary(),
}


def written(text: str, folder: Path) -> Path:
    """The text as a file."""
    path = folder / "model.mlir"
    path.write_text(text)
    return path
