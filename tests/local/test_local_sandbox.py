"""What the sandbox adds, as root and as an unprivileged user."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
import tempfile
import venv
from pathlib import Path
from typing import Any

import pytest
from bench import Bench
from needs import skip_without_isolation
from users import REPOSITORY, as_me, as_nobody, copy_botocore, environment_of, report_of

from launcher.client.sessions import Isolation, LocalSession, choose_isolation
from launcher.errors import PlatformError


@pytest.fixture(
    scope="module",
    params=[as_me, pytest.param(as_nobody, marks=pytest.mark.long)],
    ids=["as me", "as nobody"],
)
def report(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What the scenario found."""
    return report_of("sandbox_scenario.py", request.param)


@pytest.mark.long
def test_the_job_completes(report: dict[str, Any]) -> None:
    assert report["status"] == "Completed"
    assert report["isolation"] == "sandbox"


@pytest.mark.long
@pytest.mark.parametrize(
    ("question", "answer"),
    [
        pytest.param("hostname", "{host}", id="its own host name"),
        pytest.param("resolved", ["algo-1", "algo-2", "localhost"], id="names of all hosts"),
        pytest.param("ml", "/opt/ml", id="its own /opt/ml"),
        pytest.param("opt", True, id="the other children of /opt"),
        pytest.param("pid", 2, id="its own process table"),
        pytest.param("strangers", [], id="no processes of others"),
        pytest.param("tmp", [], id="an empty /tmp"),
        pytest.param("shm", [], id="an empty /dev/shm"),
        pytest.param("tmp_is_writable", True, id="a writable /tmp"),
        pytest.param("home_is_writable", True, id="a writable home"),
        pytest.param("machine_is_writable", False, id="a read-only machine"),
        pytest.param("data_is_writable", False, id="read-only data"),
        pytest.param("data", ["a", "b"], id="the data"),
        pytest.param("shard", {"algo-1": ["a"], "algo-2": ["b"]}, id="a shard of the data"),
        pytest.param("shard_is_writable", False, id="a read-only shard"),
        pytest.param("other_hosts", True, id="a way to the other hosts"),
    ],
)
def test_a_host_has(report: dict[str, Any], question: str, answer: Any) -> None:
    for host, found in report["hosts"].items():
        expected = answer
        if question == "hostname":
            expected = host
        elif question == "shard":
            expected = answer[host]
        assert found[question] == expected


def test_the_users_data_is_as_it_was(report: dict[str, Any]) -> None:
    assert report["data_after"] == {"a": "content of a", "b": "content of b"}


def test_stopping(report: dict[str, Any]) -> None:
    assert report["stopped"] == "Stopped"
    assert report["left_over"] == []


def test_the_sandbox_is_the_default_where_it_works() -> None:
    skip_without_isolation("sandbox")
    assert choose_isolation(None) is Isolation.SANDBOX


def test_a_sandbox_that_does_not_work_is_an_error(
    plain_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = plain_bench.folder / "bin" / "bwrap"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2; exit 1")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{broken.parent}:{os.environ['PATH']}")
    plain_bench.session = LocalSession(plain_bench.session.root, "sandbox")

    with pytest.raises(PlatformError, match="setting up uid map: Permission denied"):
        plain_bench.start("pass")
    assert plain_bench.session.list_training_jobs() == {"TrainingJobSummaries": []}


def test_an_unknown_isolation(plain_bench: Bench) -> None:
    plain_bench.session = LocalSession(plain_bench.session.root, "docker")
    with pytest.raises(PlatformError, match="unknown isolation 'docker'"):
        plain_bench.start("pass")


@pytest.mark.long
def test_a_python_below_tmp_is_seen(sandbox_bench: Bench) -> None:
    """A fresh clone below /tmp has its virtual environment there."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        python = Path(folder) / "venv" / "bin" / "python"
        venv.create(python.parent.parent, symlinks=True)
        packages = sysconfig.get_path("purelib", vars={"base": str(python.parent.parent)})
        copy_botocore(Path(packages))
        request = sandbox_bench.request("print(sys.prefix)")
        program = (
            "import json, sys; from launcher.client.sessions.local import LocalSession\n"
            f"LocalSession({str(sandbox_bench.session.root)!r}, 'sandbox')"
            ".create_training_job(**json.load(sys.stdin))"
        )
        subprocess.run(
            [python, "-c", program],
            input=json.dumps(request),
            env=environment_of(REPOSITORY),
            text=True,
            check=True,
        )
        sandbox_bench.end_of()
        assert sandbox_bench.lines() == {"algo-1": [str(python.parent.parent)]}


def test_without_bubblewrap_the_hosts_of_a_job_are_plain_processes_and_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    description = Bench(tmp_path, None).run("print('hello')")
    assert description["LocalIsolation"] == "process"
    assert "bwrap is not on PATH" in description["LocalNotes"][0]
