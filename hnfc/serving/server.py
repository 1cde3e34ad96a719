"""The server: this machine only, behind an address that nobody can guess."""

from __future__ import annotations

import hmac
import re
import secrets
import threading
from collections.abc import Callable
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined

from hnfc.serving.running import MODELS, TEXTS, RequestLimits, Sent, report

HOST = "127.0.0.1"
LARGEST = 64 << 20
"""Bytes of a model."""
LARGEST_TEXT = 200_000
LEVELS = ("stability", "fusion", "precision", "accuracy", "all")
_BOUNDS = re.compile(r"[-+.0-9eE]{1,30}:[-+.0-9eE]{1,30}")
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
    "img-src data:; form-action 'none'",
}


class LocalServer(ThreadingHTTPServer):
    """The server, its token, and one request at a time."""

    daemon_threads = True

    def __init__(self, port: int, limits: RequestLimits) -> None:
        super().__init__((HOST, port), _Handler)
        self.token = secrets.token_urlsafe(24)
        self.limits = limits
        self.busy = threading.Lock()

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"


class _Refusal(Exception):
    def __init__(self, status: HTTPStatus, words: str) -> None:
        super().__init__(words)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    server: LocalServer
    server_version = "hnfc"
    sys_version = ""
    timeout = 60

    def do_GET(self) -> None:
        self._answer(lambda: _page(self.server.limits.seconds) if self._path() == "" else None)

    def do_POST(self) -> None:
        self._answer(lambda: self._report() if self._path() == "report" else None)

    def _answer(self, make: Callable[[], str | None]) -> None:
        try:
            self._check()
            text = make()
            if text is None:
                raise _Refusal(HTTPStatus.NOT_FOUND, "there is no such page")
            self._send(HTTPStatus.OK, "text/html; charset=utf-8", text)
        except _Refusal as refusal:
            self.close_connection = True
            self._send(refusal.status, "text/plain; charset=utf-8", str(refusal))

    def _check(self) -> None:
        """Refuses what does not come from this machine's own page: a foreign site, or a name that was pointed here."""
        own = {f"{name}:{self.server.server_port}" for name in (HOST, "localhost")}
        if self.headers.get("Host") not in own:
            raise _Refusal(HTTPStatus.FORBIDDEN, "this server answers to 127.0.0.1 only")
        origin = self.headers.get("Origin")
        if origin is not None and origin not in {f"http://{name}" for name in own}:
            raise _Refusal(HTTPStatus.FORBIDDEN, "a page of another site may not ask")
        given = urlsplit(self.path).path.split("/")
        if len(given) < 2 or not hmac.compare_digest(given[1].encode(), self.server.token.encode()):
            raise _Refusal(HTTPStatus.NOT_FOUND, "open the address that hnfc serve has printed")

    def _path(self) -> str:
        return "/".join(urlsplit(self.path).path.split("/")[2:])

    def _report(self) -> str:
        sent = self._sent()
        if not self.server.busy.acquire(blocking=False):
            raise _Refusal(HTTPStatus.TOO_MANY_REQUESTS, "another report is being made; try again when it is there")
        try:
            return report(sent, self.server.limits)
        finally:
            self.server.busy.release()

    def _sent(self) -> Sent:
        query = {key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()}
        suffix, level, bounds = query.get("suffix", ""), query.get("level", "stability"), query.get("range", "")
        if suffix not in (*TEXTS, *MODELS):
            raise _Refusal(HTTPStatus.BAD_REQUEST, f"send a file that ends in {', '.join((*TEXTS, *MODELS))}")
        if level not in LEVELS or (bounds and not _BOUNDS.fullmatch(bounds)):
            raise _Refusal(HTTPStatus.BAD_REQUEST, "a range is LOW:HIGH, as in -10:10")
        try:
            size = int(self.headers.get("Content-Length", ""))
        except ValueError:
            raise _Refusal(HTTPStatus.LENGTH_REQUIRED, "a request names its length") from None
        most = LARGEST_TEXT if suffix in TEXTS else LARGEST
        if size <= 0:
            raise _Refusal(HTTPStatus.BAD_REQUEST, "nothing was sent")
        if size > most:
            words = f"at most {most:,} bytes can be sent; the command line takes more"
            raise _Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, words)
        content = self.rfile.read(size)
        if len(content) < size:
            raise _Refusal(HTTPStatus.BAD_REQUEST, "the request ended early")
        return Sent(suffix, content, level, bounds)

    def _send(self, status: HTTPStatus, kind: str, text: str) -> None:
        content = text.encode()
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Length": str(len(content)), **_HEADERS}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing is written down: addresses hold the token."""


@cache
def _environment() -> Environment:
    return Environment(loader=PackageLoader("hnfc.serving"), autoescape=True, undefined=StrictUndefined)


def _page(seconds: float) -> str:
    return (
        _environment()
        .get_template("serve.html")
        .render(levels=LEVELS, suffixes=(*TEXTS, *MODELS), seconds=f"{seconds:g}", largest=LARGEST >> 20)
    )
