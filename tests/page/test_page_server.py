"""Serving the pages: who may read them, and that nothing can be changed."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner
from shown_pages import blocks, shown_page, words
from test_page_in_browsers import LongJob

from launcher import LocalSession
from launcher.client.cli import main
from launcher.client.page import PageServer


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PageServer]:
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path))
    day = LongJob(hours=0.5, hosts=4)
    for name in ("job-a", "job-b"):
        day.job(name).write(tmp_path, day.lines())
    with PageServer(LocalSession(isolation="process")) as found:
        thread = threading.Thread(target=found.serve)
        thread.start()
        yield found
        found.stop()
        thread.join()


class Browser:
    """Sends requests with the cookie that it was given, as a browser does."""

    def __init__(self, url: str) -> None:
        self.port = urlsplit(url).port
        self.cookie = ""

    def get(
        self, path: str, method: str = "GET", **headers: str
    ) -> tuple[int, str, http.client.HTTPMessage]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookie:
            sent.setdefault("Cookie", self.cookie)
        connection.request(method, path, headers=sent)
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, body, answer.headers

    def open(self, url: str) -> None:
        """Open the address that `launcher ui` prints."""
        parts = urlsplit(url)
        status, _, headers = self.get(f"{parts.path}?{parts.query}")
        assert (status, headers["Location"]) == (303, "/")
        assert "HttpOnly; SameSite=Strict" in headers["Set-Cookie"]
        self.cookie = headers["Set-Cookie"].partition(";")[0]


@pytest.fixture
def browser(server: PageServer) -> Browser:
    found = Browser(server.url)
    found.open(server.url)
    return found


def test_the_address_works_once_and_without_it_nothing_is_answered(server: PageServer) -> None:
    url = server.url
    reader, stranger = Browser(url), Browser(url)
    assert stranger.get("/")[0] == 403
    assert stranger.get("/?token=guess")[0] == 403
    reader.open(url)
    assert reader.get("/")[0] == 200
    status, text, _ = stranger.get(f"/?{urlsplit(url).query}")
    assert (status, "opened before" in text) == (403, True)
    assert stranger.get("/", Cookie=f"launcher_ui_{reader.port}=guess")[0] == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1:1"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_another_host_or_origin_is_refused_with_the_cookie_too(
    browser: Browser, headers: dict[str, str]
) -> None:
    status, text, _ = browser.get("/data/jobs/job-a", **headers)
    assert status == 403
    assert "job-a" not in text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_changed(browser: Browser, method: str) -> None:
    assert browser.get("/jobs/job-a", method)[0] == 501


def test_the_list_links_to_pages_which_are_updated_until_the_end(browser: Browser) -> None:
    status, html, headers = browser.get("/")
    assert status == 200
    assert headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    page = shown_page(html)
    (table,) = blocks(page, "table")
    assert {row[0]["href"] for row in table["rows"]} == {"/jobs/job-a", "/jobs/job-b"}
    assert page["refresh"]
    assert json.loads(browser.get(page["source"])[1])["title"] == "Jobs"
    job = shown_page(browser.get("/jobs/job-a")[1])
    assert (job["title"], job["refresh"], job["back"]) == ("job-a", None, "/")


def test_the_whole_log_of_a_host_is_plain_text(browser: Browser) -> None:
    (log,) = blocks(shown_page(browser.get("/jobs/job-a")[1]), "log")
    status, text, headers = browser.get(log["hosts"][0]["href"])
    assert (status, headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "host_started" in text


def test_ticked_jobs_are_compared(browser: Browser) -> None:
    page = shown_page(browser.get("/compare?jobs=job-a,job-b")[1])
    figures, *_ = blocks(page, "table")
    assert figures["columns"] == ["figure", "job-a", "job-b"]
    lines = {line["name"] for chart in blocks(page, "chart") for line in chart["series"]}
    assert lines == {"job-a", "job-b"}
    assert "Nothing in their configuration differs." in words(page)


@pytest.mark.parametrize(
    "path", ["/jobs/no-such-job", "/nothing", "/jobs/", "/logs/job-a", "/jobs/..%2f..%2fetc"]
)
def test_what_is_not_there_is_said(browser: Browser, path: str) -> None:
    status, text, headers = browser.get(path)
    assert status == 404
    assert text
    assert headers["Content-Type"].startswith("text/plain")


def test_the_verb_prints_the_address_and_ends_by_ctrl_c(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "launcher", "ui", "--no-open"]
    with subprocess.Popen(
        command,
        env={**os.environ, "LAUNCHER_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as verb:
        assert verb.stdout is not None
        reader = Browser(url := verb.stdout.readline().strip())
        reader.open(url)
        assert "No jobs yet" in reader.get("/")[1]
        taken = CliRunner().invoke(main, ["ui", "--no-open", "--port", str(reader.port)])
        verb.send_signal(signal.SIGINT)
        out, err = verb.communicate(timeout=60)
    assert (verb.returncode, out, err) == (0, "", "This address works once; Ctrl-C ends it.\n")
    assert taken.exit_code == 2
    assert f"cannot listen on port {reader.port} of 127.0.0.1" in taken.stderr
