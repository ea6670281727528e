"""Serve the pages of jobs on this machine's loopback, to read and never to change anything."""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from launcher.client.jobs import Job
from launcher.client.page.job_page import job_page
from launcher.client.page.other_pages import compare_page, list_page
from launcher.client.page.report_facts import ReportFacts, read_report_facts
from launcher.client.sessions import TERMINAL_STATUSES, PlatformSession
from launcher.client.show import JobsPage, page_html
from launcher.errors import JobNotFound, LauncherError

#: Seconds between two updates of a page that is looked at.
_REFRESH = 5
#: A job is read anew once it was not read for this many times of what reading it took.
_REST = 10
#: Jobs that are kept as they were read last.
_MOST_KEPT = 8
#: Jobs of one comparison.
_MOST_COMPARED = 8
#: Seconds for a browser to send its request or take a piece of the answer.
_PATIENCE = 15.0
_COOKIE = "launcher_ui"
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True, kw_only=True)
class _KeptFacts:
    """A job as it was read. read_at, took: on the monotonic clock, in seconds."""

    facts: ReportFacts
    read_at: float
    took: float

    def is_fresh(self, now: float) -> bool:
        """Return whether reading the job again would show nothing new, or cost too much."""
        is_over = self.facts.description["TrainingJobStatus"] in TERMINAL_STATUSES
        return is_over or now - self.read_at < max(_REFRESH - 1, _REST * self.took)


class _JobReader:
    """The jobs of a session, each read as often as its pages need it and not more."""

    def __init__(self, session: PlatformSession) -> None:
        self.session = session
        self._kept: dict[str, _KeptFacts] = {}
        self._lock = threading.Lock()

    def facts(self, name: str) -> ReportFacts:
        """Return a job so far; raises JobNotFound, and the platform's error."""
        with self._lock:
            kept, now = self._kept.pop(name, None), time.monotonic()
            if kept is None or not kept.is_fresh(now):
                facts = read_report_facts(Job(name, self.session))
                kept = _KeptFacts(facts=facts, read_at=now, took=time.monotonic() - now)
            self._kept[name] = kept
            while len(self._kept) > _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            return kept.facts


class PageServer:
    """A server of the pages of a session's jobs, on the loopback address alone.

    Whoever opens `url`, whose token works once, gets a cookie, without which nothing is answered.
    Requests that name another host, or come from a page of another origin, are refused.

    port: 0 for a free one. Raises OSError for one that is taken.
    """

    def __init__(self, session: PlatformSession, port: int = 0) -> None:
        self._server = _PagesServer(("127.0.0.1", port), session)

    def __enter__(self) -> PageServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.server_close()

    @property
    def url(self) -> str:
        """The address that a browser opens."""
        return f"http://127.0.0.1:{self._server.server_port}/?token={self._server.token}"

    def serve(self) -> None:
        """Answer requests until KeyboardInterrupt or `stop`."""
        self._server.serve_forever()

    def stop(self) -> None:
        """End `serve`, from another thread."""
        self._server.shutdown()


class _PagesServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], session: PlatformSession) -> None:
        super().__init__(address, _PagesHandler)
        self.reader = _JobReader(session)
        self.token: str | None = secrets.token_urlsafe(24)
        self.cookie = secrets.token_urlsafe(24)
        self._lock = threading.Lock()

    def is_first(self, token: str) -> bool:
        """Return whether a token is the one of the address; that one is used up."""
        with self._lock:
            if self.token is None or not _is_same(token, self.token):
                return False
            self.token = None
            return True

    @property
    def origins(self) -> tuple[str, ...]:
        """The hosts and ports by which a browser may mean this server."""
        return (f"127.0.0.1:{self.server_port}", f"localhost:{self.server_port}")


def _is_same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


