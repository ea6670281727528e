"""Start scripts of other kinds, run as they are, in the isolation that a session chooses."""

from __future__ import annotations

from pathlib import Path

import pytest
from needs import needs_mpirun

from launcher import Job, JobSpec, LocalSession
from launcher.client.request import prepare
from launcher.client.sessions import place
from launcher.client.submit import send

SCRIPTS = Path(__file__).parent / "start_scripts"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "says", "count", "needs"),
    [
        ("task_queue", "sum of squares 2470", 1, "json"),
        ("parameter_server", "weights [1. 2. 3.]", 1, "numpy"),
        ("elastic", "sum 14.0", 2, "torch"),
        pytest.param("mpirun", "sum of 2 ranks 1", 2, "mpi4py", marks=needs_mpirun),
        ("shell", "the data host leaves", 1, "json"),
    ],
)
def test_a_script_of_every_host_completes(
    tmp_path: Path, name: str, says: str, count: int, needs: str
) -> None:
    pytest.importorskip(needs)
    session = LocalSession(tmp_path / "home")
    spec = JobSpec.from_yaml(SCRIPTS / name / "job.yaml")
    send(prepare(spec, place(spec, session, "job")), session)
    job = Job("job", session).wait()
    lines = [line.text for line in job.logs()]
    assert job.status == "Completed", lines
    assert "\n".join(lines).count(says) == count
