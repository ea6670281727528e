"""What isolation `container` adds: an image, a network, an owner of files, a limit of memory."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import containers
import pytest
from bench import (
    Bench,
    channel,
    fit,
    platform_and_keeper,
    printed,
    processes_mentioning,
)
from containers import ENGINE, NUMPY_IMAGE, made_image, session_in
from needs import skip_without_isolation
from packages import make_wheel
from waiting import wait_until

from launcher import DataService, InstanceGroup, JobFailed, LocalSession

pytestmark = pytest.mark.library("containers")

LABEL = "launcher.job"


def engine(*words: str) -> str:
    answer = subprocess.run([ENGINE, *words], capture_output=True, text=True, check=True)
    return answer.stdout


def left_of(folder: Path) -> list[str]:
    """The containers, networks and processes of a job."""
    return [*containers.left_of(folder), *processes_mentioning(str(folder)).values()]


@pytest.fixture
def container_bench(tmp_path: Path) -> Iterator[Bench]:
    skip_without_isolation("container")
    bench = Bench(tmp_path, "container", grace=2.0)
    yield bench
    for folder in (bench.session.root / "jobs").glob("*"):
        bench.stop(folder.name)
        bench.end_of(folder.name)


# A job of data and train hosts ---------------------------------------------------------------

PIPELINE = """
import numpy
def train_set():
    return [numpy.full(4, each, dtype=numpy.int64) for each in range(64)]
"""
TRAIN = """
import hashlib
from launcher.data import DataLoader
loader = DataLoader("pipeline:train_set", batch_size=8, shuffle=True, seed=3)
for epoch in range(2):
    digest = hashlib.sha256()
    for batch in loader:
        digest.update(batch.tobytes())
    print("sha256", epoch, digest.hexdigest())
"""


def hashes(tmp_path: Path, isolation: str | None) -> list[str]:
    folder = tmp_path / str(isolation)
    folder.mkdir()
    session = LocalSession(folder / "home") if isolation is None else session_in(folder, isolation)
    job = fit(
        session,
        folder / "source",
        {"train.py": TRAIN, "pipeline.py": PIPELINE},
        instance_groups=[
            InstanceGroup("data_group", "ml.c5.xlarge", 2),
            InstanceGroup("train_group", "ml.c5.xlarge", 1),
        ],
        data_service=DataService(datasets=("pipeline:train_set",), workers_per_host=1),
    )
    job.raise_for_status()
    wait_until(lambda: not left_of(folder / "home" / "jobs" / "job"))
    return sorted(line for lines in printed(job).values() for line in lines if "sha256" in line)


@pytest.mark.library("containers-smoke")
def test_data_hosts_serve_the_same_batches_in_containers(tmp_path: Path) -> None:
    skip_without_isolation("container")
    in_containers = hashes(tmp_path, "container")
    assert len(in_containers) == 2
    assert in_containers == hashes(tmp_path, None)


# What a host sees ----------------------------------------------------------------------------

LOOK = """
def error_of(action):
    try:
        action()
    except OSError as error:
        return type(error).__name__
    return None

def answer_of(address, port):
    while True:
        try:
            with socket.create_connection((address, port)) as connection:
                return connection.makefile().readline().strip()
        except (ConnectionRefusedError, socket.gaierror):
            time.sleep(0.02)

server = socket.create_server(("", 6000))
peers = me["hosts"]
(other,) = set(peers) - {host}
data = ml / "input/data/whole"
report = {
    "ml": str(ml),
    "pid": os.getpid(),
    "user": os.getuid(),
    "hostname": socket.gethostname(),
    "interface": me["network_interface_name"],
    "interfaces": sorted(name for _, name in socket.if_nameindex()),
    "loopback": error_of(lambda: socket.create_connection(("127.0.0.1", int(sys.argv[1])))),
    "data": sorted(os.listdir(data)),
    "refused": error_of(lambda: (data / "a").write_text("changed")),
    "machine": Path(sys.argv[2]).exists(),
    "shm": os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize > 100e6,
    "keys": [name for name in os.environ if name.startswith("AWS_") and name != "AWS_REGION"],
}
import threading
told = threading.Event()
def attend():
    while True:
        connection, _ = server.accept()
        connection.sendall(host.encode() + b"\\n")
        connection.close()
        told.set()
