"""`einsum("ij,jk->ik", a, b)` as the expression that it stands for: a product of matrices where it is one, else products and sums.

Letters stand for the last axes of an operand; axes before them broadcast, as with `...`, which may be written.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from hnfc.dsl import syntax
from hnfc.dsl.diagnostics import Span

QUOTE = '"'
"""First and last character of a text, which the parser leaves in its name."""
_FORM = re.compile(r"(?:\.\.\.)?[A-Za-z]*(?:,(?:\.\.\.)?[A-Za-z]*)*(?:->(?:\.\.\.)?[A-Za-z]*)?")


class WrongEinsum(Exception):
    """A text that is no einsum which rules can say: the reason and a way out."""

    def __init__(self, message: str, help_: str) -> None:
        super().__init__(message)
        self.message, self.help = message, help_


@dataclass(frozen=True)
class _Part:
    """An expression and the letters of its last axes."""

    tree: syntax.Tree
    letters: str


def expanded(text: str, operands: Sequence[syntax.Tree], span: Span) -> syntax.Tree:
    """The expression. Raises WrongEinsum."""
    parts, result = _read(text, operands)
    product = _matrix_product(parts, result, span)
    return product if product is not None else _sum_of_products(parts, result, span)


def _read(text: str, operands: Sequence[syntax.Tree]) -> tuple[list[_Part], str]:
    plain = text.replace(" ", "")
    if not _FORM.fullmatch(plain):
        raise WrongEinsum(f'"{text}" is no einsum', 'as in `einsum("ij,jk->ik", a, b)`')
    left, arrow, right = plain.replace("...", "").partition("->")
    given = left.split(",")
    if len(given) != len(operands):
        message = f'"{text}" is for {len(given)} operands, but {len(operands)} are given'
        raise WrongEinsum(message, "give one operand for each list of letters")
    for letters in (*given, right):
        twice = next((letter for letter in letters if letters.count(letter) > 1), "")
        if twice:
            raise WrongEinsum(f"`{twice}` stands twice in `{letters}`", "rules have no diagonals; give the axes different letters")
    # as NumPy has it: without an arrow the letters that occur once, in the order of the alphabet
    result = right if arrow else "".join(sorted(letter for letter in set(left) - {","} if left.count(letter) == 1))
    new = next((letter for letter in result if letter not in left), "")
    if new:
        raise WrongEinsum(f"`{new}` is an axis of the result and of no operand", "drop it, or add it to an operand")
    return [_Part(tree, letters) for tree, letters in zip(operands, given, strict=True)], result


def _matrix_product(parts: Sequence[_Part], result: str, span: Span) -> syntax.Tree | None:
    """`a @ b` with transposes of the last two axes, where that is what it is."""
    if len(parts) != 2 or len(result) < 2:
        return None
    batch, row, column = result[:-2], result[-2], result[-1]
    for first, second in (parts, parts[::-1]):
        shared = (set(first.letters) & set(second.letters)) - set(result)
        if len(shared) != 1:
            return None
        (inner,) = shared
        left, right = _arranged(first, f"{batch}{row}{inner}", span), _arranged(second, f"{batch}{inner}{column}", span)
        if left is not None and right is not None:
            return syntax.Operator("@", (left, right), span)
    return None


def _arranged(part: _Part, letters: str, span: Span) -> syntax.Tree | None:
    """The operand with its axes in an order, if at most its last two change places."""
    if part.letters == letters:
        return part.tree
    if part.letters == _swapped(letters):
        return _call("transpose", (), part.tree, span)
    return None


def _sum_of_products(parts: Sequence[_Part], result: str, span: Span) -> syntax.Tree:
    """Operands with axes of size 1 where they lack a letter, their product, and its sum over the letters that the result lacks."""
    parts, turned, order = _in_one_order(parts, result, span)
    made: syntax.Tree | None = None
    for part in parts:
        tree = part.tree
        # from the right, so that the axes to the right of a new one are there
        for place in range(len(order) - 1, -1, -1):
            if order[place] not in part.letters:
                tree = _call("unsqueeze", (place - len(order),), tree, span)
        made = tree if made is None else syntax.Operator("*", (made, tree), span)
    assert made is not None
    summed = [place - len(order) for place, letter in enumerate(order) if letter not in result]
    if summed:
        made = _call("sum", tuple(summed), made, span)
    for place in summed:
        made = _call("squeeze", (place,), made, span)
    return _call("transpose", (), made, span) if turned else made


def _in_one_order(parts: Sequence[_Part], result: str, span: Span) -> tuple[list[_Part], bool, str]:
    """The operands, transposed where that gives all letters one order; whether the result is transposed at the end; the order."""
    for turns in itertools.product((False, True), repeat=len(parts) + 1):
        lists = [_swapped(letters) if turn else letters for letters, turn in zip((result, *(p.letters for p in parts)), turns, strict=True)]
        order = None if any(turn and len(each) < 2 for each, turn in zip(lists, turns, strict=True)) else _merged(lists)
        if order is not None:
            trees = [_call("transpose", (), part.tree, span) if turn else part.tree for part, turn in zip(parts, turns[1:], strict=True)]
            return [_Part(tree, letters) for tree, letters in zip(trees, lists[1:], strict=True)], turns[0], order
    raise WrongEinsum("its axes change places in another way than the last two of a matrix", "permute an operand: `permute(x, const p)`")


def _swapped(letters: str) -> str:
    return f"{letters[:-2]}{letters[-1:]}{letters[-2:-1]}"


def _merged(lists: Sequence[str]) -> str | None:
    """All letters in an order that agrees with every list, if there is one."""
    left = [list(letters) for letters in lists]
    order = ""
    while any(left):
        free = next((each[0] for each in left if each and not any(each[0] in other[1:] for other in left)), None)
        if free is None:
            return None
        order += free
        left = [[letter for letter in each if letter != free] for each in left]
    return order


def _call(name: str, axes: tuple[int, ...], operand: syntax.Tree, span: Span) -> syntax.Call:
    return syntax.Call(name, axes, (operand,), (), span, span)
