"""Options of a project in pyproject.toml, colours, and a check that goes on."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from hnfc.cli.colours import coloured, wanted
from tests.terminal import hnfc

RULES = "rule a\n    exp(log(x)) => x\n\nrule b\n    sqrt(x * x) => x\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "my.hnf").write_text(RULES)
    return tmp_path


def write(folder, text):
    (folder / "pyproject.toml").write_text(text)


def test_options_come_from_the_project(folder):
    write(folder, "[tool.hnfc.check]\nno-ieee = true\njson = 'out.json'\n")
    (folder / "below").mkdir()
    done = hnfc("check", "../my.hnf", cwd=folder / "below")
    assert done.returncode == 1 and "in floating point" not in done.stderr and (folder / "below" / "out.json").exists()


def test_the_command_line_comes_first(folder):
    write(folder, "[tool.hnfc.discover]\nsize = 3\nterms = 5\n")
    done = hnfc("discover", "exp, log", "--terms", "100000", "--size", "1", "-o", "f.hnf", cwd=folder)
    assert done.returncode == 0 and "raise --terms" not in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[tool.hnfc.check]\nlimt = 3\n", "there is no option `limt`; did you mean `limit`?"),
        ("[tool.hnfc.chekc]\nlimit = 3\n", "there is no command `chekc`; did you mean `check`?"),
        ("[tool.hnfc.check]\nlimit = 'long'\n", "cannot read 'long'"),
        ("[tool.hnfc.check]\nno-ieee = 'yes'\n", "is true or false"),
        ("[tool.hnfc.check]\nlimit = [1, 2]\n", "is a text or a number"),
        ("[tool]\nhnfc = 3\n", "is a table"),
        ("[tool.hnfc]\ncheck = 3\n", "is no table"),
    ],
)
def test_a_wrong_option_of_the_project(folder, text, words):
    write(folder, text)
    done = hnfc("check", "my.hnf", cwd=folder)
    assert done.returncode == 2 and words in done.stderr and "pyproject.toml" in done.stderr


@pytest.mark.parametrize("text", ["[tool.hnfc.check", "[tool.other]\nx = 1\n", ""])
def test_what_is_not_for_hnfc_is_left_alone(folder, text):
    write(folder, text)
    assert hnfc("check", "my.hnf", "--no-ieee", cwd=folder).returncode == 1


class Stream:
    def __init__(self, terminal):
        self.isatty = lambda: terminal


@pytest.mark.parametrize(
    ("terminal", "environment", "expected"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (False, {"FORCE_COLOR": "1"}, True),
        (True, {"TERM": "dumb"}, False),
        (True, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
    ],
)
def test_who_gets_colours(terminal, environment, expected, monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert wanted(Stream(terminal)) is expected


def test_statuses_have_colours_and_names_have_none():
    shown = coloured("error[HNF1]: x\nrule  PROVED\nPROVED_x no-PROVED an error: y")
    assert shown == "\x1b[31merror\x1b[0m[HNF1]: x\nrule  \x1b[32mPROVED\x1b[0m\nPROVED_x no-PROVED an error: y"


def test_a_check_goes_on(folder):
    arguments = ["hnfc", "check", str(folder / "my.hnf"), "--no-ieee", "--watch"]
    code = f"import sys; sys.argv = {arguments}; from hnfc.cli.main import main; sys.exit(main())"
    environment = {**os.environ, "NO_COLOR": "1"}
    with subprocess.Popen([sys.executable, "-u", "-c", code], stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        try:
            assert "1 refuted" in until(process.stderr, "2 rules:")
            time.sleep(0.05)
            (folder / "my.hnf").write_text("rule a\n    exp(log(x)) => x\n")
            assert "1 rule: 1 proved" in until(process.stderr, "1 rule:")
            (folder / "my.hnf").write_text("rule a\n    epx(x) => x\n")
            assert "did you mean `exp`" in until(process.stderr, "did you mean")
        finally:
            process.kill()


def until(stream, words):
    for line in stream:
        if words in line:
            return line
    raise AssertionError(f"{words} did not come")


def test_stdin_is_not_watched():
    done = hnfc("check", "-", "--watch", input=RULES)
    assert done.returncode == 2 and "stdin does not change" in done.stderr
