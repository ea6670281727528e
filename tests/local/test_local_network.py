"""What isolation `network` adds: a network stack per host, as root and as an unprivileged user."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, processes_mentioning
from needs import needs_program
from users import as_me, as_nobody, report_of
from waiting import wait_until

from launcher.client.sessions import Isolation, LocalSession, obstacles
from launcher.errors import PlatformError

UNREACHABLE = ["OSError", 101]
REFUSED = ["ConnectionRefusedError", 111]


@pytest.fixture(scope="module", params=[as_me, as_nobody], ids=["as me", "as nobody"])
def report(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What the scenario found."""
    return report_of("network_scenario.py", request.param)


@pytest.mark.long
def test_the_job_completes(report: dict[str, Any]) -> None:
    assert report["status"] == "Completed", report["reason"]
    assert report["isolation"] == "network"


@pytest.mark.long
@pytest.mark.parametrize(
    ("question", "answer"),
    [
        pytest.param("hostname", "{host}", id="its own host name"),
        pytest.param("interface", "eth0", id="the interface that its configuration names"),
        pytest.param("interfaces", ["eth0", "lo"], id="two interfaces"),
        pytest.param("devices", ["eth0", "lo"], id="the same two in /sys"),
        pytest.param(
            "addresses", {"algo-1": "10.0.0.1", "algo-2": "10.0.0.2"}, id="names of all hosts"
        ),
        pytest.param("wildcard", "{other}", id="every port, also those that others listen on"),
        pytest.param("loopback", "loopback of {host}", id="a loopback of its own"),
        pytest.param("machine_loopback", REFUSED, id="no way to the machine's loopback"),
        pytest.param("machine", UNREACHABLE, id="no way to the machine"),
        pytest.param("outside", UNREACHABLE, id="no way outside"),
        pytest.param("unknown_name", "gaierror", id="no names from outside"),
        pytest.param("nameless", "::ffff:10.0.0.1", id="addresses that nobody has a name for"),
        pytest.param("variables", [], id="no variables that SageMaker does not set"),
    ],
)
def test_a_host_has(report: dict[str, Any], question: str, answer: Any) -> None:
    assert set(report["hosts"]) == {"algo-1", "algo-2"}
    for host, found in report["hosts"].items():
        other = {"algo-1": "algo-2", "algo-2": "algo-1"}[host]
        is_text = isinstance(answer, str)
        assert found[question] == (answer.format(host=host, other=other) if is_text else answer)
        assert found["seconds"] < 20, "whoever looks for the outside is not kept waiting"


@pytest.mark.long
def test_a_host_is_run_by_its_user_and_its_files_are_theirs(report: dict[str, Any]) -> None:
    assert {found["user"] for found in report["hosts"].values()} == {report["user"]}
    assert set(report["owners"]) == {report["user"]}


@pytest.mark.long
def test_stopping_runs_the_handler_of_the_script(report: dict[str, Any]) -> None:
    assert report["stopped"] == "Stopped"
    assert [said[-1] for said in report["said"].values()] == ["saved", "saved"]


@pytest.mark.long
def test_a_cable_can_be_cut_and_mended(report: dict[str, Any]) -> None:
    assert report["said"]["algo-1"][:-1] == ["cable 1"]
    assert report["said"]["algo-2"][:-1] == ["cable 1", "cable 0", "cable 1"]


@pytest.mark.long
def test_a_platform_process_that_is_killed_leaves_no_process(report: dict[str, Any]) -> None:
    assert report["orphaned"] == "Failed"


@pytest.mark.long
@pytest.mark.parametrize("ending", ["stopped", "killed"])
def test_no_namespace_device_or_mount_is_left(network_bench: Bench, ending: str) -> None:
    bench, before = network_bench, (_devices(), _mounts(network_bench.folder))
    bench.start('escape(); print("up"); time.sleep(600)', hosts=3)
    bench.wait_for_line("up", hosts=3)
    processes = processes_mentioning(str(bench.job_folder()))
    networks = {Path(f"/proc/{pid}/ns/net").readlink().name for pid in processes}
    networks -= {Path("/proc/self/ns/net").readlink().name}
    assert len(networks) == 1 + 3, "the outer network, and one of each host"
    assert (_devices(), _mounts(bench.folder)) == before, "the machine itself is never changed"

    if ending == "stopped":
        bench.stop()
    else:
        for pid, command in processes.items():
            if "launcher.client.sessions.local.job.platform_process" in command:
                os.kill(pid, signal.SIGKILL)
    assert bench.end_of()["TrainingJobStatus"] == {"stopped": "Stopped", "killed": "Failed"}[ending]
    wait_until(lambda: not networks & _networks_in_use())
    assert (_devices(), _mounts(bench.folder)) == before


