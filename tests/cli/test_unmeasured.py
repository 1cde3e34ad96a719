"""A report without errors says why, and what to give."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.terminal import hnfc

ATTENTION = Path(__file__).parents[1] / "data" / "small_attention.mlir"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--range", "arg0=-10:10"], "arg1, arg2 have no range: give --range arg1=LO:HI, --range LO:HI for every input"),
        (["--range", "arg0=-1:1", "--range", "arg2=-1:1"], "arg1 has no range: give --range arg1=LO:HI"),
        ([], "give --range arg0=LO:HI or --calibrate F.npz"),
        (["--range", "-1:1", "--no-validate"], "--no-validate leaves it out"),
    ],
)
def test_the_reason(options: list[str], words: str, tmp_path: Path) -> None:
    done = hnfc(ATTENTION, *options, "-o", "o.mlir", cwd=tmp_path)
    assert f"errors were not measured: {words}" in " ".join(done.stderr.split()), done.stderr


def test_nothing_where_they_were(tmp_path: Path) -> None:
    assert "not measured" not in hnfc(ATTENTION, "--range", "-1:1", "-o", "o.mlir", cwd=tmp_path).stderr
