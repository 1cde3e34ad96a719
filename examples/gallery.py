"""Ten failures before and after, as a page: python examples/gallery.py > docs/gallery.md."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import annuity
import distances
import gru
import guided_filter
import hazard
import info_nce
import mixture
import naive_attention
import rms_norm
import vae
from before_and_after import Example, compare

MODULES = (naive_attention, info_nce, vae, mixture, gru, rms_norm, distances, guided_filter, annuity, hazard)
HEAD = """# Ten failures, before and after

Each is a file of `examples/` that runs by itself (`python examples/vae.py`). Numbers are the elements that are not finite, else the
largest error beside the largest element, of the result and of the gradient by each input, on the sample of the file; the right values are
those of a textbook form in float64. `python examples/gallery.py` writes this page.
"""


def forward_of(example: Example) -> str:
    """The source of what is wrong."""
    lines = inspect.getsource(type(example.model).forward).splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[indent:] for line in lines)


def words_of(data: dict[str, Any]) -> str:
    """Names of the rules and kinds of search that mended a model."""
    kinds = {"rescaling": "a shift of exponents", "widening": "float64 in a part", "found": "a form found for it"}
    made = dict.fromkeys(kinds.get(each["group"], f"`{each['rule']}`") for each in data["rewrites"])
    if data["mended_gradients"]:
        made["gradients that meet no infinite derivative"] = None
    return ", ".join(made)


def section(module: object, example: Example) -> str:
    """One failure as markdown."""
    before, after, difference = compare(example)
    names = ["result", *(f"gradient {place + 1}" for place in range(len(before) - 1))]
    rows = [f"| {name} | {old} | {new} |" for name, old, new in zip(names, before, after, strict=True)]
    file = Path(str(module.__file__)).name  # type: ignore[attr-defined]
    about = f"{(module.__doc__ or '').strip()} Mended by {words_of(difference.data[0])}."
    return "\n".join(
        [
            f"## {example.title[0].upper()}{example.title[1:]}", "", about, "",
            f"`examples/{file}`:", "", "```python", forward_of(example), "```", "",
            "| | before | after |", "| --- | --- | --- |", *rows, "",
        ]
    )  # fmt: skip


if __name__ == "__main__":
    print(HEAD)
    for module in MODULES:
        print(f"{module.EXAMPLE.title} …", file=sys.stderr)
        print(section(module, module.EXAMPLE))
