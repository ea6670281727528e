"""The report of a day on 64 hosts: its size, and the page as browsers and axe-core see it.

The browser's tests need chromium, node, and `npm install --prefix tests/page`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
sys.path.append(str(HERE.parents[1] / "benchmarks"))

from shown_pages import shown_page, words  # noqa: E402 (as above)

from launcher import report  # noqa: E402 (as above)
from launcher.client.page import JobReport  # noqa: E402 (as above)
from report_parts.long_job import LongJob  # noqa: E402 (found by the line above)

VIEWS = ("light", "dark", "phone", "print")
#: A folder for screenshots, if one is wanted.
PICTURES = [os.environ["PICTURES"]] if "PICTURES" in os.environ else []
#: Bytes of a report at most.
LIMIT = 5_000_000


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> JobReport:
    home = tmp_path_factory.mktemp("home")
    job = LongJob()
    job.job("a-day").write(home, job.lines())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAUNCHER_HOME", str(home))
        return report("a-day", workload=job.workload())


@pytest.fixture(scope="module")
def seen(page: JobReport, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each view of the page is like."""
    file = page.write(tmp_path_factory.mktemp("page") / "report.html")
    return run_in_browser("check_page.cjs", str(file))


def run_in_browser(script: str, address: str, asked: str = "") -> dict[str, Any]:
    """Run a script of this folder, with chromium, on an address; return the JSON that it prints."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    node = shutil.which("node")
    if chromium is None or node is None:
        pytest.skip("no chromium or no node: apt-get install chromium nodejs npm")
    if not (HERE / "node_modules").is_dir():
        pytest.skip("no axe-core: npm install --prefix tests/page")
    done = subprocess.run(
        [node, str(HERE / script), chromium, address, *PICTURES],
        input=asked,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.long
def test_a_day_of_64_hosts_is_a_small_file(page: JobReport) -> None:
    assert len(page.html.encode()) < LIMIT
    text = words(shown_page(page.html))
    for part in (
        "algo-1 to algo-16",
        "algo-17 to algo-64",
        "median host",
        "$9,597.68",
        "this run",
    ):
        assert part in text


@pytest.mark.long
@pytest.mark.parametrize("view", VIEWS)
def test_no_request_leaves_the_file_and_no_console_speaks(seen: dict[str, Any], view: str) -> None:
    assert seen[view]["requests"] == []
    assert seen[view]["messages"] == []


@pytest.mark.long
@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing(seen: dict[str, Any], view: str) -> None:
    assert seen[view]["violations"] == []


@pytest.mark.long
@pytest.mark.parametrize("view", VIEWS)
def test_no_view_is_wider_than_its_window(seen: dict[str, Any], view: str) -> None:
    assert not seen[view]["wide"]