threading.Thread(target=attend, daemon=True).start()
report["wildcard"] = answer_of(other, 6000)
told.wait()
for folder in ("model", "output/data"):
    file = ml / folder / f"of-{host}"
    file.write_text(host)
    os.chown(file, 1234, 1234)
    (ml / folder).chmod(0o700)
    os.chown(ml / folder, 1234, 1234)
print(json.dumps(report))
"""


def test_a_host_is_a_container_of_the_image(
    container_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    bench = container_bench
    data = bench.folder / "data"
    data.mkdir()
    (data / "a").write_text("content")
    with socket.create_server(("127.0.0.1", 0)) as machine:
        request = bench.request(LOOK, hosts=2, channels=[channel("whole", f"file://{data}")])
        words = [str(machine.getsockname()[1]), str(bench.folder)]
        request["AlgorithmSpecification"]["ContainerArguments"] = words
        bench.session.create_training_job(**request)
        description = bench.end_of()
    assert description["TrainingJobStatus"] == "Completed", bench.lines()
    assert description["LocalIsolation"] == "container"
    for host, other in {"algo-1": "algo-2", "algo-2": "algo-1"}.items():
        found: dict[str, Any] = json.loads(bench.lines()[host][-1])
        assert found == {
            "ml": "/opt/ml",
            "pid": 1,
            "user": 0,
            "hostname": host,
            "interface": "eth0",
            "interfaces": ["eth0", "lo"],
            "loopback": "ConnectionRefusedError",
            "data": ["a"],
            "refused": "OSError",
            "machine": False,
            "shm": True,
            "keys": [],
            "wildcard": other,
        }
    assert (data / "a").read_text() == "content"
    trees = bench.job_folder() / "hosts"
    kept = [*trees.rglob("of-algo-*"), *bench.output.rglob("*.tar.gz")]
    assert {path.stat().st_uid for path in [*kept, *trees.glob("*/ml/model")]} == {os.getuid()}
    assert {"model.tar.gz", "output.tar.gz"} <= {path.name for path in kept}
    wait_until(lambda: not left_of(bench.job_folder()))


def test_another_image_than_the_requests_is_named(container_bench: Bench) -> None:
    request = container_bench.request("print('done')")
    request["AlgorithmSpecification"]["TrainingImage"] = "elsewhere/image:1"
    container_bench.session.create_training_job(**request)
    note = f"hosts run the image {NUMPY_IMAGE}, and SageMaker would run elsewhere/image:1"
    assert container_bench.describe()["LocalNotes"] == [note], "at once, so that `run` prints it"
    assert container_bench.end_of()["LocalNotes"] == [note]
    digest = container_bench.describe()["LocalImage"]["Digest"]
    assert digest.startswith("sha256:")


#: Two hosts that meet by name, each at its own address.
MEET = """
(other,) = set(me["hosts"]) - {host}
server = socket.create_server((socket.gethostbyname(host), 6000))
while True:
    try:
        socket.create_connection((other, 6000)).close()
        break
    except OSError:
        time.sleep(0.02)
server.accept()
routes = [line.split() for line in Path("/proc/net/route").read_text().splitlines()[1:]]
print(json.dumps({
    "interface": me["network_interface_name"],
    "peer": socket.gethostbyname(other).split(".")[0],
    "hostname": socket.gethostname(),
    "outside": any(to == "00000000" for _, to, *_ in routes),
}))
"""
#: Before the real engine's program: it makes no network, as without netavark; one without names, as
#: without aardvark-dns; or none for a container, as without slirp4netns.
REFUSALS = {
    "no names": '"network inspect"*) echo false; exit ;;',
    "no network": '"network create"*) echo "Error: could not find netavark" >&2; exit 125 ;;',
    "none for a container": """run*"--network none"*|run*"--network container:"*) ;;
  run*) echo "Error: could not find slirp4netns, the network namespace cannot be" >&2; exit 126 ;;