class _PagesHandler(BaseHTTPRequestHandler):
    server: _PagesServer
    server_version = "launcher"
    sys_version = ""
    timeout = _PATIENCE

    def do_GET(self) -> None:
        """Answer a request for a page, for what it shows now, or for a host's log."""
        try:
            self._get(urlsplit(self.path))
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Print nothing: the terminal has the address alone."""

    def _get(self, url: Any) -> None:
        refusal = self._refusal()
        token = parse_qs(url.query).get("token", [""])[0]
        if refusal:
            self._text(HTTPStatus.FORBIDDEN, refusal)
        elif self._has_cookie():
            self._routed(url.path, parse_qs(url.query))
        elif self.server.is_first(token):
            self._redirect()
        else:
            again = "This address was opened before, or is another server's: run launcher ui again."
            self._text(HTTPStatus.FORBIDDEN, again)

    def _refusal(self) -> str:
        """Return why a request is not answered: a page of another origin can make a browser ask."""
        origins = self.server.origins
        if self.headers.get("Host", "") not in origins:
            return "This server answers requests for its own address alone."
        origin = self.headers.get("Origin")
        if origin is not None and origin not in [f"http://{each}" for each in origins]:
            return "A page of another origin may not read this one."
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return "Open this address in the address bar of the browser."
        return ""

    def _has_cookie(self) -> bool:
        try:
            cookie = SimpleCookie(self.headers.get("Cookie", "")).get(self._cookie_name)
        except CookieError:
            return False
        return cookie is not None and _is_same(cookie.value, self.server.cookie)

    @property
    def _cookie_name(self) -> str:
        return f"{_COOKIE}_{self.server.server_port}"  # a host's ports share their cookies

    def _redirect(self) -> None:
        self.send_response(HTTPStatus.SEE_OTHER)
        cookie = f"{self._cookie_name}={self.server.cookie}; HttpOnly; SameSite=Strict; Path=/"
        self.send_header("Set-Cookie", cookie)
        self.send_header("Location", "/")
        self.send_header("Content-Length", "0")
        self._end_headers()

    def _routed(self, path: str, query: dict[str, list[str]]) -> None:
        kind, *names = [unquote(part) for part in path.strip("/").split("/")]
        is_data = kind == "data"
        if is_data:
            kind, *names = names or [""]
        try:
            page = self._page(kind, names, query)
            if page is not None:
                self._send(page, path, is_data=is_data)
            elif kind == "logs" and len(names) == 2:
                self._log(*names)
            else:
                self._text(HTTPStatus.NOT_FOUND, "There is no such page.")
        except JobNotFound as error:
            self._text(HTTPStatus.NOT_FOUND, str(error))
        except LauncherError as error:
            self._text(HTTPStatus.BAD_GATEWAY, str(error))

    def _page(self, kind: str, names: list[str], query: dict[str, list[str]]) -> JobsPage | None:
        reader = self.server.reader
        if kind == "" and not names:
            return list_page(reader.session)
        if kind == "jobs" and len(names) == 1:
            return job_page(reader.facts(names[0]), f"/logs/{quote(names[0])}/")
        if kind == "compare":
            jobs = [name for text in query.get("jobs", ()) for name in text.split(",") if name]
            return compare_page([reader.facts(name) for name in jobs[:_MOST_COMPARED]])
        return None

    def _send(self, page: JobsPage, path: str, *, is_data: bool) -> None:
        live: dict[str, Any] = {}
        if not path.startswith("/compare"):
            source = path if is_data else f"/data{path}"
            live = {"refresh": None if page.is_final else _REFRESH, "source": source}
        if path not in ("/", "/data/"):
            live["back"] = "/"
        if is_data:
            self._answer(HTTPStatus.OK, "application/json", page.to_json(**live))
        else:
            self._answer(HTTPStatus.OK, "text/html; charset=utf-8", page_html(page, **live))

    def _log(self, name: str, host: str) -> None:
        """Send the lines of a host as they are read, as text that no browser takes for HTML."""
        lines: Iterator[Any] = Job(name, self.server.reader.session).logs(host=host)
        first = next(lines, None)
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self._end_headers()
        if first is not None:
            self.wfile.write(f"{first.readable}\n".encode())
        for line in lines:
            self.wfile.write(f"{line.readable}\n".encode())

    def _text(self, status: HTTPStatus, text: str) -> None:
        self._answer(status, "text/plain; charset=utf-8", text)

    def _answer(self, status: HTTPStatus, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self._end_headers()
        self.wfile.write(body)

    def _end_headers(self) -> None:
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
