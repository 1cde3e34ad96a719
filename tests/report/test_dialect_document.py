"""The page of the dialect: every operation is on it, with what its class says."""

from __future__ import annotations

from hnfc.dialects.facts import Access, Accumulation, Exactness, Storage
from hnfc.dialects.num import OPERATIONS
from hnfc.report.dialect_document import dialect_markdown, member_docs


def _section(page: str, name: str) -> str:
    return page.split(f"\n### {name}\n")[1].split("\n##")[0]


def test_every_operation_has_a_section_with_its_meaning_and_torch_names() -> None:
    page = dialect_markdown()
    for operation in OPERATIONS.values():
        section = _section(page, operation.name)
        assert (operation.__doc__ or "").splitlines()[0] in section
        assert all(f"`{name}`" in section for name in operation.FACTS.torch)
        assert all(f"`{name}`" in section for name, _ in operation.get_irdl_definition().operands)


def test_a_section_reads_as_the_class_does() -> None:
    page = dialect_markdown()
    logarithm, addition = _section(page, "num.log"), _section(page, "num.add")
    assert "num.log $x attr-dict : types" in logarithm
    assert "| domain | 0 < x |" in logarithm and "commutative" not in logarithm
    assert "num.add $x, $y attr-dict : types" in addition
    assert "| commutative |" in addition and "| exactness | correct; error at most 1 u of the result |" in addition
    assert "| domain | y ≠ 0 |" in _section(page, "num.div")
    assert "| domain | -1 ≤ x ≤ 1 |" in _section(page, "num.asin")
    assert "| constant |" in _section(page, "num.constant")


def test_every_word_for_a_fact_is_explained() -> None:
    for kind in (Access, Accumulation, Exactness, Storage):
        assert [member for member, _ in member_docs(kind)] == list(kind)