""",
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_hosts_share_a_network_where_none_can_be_made_for_each(
    container_bench: Bench, monkeypatch: pytest.MonkeyPatch, refusal: str
) -> None:
    program = container_bench.folder / "bin" / ENGINE
    program.parent.mkdir()
    script = f'#!/bin/sh\ncase "$*" in {REFUSALS[refusal]} esac\nexec {shutil.which(ENGINE)} "$@"\n'
    program.write_text(script)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    description = container_bench.run(MEET, hosts=2)
    assert description["TrainingJobStatus"] == "Completed", container_bench.lines()
    for host, lines in container_bench.lines().items():
        shared = {"interface": "lo", "peer": "127", "hostname": host, "outside": False}
        assert json.loads(lines[-1]) == shared
    (note,) = description["LocalNotes"]
    assert note.startswith("hosts share one network without a way outside: ")
    assert "could not find" in note
    wait_until(lambda: not left_of(container_bench.job_folder()))


def test_an_isolated_network_has_no_way_outside(container_bench: Bench) -> None:
    description = container_bench.run(MEET, hosts=2, EnableNetworkIsolation=True)
    assert description["TrainingJobStatus"] == "Completed", container_bench.lines()
    for host, lines in container_bench.lines().items():
        inside = {"interface": "eth0", "peer": "10", "hostname": host, "outside": False}
        assert json.loads(lines[-1]) == inside
    assert description["LocalNotes"] == [], "here it has an effect"


# Endings -------------------------------------------------------------------------------------

OF_NO_MEMORY = "host algo-1 (homogeneousCluster): its container needed more memory than it has"


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("bytearray(10**9)", id="the first process"),
        pytest.param(
            "child = [sys.executable, '-c', 'bytearray(10**9)']\n"
            "sys.exit(subprocess.run(child).returncode and 3)",
            id="a child of it",
        ),
    ],
)
def test_a_host_that_needs_more_memory_than_it_has(tmp_path: Path, script: str) -> None:
    skip_without_isolation("container")
    bench = Bench(tmp_path, "container")
    bench.session = session_in(tmp_path, "container", host_memory="100m")
    assert bench.run(script)["FailureReason"] == f"{OF_NO_MEMORY} (killed by SIGKILL)"


def test_an_image_without_the_entry_point(container_bench: Bench) -> None:
    request = container_bench.request("print('done')")
    request["AlgorithmSpecification"]["ContainerEntrypoint"] = ["no-such-program"]
    container_bench.session.create_training_job(**request)
    reason = container_bench.end_of()["FailureReason"]
    assert reason.startswith("host algo-1 (homogeneousCluster): its container did not start: ")
    assert "no-such-program" in reason


def test_jobs_beside_each_other_keep_their_names(container_bench: Bench) -> None:
    """Podman's name server, which the first of them has started, outlives it."""
    look = 'while not wait_for_go(): print("at", socket.gethostbyname("algo-2"), flush=True); break'
    container_bench.start("time.sleep(1)", name="first", hosts=2)
    container_bench.start(look, name="second", hosts=2)
    container_bench.end_of("first")
    (container_bench.folder / "code" / "second" / "go").touch()
    assert container_bench.end_of("second")["TrainingJobStatus"] == "Completed"


# Cycles --------------------------------------------------------------------------------------

UP = 'print("up", flush=True)\ntime.sleep(600)'
#: Creates a job as the client that is to be killed, and then follows it.
CLIENT = """
import json, sys, time
from launcher import LocalSession
root, options, request = sys.argv[1:]
LocalSession(root, "container", **json.loads(options)).create_training_job(**json.loads(request))
time.sleep(600)
"""


