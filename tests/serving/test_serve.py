"""`hnfc serve`: who is answered, within which limits, what stays, and the page in a real browser."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from hnfc.serving.running import RequestLimits, Sent, report
from hnfc.serving.server import LARGEST, LARGEST_TEXT, LocalServer
from tests.pages.browser import chromium, opened
from tests.terminal import hnfc

ROOT = Path(__file__).parents[2]
ATTENTION = ROOT / "examples" / "naive_attention.mlir"
SCHEMA = json.loads((ROOT / "docs" / "hnfc.schema.json").read_text())
WRONG = b'rule relu_scale "scale <b>moves</b> out"\n    relu(s * x) => s * relu(x)\n'


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServer]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with LocalServer(0, RequestLimits(60)) as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def ask(server: LocalServer, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=90)
    connection.request(method, path, body, {key.replace("_", "-"): value for key, value in headers.items()})
    answer = connection.getresponse()
    text = answer.read().decode()
    assert answer.headers["Cache-Control"] == "no-store" and answer.headers["X-Frame-Options"] == "DENY"
    connection.close()
    return answer.status, text


def test_only_the_own_page_is_answered(server: LocalServer) -> None:
    own, port = f"/{server.token}/", server.server_port
    assert server.server_address[0] == "127.0.0.1"
    assert ask(server, "GET", own)[0] == 200
    for path in ("/", "/x/", f"/{server.token[:-1]}/", f"/{server.token}x/", f"/x/{server.token}/", "//", own + "none"):
        assert ask(server, "GET", path)[0] == 404
    assert ask(server, "POST", "/x/report?suffix=.hnf", WRONG)[0] == 404
    assert ask(server, "GET", own, Host=f"evil.example:{port}")[0] == 403
    assert ask(server, "POST", f"{own}report?suffix=.hnf", WRONG, Origin="http://evil.example")[0] == 403
    assert ask(server, "POST", f"{own}report?suffix=.hnf", WRONG, Origin="null")[0] == 403


def test_odd_requests_are_refused_with_the_reason(server: LocalServer) -> None:
    own = f"/{server.token}/report"
    assert ask(server, "POST", f"{own}?suffix=.exe", b"x") == (400, "send a file that ends in .hnf, .fpcore, .mlir, .mlirbc, .onnx")
    assert ask(server, "POST", f"{own}?suffix=.mlir&range=--rules=x", b"x")[0] == 400
    assert ask(server, "POST", f"{own}?suffix=.mlir&level=-o", b"x")[0] == 400
    assert ask(server, "POST", f"{own}?suffix=.hnf", b"")[0] == 400
    assert ask(server, "POST", f"{own}?suffix=.hnf", None, Content_Length=str(LARGEST_TEXT + 1))[0] == 413
    assert ask(server, "POST", f"{own}?suffix=.onnx", None, Content_Length=str(LARGEST + 1))[0] == 413
    assert ask(server, "POST", f"{own}?suffix=.onnx", None, Content_Length="many")[0] == 411
    with server.busy:
        assert ask(server, "POST", f"{own}?suffix=.hnf", WRONG)[0] == 429


def test_a_report_comes_and_nothing_stays(server: LocalServer, tmp_path: Path) -> None:
    status, text = ask(server, "POST", f"/{server.token}/report?suffix=.hnf", WRONG)
    assert status == 200 and "Step by step at" in text and "&lt;b&gt;moves&lt;/b&gt;" in text
    assert list(tmp_path.iterdir()) == []


def test_limits_end_a_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert "more than 0.2 s" in report(Sent(".hnf", WRONG), RequestLimits(0.2))
    assert "There is no report." in report(Sent(".hnf", WRONG), RequestLimits(30, 64 << 20))
    for sent in (Sent(".mlir", b"no model"), Sent(".onnx", b"\x08\xff"), Sent(".fpcore", b"(FPCore"), Sent(".hnf", b"rule a\n    exp(x")):
        text = report(sent, RequestLimits(60))
        assert "There is no report." in text and "error" in text and "Traceback" not in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_page_in_a_browser(server: LocalServer) -> None:
    with chromium() as browser, opened(browser, server.address) as page:
        page.click("#go")
        assert "first" in page.inner_text("#state")
        page.click("text=A rule that is wrong")
        page.click("#go")
        frame = page.frame_locator("#report")
        frame.locator(".headline", has_text="refuted").wait_for(timeout=60_000)
        frame.locator("#theme").click()
        with page.expect_download() as download:
            page.click("#save")
        assert "refuted" in Path(download.value.path()).read_text()
        page.fill("#range", "-40:40")
        page.set_input_files("#file", str(ATTENTION))
        frame.locator(".headline", has_text="Mended").wait_for(timeout=60_000)
        frame.locator('.pane .box[aria-label^="softmax"]').click()
        assert "softmax_fusion" in frame.locator("#drawer").inner_text()


def test_wrong_options_are_refused() -> None:
    for arguments in (("--port", "70000"), ("--seconds", "0"), ("--memory", "0.1"), ("--port", "x")):
        done = hnfc("serve", *arguments)
        assert done.returncode == 2 and "Traceback" not in done.stderr


def test_the_address_comes_as_json_too(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hnfc", "serve", "--json", "s.json", "--seconds", "7"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            for _ in range(100):
                if (tmp_path / "s.json").exists():
                    break
                time.sleep(0.05)
            found = json.loads((tmp_path / "s.json").read_text())
            jsonschema.Draft202012Validator({**SCHEMA, "$ref": "#/$defs/serve"}).validate(found)
            assert found == {"address": address, "seconds": 7.0, "memory_gib": 8.0, "process": process.pid}
            with urllib.request.urlopen(address) as answer:
                assert answer.status == 200
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0
