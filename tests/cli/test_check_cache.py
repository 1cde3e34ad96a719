"""What a check said is said again without judging, and only as long as nothing that it rests on has changed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hnfc.cli import judging
from hnfc.cli.main import main
from hnfc.cli.parsing import COMMANDS, command_parser
from hnfc.dsl.store import add_to_store, read_store
from hnfc.report import check_cache
from hnfc.report.check_cache import FOLDERS, CheckQuery, CheckReport

ROOT = Path(__file__).parents[2]
RULE = 'library mine "mine"\nimport "defs.hnf"\nrule up log(twice(x)) => log(x) + log(2) where x > 0\n'
DEFINITIONS = 'library defs "defs"\ndef twice(x) = 2 * x\n'
HEAVY = ("z3", "flint", "numpy", "xdsl", "lark")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HNFC_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "defs.hnf").write_text(DEFINITIONS, encoding="utf-8")
    path = tmp_path / "my.hnf"
    path.write_text(RULE, encoding="utf-8")
    return path


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The rules that are looked up or judged; there are none where an answer is remembered."""
    names: list[str] = []
    right = judging.verdicts

    def told(rules: Any, **how: Any) -> Any:
        given = list(rules)
        names.extend(rule.name for rule in given)
        return right(given, **how)

    monkeypatch.setattr(judging, "verdicts", told)
    return names


def check(path: Path, *options: str) -> int:
    return main(["check", str(path), "--formats", "f16", *options])


def test_an_answer_is_given_again(file: Path, judged: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    first = check(file), capsys.readouterr().err
    assert judged == ["up"]
    assert (check(file), capsys.readouterr().err) == first
    assert judged == ["up"] and "1 rule: 1 proved" in first[1]


def test_a_refutation_is_given_again_with_its_code(file: Path, judged: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(RULE.replace("log(2)", "log(3)"), encoding="utf-8")
    assert check(file) == 1
    first = capsys.readouterr().err
    assert check(file) == 1 and capsys.readouterr().err == first and "counterexample" in first
    assert judged == ["up"]


def test_what_has_changed_is_judged_anew(file: Path, judged: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    changes = [
        lambda: file.write_text(RULE + "rule down exp(x) * exp(y) => exp(x + y)\n", encoding="utf-8"),
        lambda: (file.parent / "defs.hnf").write_text(DEFINITIONS.replace("2 * x", "2 * x * 1"), encoding="utf-8"),
        lambda: monkeypatch.setattr(check_cache, "version", lambda: "another"),
    ]
    check(file)
    for change in changes:
        change()
        before = len(judged)
        check(file)
        assert len(judged) > before
        before = len(judged)
        check(file)
        assert len(judged) == before


@pytest.mark.parametrize(
    "options", [["--why"], ["--no-ieee"], ["--assume", "no-nans"], ["--no-cache"], ["--json", "OUT"], ["--smt2", "OUT"]]
)
def test_another_question_has_another_answer(file: Path, judged: list[str], options: list[str], tmp_path: Path) -> None:
    check(file)
    check(file, *(str(tmp_path / "out") if option == "OUT" else option for option in options))
    assert judged == ["up", "up"]


def test_what_is_not_decided_is_not_kept(file: Path, judged: list[str]) -> None:
    file.write_text('library mine "mine"\nrule open lgamma(x + 1) => lgamma(x) + log(x) where x > 0\n', encoding="utf-8")
    assert check(file) == check(file) == 3
    assert judged == ["open", "open"]


@pytest.mark.parametrize("spoilt", ["", "[]", "{}", '{"version": 1}', "VERSION", "ROWS"])
def test_a_broken_answer_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoilt: str) -> None:
    monkeypatch.setenv("HNFC_CACHE_DIR", str(tmp_path))
    question = CheckQuery(["a.hnf"], {"why": False})
    report = CheckReport((), ("rule", "reals", "s"), (("a", "PROVED", ""),), "1 rule: 1 proved", 0)
    question.keep({}, report)
    assert question.answer() == report
    data = read_store(question.store)
    replaced = {"VERSION": {"version": "older"}, "ROWS": {"report": {**data["report"], "rows": 3}}}
    if spoilt in replaced:
        add_to_store(question.store, replaced[spoilt])
    else:
        question.store.write_text(spoilt, encoding="utf-8")
    assert question.answer() is None


def test_what_is_known_is_said_without_the_prover(file: Path) -> None:
    """The reason that it takes a tenth of a second."""
    assert check(file) == 0
    code = "import sys; from hnfc.cli.main import main; main(sys.argv[1:]); print(*(m for m in sys.modules if '.' not in m))"
    done = subprocess.run(
        [sys.executable, "-c", code, "check", str(file), "--formats", "f16"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "1 rule: 1 proved" in done.stderr
    assert not set(HEAVY) & set(done.stdout.split())


def test_the_version_is_of_all_that_a_check_loads(file: Path) -> None:
    code = "import sys; from hnfc.cli.main import main; main(sys.argv[1:]); print(*(m for m in sys.modules if m.startswith('hnfc.')))"
    done = subprocess.run(
        [sys.executable, "-c", code, "check", str(file), "--no-cache", "--why"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    loaded = {name.split(".")[1] for name in done.stdout.split()}
    assert {"cli", "report"} <= loaded <= set(FOLDERS)


def test_a_restored_cache_is_proved_again_unless_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The key stays behind, as where CI restores the folder of the cache alone; an answer that was edited shows which one was given."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HNFC_CACHE_DIR", str(tmp_path / "cache"))
    rules = tmp_path / "r.hnf"
    rules.write_text("rule r\n    x + 0 => x\n")
    assert main(["check", str(rules)]) == 0
    for file in (tmp_path / "cache").rglob("*.json"):
        file.write_text(file.read_text().replace("PROVED", "REFUTED").replace('"code": 0', '"code": 1'))
    (tmp_path / "config" / "hnfc" / "key").unlink()
    assert main(["check", str(rules), "--trust-cache"]) == 1 and "REFUTED" in capsys.readouterr().err
    (tmp_path / "config" / "hnfc" / "key").unlink(missing_ok=True)
    assert main(["check", str(rules)]) == 0 and "PROVED" in capsys.readouterr().err
    assert main(["check", str(rules), "--no-cache", "--trust-cache"]) == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_what_is_said_of_the_cache(command: str) -> None:
    wanted = {"--no-cache", "--trust-cache"}
    assert wanted <= command_parser(command)._option_string_actions.keys()
