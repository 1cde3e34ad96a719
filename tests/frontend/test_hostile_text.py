"""Text in which MLIR's reader ends the process, or takes hours, is refused in a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from hnfc.cli.main import main
from hnfc.core.errors import ModelError
from hnfc.frontend.reading import read
from hnfc.frontend.trial import has_endless_number, is_nested

VALUE = "!torch.vtensor<[4],f32>"
FUNCTION = f"func.func @main(%a: {VALUE}) -> {VALUE} {{ %r = torch.aten.relu %a {{0}}: {VALUE} -> {VALUE}\n return %r : {VALUE} }}"


DEEP = "[" * 50_000


@pytest.mark.parametrize(
    "text",
    [
        "module {" * 20_000,
        FUNCTION.replace("{0}", f"{{x = {DEEP}}} "),
        FUNCTION.replace("{0}", f'{{w = "{"]" * 60_000}", x = {DEEP}}} '),
    ],
)
def test_brackets_that_are_nested_too_deeply(text: str) -> None:
    with pytest.raises(ModelError, match="nested too deeply"):
        read(text.encode())


def test_what_is_nested_less_is_read() -> None:
    """Brackets in quotes and in comments, and arrows, do not count; a text that is nested deeply but can be read is read."""
    assert not is_nested(b'"' + b"(" * 300 + b'" // ' + b"(" * 300) and not is_nested(b"(%a) -> (i32)\n" * 300)
    assert is_nested(b"(" * 300) and is_nested(b"-> (" * 300)
    # what looks like the bytes of weights hides no brackets
    assert is_nested(b'// "0x' + b"F" * 70_000 + b"\n" + b"(" * 300 + b'"') and is_nested(b'"0x' + b"F" * 70_000 + b'" ' + b"(" * 300)
    deep = "[" * 250 + "]" * 250
    assert "relu" in str(read(FUNCTION.replace("{0}", f"{{x = {deep}}} ").encode()))


def test_a_number_with_too_many_digits() -> None:
    with pytest.raises(ModelError, match="too many digits"):
        read(FUNCTION.replace("{0}", f"{{x = {'9' * 100_000}}} ").encode())
    assert has_endless_number(b'"0x' + b"1" * 70_000 + b'" = ' + b"9" * 6000)
    assert not has_endless_number(b'dense<"0x' + b"0" * 100_000 + b'"> : tensor<12500xf32>')


@pytest.mark.parametrize("name", [b'"\xff\xfe"', rb'"\FF\FE"'])
def test_a_name_that_is_no_text(name: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.mlir"
    path.write_bytes(FUNCTION.replace("{0}", "").encode().replace(b"@main", b"@" + name))
    assert main([str(path), "-O", "none"]) == 1
    assert capsys.readouterr().err.splitlines()[-1].endswith("a name in the model is not text in UTF-8")