def _devices() -> list[str]:
    return sorted(child.name for child in Path("/sys/class/net").iterdir())


def _mounts(folder: Path) -> list[str]:
    """The mounts of the kinds that isolations make, and all below a folder."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    kinds = (" - nsfs ", " - sysfs ", str(folder), "/launcher-")
    return sorted(line for line in lines if any(kind in line for kind in kinds))


def _networks_in_use() -> set[str]:
    """The network namespaces that a process of ours is in, or has an open descriptor of."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile, or is another user's
            links = [process / "ns" / "net", *(process / "fd").iterdir()]
            found |= {link.readlink().name for link in links}
    return {name for name in found if name.startswith("net:")}


@pytest.fixture
def path_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Hide a program, and leave all others on PATH."""

    def hide(hidden: str) -> None:
        folder = tmp_path / f"without-{hidden}"
        folder.mkdir()
        for place in os.environ["PATH"].split(":"):
            for program in Path(place).iterdir() if Path(place).is_dir() else ():
                link = folder / program.name
                if program.name != hidden and not link.is_symlink():
                    link.symlink_to(program)
        monkeypatch.setenv("PATH", str(folder))

    return hide


@pytest.mark.parametrize(
    ("hidden", "mend"),
    [("ip", "apt-get install iproute2"), ("bwrap", "apt-get install bubblewrap")],
)
def test_what_is_not_installed_is_said_and_nothing_is_created(
    plain_bench: Bench, path_without: Callable[[str], None], hidden: str, mend: str
) -> None:
    before = obstacles()[Isolation.SANDBOX]
    path_without(hidden)
    plain_bench.session = LocalSession(plain_bench.session.root, "network")

    with pytest.raises(
        PlatformError, match=f"'network' does not work.*{hidden} is not on PATH.*{mend}"
    ):
        plain_bench.start("pass")
    assert plain_bench.session.list_training_jobs() == {"TrainingJobSummaries": []}
    found = obstacles()
    assert found[Isolation.PROCESS] is None
    assert f"{hidden} is not on PATH" in str(found[Isolation.NETWORK])
    without_bwrap = str(found[Isolation.SANDBOX]).startswith("bwrap is not on PATH")
    assert without_bwrap if hidden == "bwrap" else found[Isolation.SANDBOX] == before


def test_an_ip_that_cannot_do_it_is_quoted(
    plain_bench: Bench, monkeypatch: pytest.MonkeyPatch, network_works: None
) -> None:
    broken = plain_bench.folder / "bin" / "ip"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho 'RTNETLINK answers: Operation not supported' >&2; exit 2")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR | stat.S_IXOTH)
    monkeypatch.setenv("PATH", f"{broken.parent}:{os.environ['PATH']}")
    plain_bench.session = LocalSession(plain_bench.session.root, "network")

    with pytest.raises(PlatformError, match="RTNETLINK answers: Operation not supported"):
        plain_bench.start("pass")
    assert plain_bench.session.list_training_jobs() == {"TrainingJobSummaries": []}


@needs_program("unshare", "util-linux")
def test_forbidden_namespaces_are_an_obstacle(network_works: None) -> None:
    """A user namespace in which no further one, and no network, may be made."""
    program = """
from pathlib import Path
from launcher.client.sessions.local.isolation import obstacles
for kind in ("user", "net"):
    Path(f"/proc/sys/user/max_{kind}_namespaces").write_text("0")
print({kind.value: found for kind, found in obstacles().items()}["network"])
"""
    command = ["unshare", "--user", "--map-root-user"]
    if subprocess.run([*command, "true"], capture_output=True).returncode != 0:
        pytest.skip("user namespaces are forbidden here already")
    result = subprocess.run(
        [*command, sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "user namespaces may be forbidden here" in result.stdout, result.stdout
