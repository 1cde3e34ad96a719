"""Completion in the shells themselves, as far as they are installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from hnfc.cli.own_options import SHELLS
from hnfc.cli.parsing import COMMANDS
from tests.terminal import hnfc

LINES = [("ana", "analyze"), ("check --fo", "--formats"), ("completion fi", "fish"), ("check --verb", "--verbose"),
         ("--calib", "--calibrate"), ("m.mlir -O stab", "stability"), ("explain softmax_fus", "softmax_fusion"),
         ("check --formats bf", "bf16"), ("run my_mod", "my_model.mlir")]  # fmt: skip
FIRST_WORD = [("ana", "analyze"), ("my_mod", "my_model.mlir")]
LOADED = {
    "bash": 'source {script}; COMP_WORDS=(hnfc {line}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )); _shtab_hnfc; echo "${{COMPREPLY[@]}}"',
    "fish": 'source {script}; complete -C "hnfc {line}"',
}


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scripts")
    for shell in SHELLS:
        (folder / shell).write_text(hnfc("completion", shell).stdout)
    return folder


def in_shell(shell: str, *arguments: str, cwd: Path | None = None) -> str:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False, cwd=cwd)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout


@pytest.mark.parametrize("shell", LOADED)
def test_a_shell_completes_commands_and_options(shell: str, scripts: Path) -> None:
    norc = {"bash": "--norc", "fish": "--no-config"}[shell]
    (scripts / "my_model.mlir").write_text("")
    for line, word in LINES:
        assert word in in_shell(shell, norc, "-c", LOADED[shell].format(script=scripts / shell, line=line), cwd=scripts).split(), line


def test_fish_completes_a_model_too(scripts: Path) -> None:
    (scripts / "my_model.mlir").write_text("")
    for line, word in FIRST_WORD:
        assert word in in_shell("fish", "--no-config", "-c", LOADED["fish"].format(script=scripts / "fish", line=line), cwd=scripts).split()


TYPED = """zmodload zsh/zpty
zpty z zsh -f
zpty -w z "fpath=({folder} \\$fpath); autoload -Uz compinit; compinit -u -D; PS1='> '; setopt NO_BEEP"
zpty -w -n z "hnfc {line}"$'\\t'
sleep 3
zpty -w -n z $'\\x15'"print -r end"$'\\n'
while zpty -r z line; do print -r -- "$line"; [[ $line == end* ]] && break; done
"""


@pytest.mark.parametrize(("line", "word"), [*FIRST_WORD, ("check --form", "--formats"), ("m.mlir -O stab", "stability")])
def test_zsh_completes_what_is_typed(line: str, word: str, scripts: Path) -> None:
    """A terminal of its own, since zsh completes nowhere else."""
    (scripts / "my_model.mlir").write_text("")
    (scripts / "_hnfc").write_text((scripts / "zsh").read_text())
    assert word in in_shell("zsh", "-f", "-c", TYPED.format(folder=scripts, line=line), cwd=scripts)


def test_zsh_loads_its_script(scripts: Path) -> None:
    loading = f"autoload -Uz compinit; compinit -u -D; eval \"$(cat {scripts / 'zsh'})\"; whence -w _shtab_hnfc; print $_comps[hnfc]"
    assert in_shell("zsh", "-f", "-c", loading).split() == ["_shtab_hnfc:", "function", "_shtab_hnfc"]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_is_in_the_script(shell: str, scripts: Path) -> None:
    text = (scripts / shell).read_text()
    assert [command for command in COMMANDS if command != "model" and command not in text] == []
