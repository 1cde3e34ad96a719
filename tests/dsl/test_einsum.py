"""einsum in rules: its value is NumPy's, and it is the product of matrices where it is one."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from hnfc.dsl import core
from hnfc.dsl.diagnostics import HnfError
from hnfc.dsl.parser import parse
from hnfc.dsl.printer import print_file
from hnfc.dsl.rulebook import load_text
from hnfc.dsl.soundness.balls import evaluate

SIZES = dict(zip("bijklm", (2, 3, 4, 5, 2, 3), strict=True))
TEXTS = [
    "ij,jk->ik", "ij,kj->ik", "ji,jk->ik", "ji,kj->ik", "ij,jk->ki", "ij,kj->ki", "ji,jk->ki", "bij,bjk->bik", "bij,bkj->bki",
    "...ij,...jk->...ik", "i,i->", "i,j->ij", "i,j->ji", "ij->ji", "ij->i", "ij->j", "ij->", "bij->bji", "ij,j->i", "ij,i->j", "i,ij,j->",
    "ij,ij->ij", "ij,jk", "ij,ij->", "bi,bj->bij", "ijk,k->ij", "i, i -> i", "ij,jk,kl->il", "ijk,jk->i", "bij,j->bi", "ij,ji->",
]  # fmt: skip


def value_of(text: str, arrays: list[np.ndarray]) -> np.ndarray:
    """The value of the einsum in a rule."""
    names = "xyz"[: len(arrays)]
    rule = load_text(f'rule r\n    exp(einsum("{text}", {", ".join(names)})) => exp({" + ".join(names)})\n', "f.hnf").rules[0]
    assert isinstance(rule.pattern, core.Apply)
    exact = {name: np.vectorize(Fraction, otypes=[object])(array) for name, array in zip(names, arrays, strict=True)}
    return np.asarray(evaluate(rule.pattern.operands[0], exact, {}).to_float())


@pytest.mark.parametrize("text", TEXTS)
def test_the_value_is_that_of_numpy(text: str) -> None:
    draw = np.random.default_rng(7)
    given = text.replace(" ", "").split("->")[0].replace("...", "").split(",")
    arrays = [draw.integers(-4, 5, [SIZES[letter] for letter in letters]) for letters in given]
    found, expected = value_of(text, arrays), np.einsum(text, *arrays)
    assert found.shape == expected.shape and (found == expected).all()


def test_axes_before_the_letters_broadcast() -> None:
    draw = np.random.default_rng(3)
    for text, shapes in (("ij,jk->ik", [(6, 3, 4), (4, 5)]), ("i,j->ij", [(6, 3), (6, 4)]), ("ij,i->j", [(6, 3, 4), (6, 3)])):
        arrays = [draw.integers(-4, 5, shape) for shape in shapes]
        dotted = ",".join(f"...{part}" for part in text.split("->")[0].split(",")) + "->..." + text.split("->")[1]
        assert (value_of(text, arrays) == np.einsum(dotted, *arrays)).all()


@pytest.mark.slow
def test_every_einsum_of_two_operands_with_few_letters() -> None:
    draw, refused, right = np.random.default_rng(5), 0, 0
    lists = ["".join(p) for n in range(1, 4) for p in itertools.permutations("ijk", n)]
    for first, second in itertools.product(lists, repeat=2):
        for result in (r for r in ("", *lists) if not set(r) - set(first + second)):
            arrays = [draw.integers(-4, 5, [SIZES[letter] for letter in letters]) for letters in (first, second)]
            try:
                found = value_of(f"{first},{second}->{result}", arrays)
            except HnfError:
                refused += 1
                continue
            assert (found == np.einsum(f"{first},{second}->{result}", *arrays)).all()
            right += 1
    assert right > refused > 0


@pytest.mark.parametrize(
    ("text", "product"),
    [
        ("ij,jk->ik", "x @ y"),
        ("bij,bkj->bik", "x @ transpose(y)"),
        ("ij,jk->ki", "transpose(y) @ transpose(x)"),
        ("ji,jk->ik", "transpose(x) @ y"),
    ],
)
def test_products_of_matrices_are_the_operation(text: str, product: str) -> None:
    made = [load_text(f"rule r\n    exp({side}) => x + y\n", "f.hnf").rules[0].pattern for side in (f'einsum("{text}", x, y)', product)]
    assert made[0] == made[1]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ('einsum("ii->i", x)', "stands twice"),
        ('einsum("ij,jk->ik", x)', "for 2 operands, but 1"),
        ('einsum("bqhd,bkhd->bhqk", x, y)', "change places"),
        ("einsum(x, y)", "takes a text"),
        ('einsum("ij,jk-ik", x, y)', "is no einsum"),
        ('einsum("ij->ik", x)', "of no operand"),
    ],
)
def test_what_is_wrong_is_named(call: str, words: str) -> None:
    with pytest.raises(HnfError, match=words) as caught:
        load_text(f"rule r\n    {call} => x\n", "f.hnf")
    assert caught.value.diagnostics[0].code == "HNF0242" and caught.value.diagnostics[0].help


def test_a_file_with_an_einsum_is_formatted() -> None:
    text = 'rule r\n    exp(einsum("ij, jk -> ik", a, b)) => exp(a @ b) + 0\n'
    assert print_file(parse(text, "f.hnf")) == text
