"""A stage for each cell, and the table of endings after the tests that made it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from endings_stage import Stage
from endings_table import ROWS, Row, printed


@pytest.fixture
def table(request: pytest.FixtureRequest) -> list[Row]:
    """The rows so far, to add to."""
    return request.config.stash.setdefault(ROWS, [])


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A stage that a test which fails leaves without a job."""
    stage = Stage(tmp_path)
    yield stage
    stage.clear()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if rows := terminalreporter.config.stash.get(ROWS, []):
        terminalreporter.section("endings")
        for line in printed(rows, max(140, shutil.get_terminal_size().columns)):
            terminalreporter.line(line)
