"""Commands of the pages end as the pages say, and print what the pages show."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from hnfc.cli.parsing import COMMANDS
from tests.documentation import files
from tests.documentation.test_blocks import PAGES, ROOT, blocks, commands, name_of
from tests.terminal import hnfc

ALL = sorted({*PAGES, *(page for folder in ("benchmarks", ".github") for page in (ROOT / folder).glob("*.md"))})
SHELL = ("", "bash", "sh", "console", "text")


class Command(NamedTuple):
    """The text of a command after `hnfc`, and what the page shows below it."""

    text: str
    shown: str = ""


class Shown(NamedTuple):
    """A block: text of a file that the reader writes, or what the command with this beginning printed."""

    text: str
    file: str = ""
    command: str = ""


def of_block(page: str, language: str, text: str) -> Iterator[Command | Shown]:
    for words, file in files.SHOWN.get(page, ()):
        if re.search(words, text, re.MULTILINE):
            yield Shown(text, file=file)
    for words, command in files.PRINTED.get(page, ()):
        if re.search(words, text, re.MULTILINE):
            yield Shown(text, command=command)
    if language not in SHELL:
        return
    if not text.startswith("$ "):
        yield from (Command(shlex.join(words)) for words in commands(text) if words[0] != "watch,")
        return
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, shown = part.partition("\n")
        name, _, rest = line.partition(" ")
        if name == "cat":
            yield Shown(shown, file=rest)
        elif name == "hnfc":
            yield Command(rest, shown)


def names_an_argument(text: str) -> bool:
    """True of a command, false of the mere name of one, with or without options."""
    first, *others = text.split()
    if first in (*COMMANDS, "help"):
        return bool(others) and not others[0].startswith("-")
    # `hnfc MODEL` is the name of the command that has none
    return bool(others) or not first.isupper()


def steps(page: Path, name: str = "") -> list[Command | Shown]:
    """Commands, files and outputs of a page in their order, those within a line too."""
    text, name = page.read_text(encoding="utf-8"), name or name_of(page)
    found: list[Command | Shown] = []
    for match in re.finditer(r"^( *)```(\w*)\n(.*?)^ *```|`(?:\$ )?hnfc ([^`]+)`", text, re.DOTALL | re.MULTILINE):
        if match[4] is None:
            found += of_block(name, match[2], textwrap.dedent(match[3]))
        elif names_an_argument(match[4]):
            found.append(Command(" ".join(match[4].split())))
    return found


def substituted(text: str) -> str:
    for place, value in files.PLACEHOLDERS:
        text = re.sub(place, value, text)
    return text


def left_out(text: str) -> str | None:
    """The entry of the table that a command is left out by."""
    return next((pattern for pattern in files.LEFT_OUT if re.search(pattern, text)), None)


def missing(text: str) -> str | None:
    """The package that a command needs and that is not installed."""
    return next((name for pattern, name in files.NEEDS.items() if re.search(pattern, text) and find_spec(name) is None), None)


def words_of(text: str) -> str:
    """The words of a text, without numbers and signs, apart by single spaces."""
    plain = re.sub(r"(?<![A-Za-z_])[-+]?\d[\d.,_]*(e[-+]?\d+)?", " ", text)
    return " ".join(re.findall(r"[A-Za-z_]\w*", plain))


def not_printed(shown: str, printed: str) -> list[str]:
    """Lines of a page whose words do not occur one after another in an output."""
    found = f" {words_of(printed)} "
    parts = [part for line in shown.splitlines() for part in line.split("…")]
    return [part for part in parts if f" {words_of(part)} " not in found and words_of(part)]


def run(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """The command in a folder; one that starts processes itself begins as a process of its own, not as a fork."""
    if "--jobs" not in words:
        return hnfc(*words, cwd=folder)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120"}
    command = [sys.executable, "-m", "hnfc", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False)


WITH_COMMANDS = [page for page in ALL if any(isinstance(step, Command) for step in steps(page))]


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_COMMANDS, ids=name_of)
def test_commands_run(page: Path, tmp_path: Path) -> None:
    name = name_of(page)
    printed: dict[str, str] = {}
    absent: set[str] = set()
    faults: list[str] = []
    for step in steps(page):
        if isinstance(step, Shown) and step.file:
            (tmp_path / step.file).write_text(step.text, encoding="utf-8")
            continue
        if isinstance(step, Shown):
            command, output = next(((c, o) for c, o in reversed(printed.items()) if c.startswith(step.command)), ("", ""))
            if command:  # else its package is not installed
                faults += [f"hnfc {command}: does not print {line!r}" for line in not_printed(step.text, output)]
            continue
        command = substituted(step.text)
        if left_out(command):
            continue
        if package := missing(command):
            absent.add(package)
            continue
        words = shlex.split(command)
        for word in words:
            files.provide(name, word, tmp_path)
        done = run(words, tmp_path)
        printed[command] = done.stdout + "\n" + done.stderr
        if done.returncode != 0:  # no page has a command that fails
            faults.append(f"hnfc {command}: exit code {done.returncode}: {done.stderr[-600:]}")
        faults += [f"hnfc {command}: does not print {line!r}" for line in not_printed(step.shown, printed[command])]
    assert faults == [], "\n".join(faults)
    if absent:
        pytest.skip(f"all other commands ran; these packages are not installed: {', '.join(sorted(absent))}")


def sessions(page: Path) -> list[str]:
    return [text for _, text in blocks(page) if text.startswith(">>> ")]


def test_every_session_is_run() -> None:
    assert {name_of(page) for page in ALL if sessions(page)} == {*files.SESSIONS, "docs/research.md"}


@pytest.mark.slow
@pytest.mark.parametrize("name", files.SESSIONS)
def test_sessions_print_what_they_show(name: str, tmp_path: Path) -> None:
    text = "".join(sessions(ROOT / name))
    program = files.SESSIONS[name] + "\n".join(re.findall(r"^(?:>>>|\.\.\.) ?(.*)", text, re.MULTILINE))
    for file in re.findall(r"^from (\w+) import", program, re.MULTILINE):
        files.provide(name, f"{file}.py", tmp_path)
    (tmp_path / "session.py").write_text(program)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "session.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert not_printed(re.sub(r"^(>>>|\.\.\.).*", "", text, flags=re.MULTILINE), done.stdout) == []


def test_commands_are_found_and_few_are_left_out() -> None:
    texts = [substituted(step.text) for page in WITH_COMMANDS for step in steps(page) if isinstance(step, Command)]
    omitted = [text for text in texts if left_out(text)]
    assert len(texts) > 85 and len(omitted) < 6
    assert {left_out(text) for text in omitted} == set(files.LEFT_OUT)
    assert [place for place in re.findall(r"\b[A-Z]{4,}\b", " ".join(texts)) if place != "HOST"] == []


def test_every_entry_of_the_tables_is_used() -> None:
    texts = [step.text for page in WITH_COMMANDS for step in steps(page) if isinstance(step, Command)]
    after = [substituted(text) for text in texts]
    assert [place for place, _ in files.PLACEHOLDERS if not any(re.search(place, text) for text in texts)] == []
    assert [name for name in files.FILES if not any(name in re.split(r"[ :]", text) for text in after)] == ["levels.py"]
    assert [pattern for pattern in files.NEEDS if not any(re.search(pattern, text) for text in after)] == []
    assert [path for reason in files.LEFT_OUT.values() if not (ROOT / (path := reason.rpartition(": ")[2])).exists()] == []
    shown = {name_of(page): [step for step in steps(page) if isinstance(step, Shown)] for page in WITH_COMMANDS}
    for page in (*files.SHOWN, *files.PRINTED):
        entries = [*files.SHOWN.get(page, ()), *files.PRINTED.get(page, ())]
        assert {name for _, name in entries} <= {step.file or step.command for step in shown[page]}


def test_outputs_are_compared_by_words() -> None:
    printed = "softmax_fusion\n  at    model.py:7   error 475 of 768 not finite → 1.1e-04, in 0.12 s\n"
    assert not_printed("softmax_fusion\n    at  model.py:22  error 4 of 7 not finite → 2e-05, in 3 s\n…\n", printed) == []
    assert not_printed("log_fusion\nerror … → 1e-4\n", printed) == ["log_fusion"]
    assert not_printed("error 4 of 7 finite", printed) == ["error 4 of 7 finite"]
    assert not_printed("soft", printed) == ["soft"]


def test_steps_of_a_page(tmp_path: Path) -> None:
    text = """Run `hnfc explain RULE`, not `hnfc check`, `hnfc run --compare` or `hnfc MODEL`.

```
$ cat a.fpcore
(FPCore (x) x)

$ hnfc analyze a.fpcore
a   0
$ ls
```

```python
hnfc.optimize(model)
```

```
hnfc check my.hnf   # says so
hnfc test my.hnf ; eval "$(hnfc completion bash)"
```
"""
    (tmp_path / "page.md").write_text(text)
    found = steps(tmp_path / "page.md", "page.md")
    assert found == [
        Command("explain RULE"), Shown("(FPCore (x) x)\n\n", file="a.fpcore"), Command("analyze a.fpcore", "a   0\n"),
        Command("check my.hnf"), Command("test my.hnf"), Command("completion bash"),
    ]  # fmt: skip
    assert substituted("explain RULE") == "explain exp_product"
