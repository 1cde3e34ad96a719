"""Collections of rules: imports, groups, and what goes wrong with them."""

from __future__ import annotations

import pytest

from hnfc.dsl.diagnostics import HnfError
from hnfc.dsl.rulebook import load_files, shipped


def write(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.hnf").write_text(text)
    return folder / f"{next(iter(files))}.hnf"


def fault(path):
    with pytest.raises(HnfError) as caught:
        load_files([path])
    (diagnostic,) = caught.value.diagnostics
    return diagnostic


def test_definitions_and_rules_of_imported_files(tmp_path):
    main = write(
        tmp_path,
        main='import "base.hnf"\nlibrary mine\nrule a twice(exp(x)) => exp(x) + exp(x)',
        base="library base\ndef twice(x) = 2 * x\nrule b abs(abs(x)) => abs(x)",
    )
    book = load_files([main])
    assert {rule.name: rule.group for rule in book.rules} == {"a": "mine", "b": "base"}
    assert list(book.groups()) == ["base", "mine"] and [r.name for r in book.only(["mine"]).rules] == ["a"]
    assert book.named("a").pattern.name == "mul" and book.named("nothing") is None


def test_a_file_is_loaded_once(tmp_path):
    main = write(tmp_path, main='import "b.hnf"\nimport "c.hnf"', b='import "c.hnf"', c="rule r exp(x) => abs(x)")
    assert len(load_files([main, tmp_path / "c.hnf"]).rules) == 1


def test_imports_in_a_ring(tmp_path):
    diagnostic = fault(write(tmp_path, a='import "b.hnf"', b='import "a.hnf"'))
    assert diagnostic.code == "HNF0301" and "import each other" in diagnostic.message


def test_an_import_that_is_not_there(tmp_path):
    diagnostic = fault(write(tmp_path, a='rule r exp(x) => abs(x)\nimport "b.hnf"'))
    assert diagnostic.code == "HNF0304" and diagnostic.span.line == 2 and str(tmp_path / "b.hnf") in diagnostic.help


def test_two_rules_of_one_name_in_two_files(tmp_path):
    diagnostic = fault(write(tmp_path, a='import "b.hnf"\nrule r exp(x) => abs(x)', b="rule r log(x) => abs(x)"))
    assert diagnostic.code == "HNF0201" and "b.hnf" in diagnostic.message


def test_a_file_that_is_no_text(tmp_path):
    (tmp_path / "a.hnf").write_bytes(b"\xff\xfe\x00rule")
    assert fault(tmp_path / "a.hnf").code == "HNF0303"


def test_a_named_file_that_is_not_there(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        load_files([tmp_path / "missing.hnf"])


def test_the_shipped_rules():
    book = shipped()
    assert len(book.rules) > 100 and book is shipped()
    assert all(file.startswith("rules/") for file in book.sources)
