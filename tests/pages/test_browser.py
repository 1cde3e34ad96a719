"""Reports in a real browser: clicks, keys, search, themes, print, and no error of a script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pages.browser import opened
from tests.pages.models import TEXTS, written
from tests.terminal import hnfc

ATTENTION = Path(__file__).parents[2] / "examples" / "naive_attention.mlir"
CONTRAST = (Path(__file__).parent / "contrast.js").read_text()
RULES = """rule relu_scale "scale moves out"
    relu(s * x) => s * relu(x)
rule sqrt_of_square "no sign"
    sqrt(x * x) => abs(x)
"""
PROGRAMS = """(FPCore (x) :name "difference <b>" :pre (<= 1 x 1e15) (- (sqrt (+ x 1)) (sqrt x)))
(FPCore (x) :name "sum" :pre (<= 1 x 2) (+ x 1))
(FPCore (x) :name "odd" (sinc x))
"""


_SAMPLES = ("--calibrate", "samples.npz")
COMMANDS: dict[str, tuple[object, ...]] = {
    "model": (ATTENTION, "-O", "stability", "--range", "-40:40", "-q", "-o", "out.mlir"),
    "analysis": ("analyze", ATTENTION, "--range", "-1:1"),
    "refused": ("precision", ATTENTION, *_SAMPLES, "--formats", "bf16", "--target-accuracy", "1e-7"),
    "check": ("check", "my.hnf", "--formats", "f16"),
    "accuracy": ("programs.fpcore", "-O", "accuracy", "-o", "out.fpcore"),
}
MORE: dict[str, tuple[object, ...]] = {
    "run": ("run", ATTENTION, "--inputs", "samples.npz", "--compare"),
    "estimate": ("analyze", ATTENTION, *_SAMPLES, "--estimate", "--weights"),
    "precision": ("precision", ATTENTION, *_SAMPLES),
    "explain": ("explain", "softmax_fusion", "log1p_fusion"),
    "bounds": ("analyze", "programs.fpcore"),
}
"""Reports whose pages are made of the same parts."""


def written_reports(folder: Path, commands: dict[str, tuple[object, ...]]) -> dict[str, Path]:
    """The report of each command."""
    np.savez(folder / "samples.npz", **{f"arg{i}": np.linspace(-2, 2, 256, dtype=np.float32).reshape(1, 2, 8, 16) for i in range(3)})
    (folder / "my.hnf").write_text(RULES)
    (folder / "programs.fpcore").write_text(PROGRAMS)
    for name, arguments in commands.items():
        done = hnfc(*arguments, "--report", f"{name}.html", cwd=folder)
        expected = {"refused": 1, "check": 1, "bounds": 1}.get(name, 0)
        assert done.returncode == expected and "Traceback" not in done.stderr, done.stderr
    return {name: folder / f"{name}.html" for name in commands}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return written_reports(tmp_path_factory.mktemp("reports"), COMMANDS)


@pytest.fixture
def page(browser: Any, reports: dict[str, Path]) -> Iterator[Any]:
    with opened(browser, reports["model"], viewport={"width": 1300, "height": 900}) as found:
        yield found


UNNAMED = """[...document.querySelectorAll('button, input, select, svg .box[tabindex], [role=img], [role=region], nav')]
    .filter(e => !(e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length)).map(e => e.outerHTML.slice(0, 80))"""


def test_every_report_opens_without_an_error_and_names_its_parts(browser: Any, reports: dict[str, Path]) -> None:
    open_all(browser, reports)


@pytest.mark.slow
def test_the_other_reports_open_without_an_error_and_name_their_parts(browser: Any, tmp_path: Path) -> None:
    open_all(browser, written_reports(tmp_path, MORE))


def open_all(browser: Any, reports: dict[str, Path]) -> None:
    for name, file in reports.items():
        assert file.stat().st_size < 3_000_000, name
        with opened(browser, file) as page:
            page.click("#fold")
            assert page.locator("h1").count() == 1 and page.locator(".headline").inner_text(), name
            for plot in page.locator(".plot > div").all():
                plot.locator("svg").wait_for(timeout=5000)
            assert "undefined" not in page.locator("main").inner_text(), name
            assert page.evaluate(UNNAMED) == [] and page.evaluate("document.documentElement.lang") == "en"
            ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
            assert len(ids) == len(set(ids)), name


def test_themes_follow_the_system_and_the_button(browser: Any, reports: dict[str, Path]) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    with opened(browser, reports["accuracy"], color_scheme="dark") as page:
        assert page.evaluate(ground) == "rgb(17, 20, 23)"
        page.click("#theme")
        assert page.evaluate(ground) == "rgb(246, 247, 248)"


def test_a_click_on_a_value_shows_its_source_rule_and_proof(page: Any) -> None:
    page.locator('.pane .box[aria-label^="exp"]').first.click()
    drawer = page.locator("#drawer")
    text = drawer.inner_text()
    for words in (
        "replaced by a rewrite",
        "export_naive_attention.py:21",
        "torch.exp(scores)",
        "475 of 768 not finite",
        "softmax_fusion",
        "exp(x) overflows once x > 88",
        "proved over the reals",
        "kernel-checked",
        "The left side has a value where",
        "[0, inf]",
    ):
        assert words in text
    drawer.locator("a", has_text="sum").click()
    assert drawer.locator("h2").inner_text().startswith("sum")
    drawer.locator("a", has_text="softmax_fusion").click()
    card = page.locator("#rewrite-softmax-fusion")
    assert card.get_attribute("open") is not None and "The proof over the reals" in card.inner_text()
    page.keyboard.press("Escape")
    assert drawer.is_hidden()


def test_before_and_after_stand_beside_each_other(page: Any) -> None:
    before, after = page.locator(".pane").all()
    assert before.locator(".box.removed").count() == 3 and before.locator(".box.new").count() == 0
    assert after.locator(".box.new").count() == 1 and after.locator(".box.removed").count() == 0
    assert "1536 of 1536 not finite" in before.text_content() and "not finite" not in after.text_content()


def test_search_finds_values_and_rules_and_says_so(page: Any) -> None:
    page.keyboard.press("/")
    page.keyboard.type("softmax")
    page.locator("#hits", has_text="hit").wait_for()
    assert page.locator("#rewrite-softmax-fusion").is_visible()
    assert all("softmax" in row.inner_text() for row in page.locator(".values tr[data-id]").all())
    page.fill("#search", "no such text")
    page.wait_for_selector("#nothing:not([hidden])")
    page.keyboard.press("Escape")
    assert page.locator("#nothing").is_hidden() and page.locator(".values tr[data-id]").count() == 11


def test_the_keyboard_is_enough(page: Any) -> None:
    page.locator('.pane .box[aria-label^="matmul"]').first.focus()
    page.keyboard.press("Enter")
    assert page.locator("#drawer h2").inner_text() == "matmul"
    row = page.locator(".values tr[data-id]").first
    row.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.locator("#drawer h2").inner_text() == "arg1"


def test_colours_follow_what_is_chosen(page: Any) -> None:
    box = page.locator('.pane .box[aria-label^="exp"] rect').first
    before = box.evaluate("e => e.style.fill")
    page.select_option(".tools select", "format")
    assert page.locator(".legend").inner_text().startswith("f32")
    assert page.locator('.pane .box[aria-label^="exp"] rect').first.evaluate("e => e.style.fill") != before
    page.select_option(".tools select", "")
    assert page.locator('.pane .box[aria-label^="exp"] rect').first.evaluate("e => e.style.fill") == ""


def test_text_can_be_read_on_its_ground(browser: Any, reports: dict[str, Path]) -> None:
    for scheme in ("light", "dark"):
        with opened(browser, reports["check"], color_scheme=scheme) as page:
            low = page.evaluate(CONTRAST)
            assert low == []


def test_print_opens_everything_and_a_narrow_page_fits(browser: Any, reports: dict[str, Path], tmp_path: Path) -> None:
    with opened(browser, reports["accuracy"], viewport={"width": 380, "height": 800}) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 380
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.locator("details.card:not([open])").count() == 0
        page.evaluate("dispatchEvent(new Event('afterprint'))")
    with opened(browser, reports["model"]) as page:
        page.set_viewport_size({"width": 690, "height": 1000})
        page.emulate_media(media="print")
        assert page.locator("header.bar").is_hidden() and page.locator("#drawer").is_hidden()
        cut = "[...document.querySelectorAll('.scroll, .plot > div, .canvas, pre')].filter(e => e.scrollWidth > e.clientWidth + 1).length"
        assert page.evaluate(cut) == 0, "nothing is cut on paper"
        assert page.evaluate("getComputedStyle(document.querySelector('.swatch')).printColorAdjust") == "exact"


def test_the_counterexample_is_evaluated_step_by_step(reports: dict[str, Path]) -> None:
    text = re.sub(r"<[^>]+>", " ", reports["check"].read_text())
    assert "Step by step at" in text and "Left side: 0" in text and "Right side: -1" in text


def test_modules_fold(browser: Any, tmp_path: Path) -> None:
    done = hnfc(written(TEXTS["twice"], tmp_path), "--range", "-3:3", "-q", "-o", "out.mlir", "--report", "out.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with opened(browser, tmp_path / "out.html") as page:
        assert page.locator(".pane .box.module").count() > 0
        page.locator(".pane .box.module").first.click()
        assert page.locator(".crumbs button:disabled").inner_text() != "main"
        page.locator(".crumbs button").first.click()
        assert page.locator(".crumbs button:disabled").inner_text() == "main"


def test_a_report_to_nowhere_says_so(tmp_path: Path) -> None:
    done = hnfc(ATTENTION, "-q", "-o", "out.mlir", "--report", "missing/out.html", cwd=tmp_path)
    assert done.returncode == 1 and "missing/out.html" in done.stderr and "Traceback" not in done.stderr
    done = hnfc("run", ATTENTION, "--inputs", "x.npz", "--report", "out.html", cwd=tmp_path)
    assert done.returncode == 2 and "--compare" in done.stderr
