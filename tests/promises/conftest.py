"""A stage for each cell, and the table of endings after the tests that made it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from containers import skip_without_image, torch_image
from endings_stage import ISOLATION, Stage
from endings_table import ROWS, Row, printed
from needs import skip_without_isolation


@pytest.fixture
def table(request: pytest.FixtureRequest) -> list[Row]:
    """The rows so far, to add to."""
    return request.config.stash.setdefault(ROWS, [])


@pytest.fixture
def stage(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A stage, in the isolation that a test may give; one that fails leaves it without a job."""
    isolation = getattr(request, "param", ISOLATION)
    if isolation == "container":
        skip_without_isolation(isolation)
        skip_without_image(torch_image())
    stage = Stage(tmp_path, isolation=isolation)
    yield stage
    stage.clear()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if rows := terminalreporter.config.stash.get(ROWS, []):
        terminalreporter.section("endings")
        for line in printed(rows, max(140, shutil.get_terminal_size().columns)):
            terminalreporter.line(line)
