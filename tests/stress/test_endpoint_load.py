"""Jobs of several clients at one endpoint: each runs once. `make soak` does it for 20 minutes."""

from __future__ import annotations

from pathlib import Path

import pytest
from endpoint_load import CLIENTS, EndpointLoad


@pytest.mark.long
def test_each_job_of_each_client_runs_once(tmp_path: Path) -> None:
    with EndpointLoad(tmp_path, jobs=2 * CLIENTS, seconds=0.0) as load:
        load.wait()
    assert load.problems == []


@pytest.mark.long
def test_a_job_that_runs_twice_or_never_is_a_problem(tmp_path: Path) -> None:
    with EndpointLoad(tmp_path, jobs=CLIENTS, seconds=0.0) as load:
        for client in load.clients:
            assert client.stdout is not None
            assert client.wait(300) == 0
        runs = (tmp_path / "runs").read_text().split()
        (tmp_path / "runs").write_text("\n".join([runs[0], *runs[:-1]]))
        load.wait()
    assert f"{runs[0]} ran 2 times" in load.problems
    assert f"{runs[-1]} ran 0 times" in load.problems