def kill(*pids: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def containers_of(bench: Bench, name: str) -> list[str]:
    label = f"label={LABEL}={bench.job_folder(name)}"
    return engine("ps", "--quiet", "--no-trunc", "--filter", label).split()


def conmons_of(bench: Bench, name: str) -> list[int]:
    return [
        pid
        for container in containers_of(bench, name)
        for pid in processes_mentioning(f"-c\0{container}")
    ]


def stop(bench: Bench, name: str) -> None:
    bench.stop(name)


def kill_client(bench: Bench, name: str) -> None:
    """The job goes on; another client stops it."""
    kill(*(pid for pid, words in processes_mentioning(CLIENT).items() if f'"{name}"' in words))
    assert bench.describe(name)["TrainingJobStatus"] == "InProgress"
    bench.stop(name)


def kill_platform(bench: Bench, name: str) -> None:
    kill(platform_and_keeper(bench.job_folder(name))[0])


def kill_platform_and_keeper(bench: Bench, name: str) -> None:
    """The next verb of any kind clears up."""
    kill(*platform_and_keeper(bench.job_folder(name))[::-1])


def reboot(bench: Bench, name: str) -> None:
    """Nothing of the job runs, of which the engine was not told."""
    kill_platform_and_keeper(bench, name)
    kill(*conmons_of(bench, name))
    kill(*processes_mentioning(f"{bench.job_folder(name)}/hosts"))
    settings = bench.job_folder(name) / "settings.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "boot": "another"}))


def kill_container(bench: Bench, name: str) -> None:
    engine("kill", containers_of(bench, name)[0])


def kill_conmon(bench: Bench, name: str) -> None:
    kill(conmons_of(bench, name)[0])


CYCLES = [
    pytest.param(stop, "Stopped", "", id="stop"),
    pytest.param(kill_client, "Stopped", "", id="client"),
    pytest.param(kill_platform, "Failed", "the local platform process died", id="platform"),
    pytest.param(kill_platform_and_keeper, "Failed", "the local platform process", id="keeper"),
    pytest.param(reboot, "Failed", "this machine was restarted while the job ran", id="reboot"),
    pytest.param(kill_container, "Failed", "host algo-1", id="container"),
    pytest.param(kill_conmon, "Failed", "host algo-1", id="conmon"),
]


@pytest.fixture(scope="module")
def image_with_a_volume() -> Iterator[str]:
    """One whose containers get a volume of the engine's each."""
    skip_without_isolation("container")
    with made_image({}, changes=["VOLUME /scratch"]) as image:
        yield image


@pytest.mark.parametrize(("hurt", "status", "reason"), CYCLES)
def test_eight_cycles_leave_nothing(
    container_bench: Bench, image_with_a_volume: str, hurt: Any, status: str, reason: str
) -> None:
    bench, options = container_bench, {"engine": ENGINE, "stop_grace_seconds": 2.0}
    bench.image = options["image"] = image_with_a_volume
    volumes = set(engine("volume", "ls", "--quiet").split())
    for number in range(8):
        name = f"job-{number}"
        request = json.dumps(bench.request(UP, name=name))
        words = [CLIENT, str(bench.session.root), json.dumps(options), request]
        client = subprocess.Popen([sys.executable, "-c", *words])
        try:
            wait_until((bench.job_folder(name) / "status.json").exists)
            bench.wait_for_line("up", name=name)
            hurt(bench, name)
            description = bench.end_of(name)
        finally:
            client.kill()
            client.wait()
        assert description["TrainingJobStatus"] == status
        assert description.get("FailureReason", "").startswith(reason)
        wait_until(lambda name=name: not left_of(bench.job_folder(name)))
    wait_until(lambda: set(engine("volume", "ls", "--quiet").split()) <= volumes)


# Packages of the job -------------------------------------------------------------------------


def test_requirements_are_installed_in_the_container_or_the_job_says_why_not(
    tmp_path: Path,
) -> None:
    """Without an index: from a wheel in the source, and one that is not there."""
    skip_without_isolation("container")
    source = tmp_path / "source"
    make_wheel(source / "wheels", "mine", "1.2")
    lines = ["--no-index", "--find-links wheels", "numpy>=1", "mine==1.2"]
    files = {"train.py": "import mine\nprint('has', mine.VERSION)\n"}
    files["requirements.txt"] = "\n".join(lines)
    session = session_in(tmp_path, "container")
    job = fit(session, source, files)
    assert "has 1.2" in printed(job)["algo-1"]
    files["requirements.txt"] += "\nabsent==3"
    with pytest.raises(JobFailed) as failed:
        fit(session, source, files, name="lacking")
    reason = str(failed.value)
    assert "pip could not install requirements.txt" in reason
    assert "No matching distribution found for absent==3" in reason
