"""The gRPC example: what server and loader agree on, a real server, and the whole job."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

FOLDER = Path(__file__).parents[2] / "examples" / "grpc_loader"
MODULES = ("protocol", "dataset", "server", "loader")


@pytest.fixture(scope="module")
def example() -> Iterator[SimpleNamespace]:
    """The modules of the example, under their own names."""
    for package in ("grpc", "sklearn", "PIL", "torch"):
        pytest.importorskip(package, reason="the example needs the extras 'examples' and 'torch'")
    sys.path.insert(0, str(FOLDER))
    yield SimpleNamespace(**{name: importlib.import_module(name) for name in MODULES})
    sys.path.remove(str(FOLDER))
    for name in MODULES:
        del sys.modules[name]


def poll(condition: object, seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, f"waited {seconds} s in vain"
        time.sleep(0.05)


# Who gets which samples ------------------------------------------------------------------------


@given(
    world_size=st.integers(1, 5),
    servers=st.integers(1, 4),
    batch_size=st.integers(2, 40),
    extra=st.integers(0, 200),
)
def test_every_sample_occurs_once_and_ranks_make_equal_steps(
    example: SimpleNamespace, world_size: int, servers: int, batch_size: int, extra: int
) -> None:
    length = world_size + extra
    fixed = {"split": "train", "epoch": 3, "seed": 1, "batch_size": batch_size}
    per_rank = []
    for rank in range(world_size):
        shares = [
            example.protocol.Share(
                **fixed, rank=rank, world_size=world_size, server=server, servers=servers
            )
            for server in range(servers)
        ]
        per_rank.append([ids for share in shares for ids in share.batches(length)])
    assert {len(batches) for batches in per_rank} == {shares[0].steps(length)}
    seen = np.concatenate([ids for batches in per_rank for ids in batches])
    assert sorted(seen) == list(range(length))
    assert all(0 < len(ids) <= batch_size for batches in per_rank for ids in batches)


def test_a_batch_survives_its_bytes(example: SimpleNamespace) -> None:
    batch = {"ids": np.arange(3), "images": np.ones((3, 1, 2), np.float32), "none": np.zeros(0)}
    back = example.protocol.decode(example.protocol.encode(batch))
    assert back.keys() == batch.keys()
    for name, array in batch.items():
        assert back[name].dtype == array.dtype
        np.testing.assert_array_equal(back[name], array)


# Real servers ----------------------------------------------------------------------------------


class Server:
    """A server process of the example on a port of its own."""

    def __init__(self, log: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.address = f"127.0.0.1:{port}"
        self.log = log
        self.process = subprocess.Popen(
            [sys.executable, "server.py", "--port", str(port)],
            cwd=FOLDER,
            stdout=log.open("w"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def wait_until_serving(self) -> None:
        poll(lambda: "serving" in self.log.read_text())

    def kill(self) -> None:
        """With its worker processes, which ignore SIGTERM."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@pytest.fixture(scope="module")
def servers(
    example: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Server]]:
    """Two servers for all tests."""
    folder = tmp_path_factory.mktemp("servers")
    made = [Server(folder / f"log-{number}") for number in range(2)]
    for server in made:
        server.wait_until_serving()
    yield made
    for server in made:
        server.kill()


@pytest.fixture
def victim(example: SimpleNamespace, tmp_path: Path) -> Iterator[Server]:
    """A server that may be ended."""
    server = Server(tmp_path / "log")
    server.wait_until_serving()
    yield server
    server.kill()


@contextlib.contextmanager
def serving(example: SimpleNamespace, kind: type, ahead: int) -> Iterator[str]:
    """A server in this process, which a thread prepares for; its address."""
    pool = ThreadPoolExecutor(1)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    server = example.server.start(kind(pool, ahead), address)
    try:
        yield address
    finally:
        server.stop(None).wait()
        pool.shutdown(cancel_futures=True)


def loader(example: SimpleNamespace, servers: list[Server], split: str = "test", **options):
    addresses = [server.address for server in servers]
    return example.loader.GrpcLoader(split, 8, servers=addresses, **options)


def test_epochs_are_complete_differ_and_come_from_all_servers(
    example: SimpleNamespace, servers: list[Server]
) -> None:
    batches = loader(example, servers)
    epochs = [[(ids.tolist(), images, labels) for ids, images, labels in batches] for _ in "ab"]
    for epoch in epochs:
        assert len(epoch) == len(batches) == 45
        assert sorted(i for ids, _, _ in epoch for i in ids) == list(range(360))
        _, images, labels = epoch[0]
        assert images.shape == (8, 1, 28, 28)
        assert labels.shape == (8,)
    assert [ids for ids, _, _ in epochs[0]] != [ids for ids, _, _ in epochs[1]]

    again = loader(example, servers[:1])  # the same batches, whoever prepares them
    assert [ids.tolist() for ids, _, _ in again] == [ids for ids, _, _ in epochs[0]]


def test_an_epoch_that_is_left_early_can_be_followed_by_another(
    example: SimpleNamespace, servers: list[Server]
) -> None:
    batches = loader(example, servers)
    for _ in batches:
        break
    assert sum(len(ids) for ids, _, _ in batches) == 360


def test_a_killed_server_is_named_and_no_epoch_is_short(
    example: SimpleNamespace, servers: list[Server], victim: Server
) -> None:
    batches = iter(loader(example, [servers[0], victim], split="train", prefetch=1))
    next(batches)
    victim.kill()
    with pytest.raises(
        example.loader.ServerLost, match=f"server {victim.address}: connection lost"
    ):
        list(batches)


def test_a_slow_reader_holds_the_server_back(
    example: SimpleNamespace,
) -> None:
    """A loader that does not read: the server prepares a few batches ahead, and then waits."""
    prepared = Counter()

    class Counting(example.server.Batches):
        def _submit(self, share, ids):
            prepared["batches"] += 1
            return super()._submit(share, ids)

    with serving(example, Counting, ahead=3) as address:
        reader = iter(example.loader.GrpcLoader("train", 32, servers=[address], prefetch=2))
        next(reader)
        settled = settled_value(lambda: prepared["batches"])
        # A batch of 32 images has 100 KB: one was read, two are queued, one is in the receiver's
        # hands, three are ahead, one or two being sent, and ten or eleven are in the window.
        assert settled <= 22 < 45
        assert 1 + sum(1 for _ in reader) == prepared["batches"] == 45


def settled_value(value, seconds: float = 1.0) -> int:
    """What does not change for a while."""
    last, since = value(), time.monotonic()
    while time.monotonic() - since < seconds:
        time.sleep(0.05)
        if (now := value()) != last:
            last, since = now, time.monotonic()
    return last


def test_a_server_that_sends_less_than_announced_is_found_out(example: SimpleNamespace) -> None:
    class Forgetful(example.server.Batches):
        def stream(self, request, context):
            *kept, _ = super().stream(request, context)
            yield from kept

    with (
        serving(example, Forgetful, ahead=2) as address,
        pytest.raises(example.loader.ServerLost, match=r"44 batches .* announced was Total"),
    ):
        list(example.loader.GrpcLoader("test", 8, servers=[address]))


def test_batches_too_small_for_equal_steps_are_refused(
    example: SimpleNamespace, servers: list[Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "7")
    with pytest.raises(ValueError, match="360 samples are too few for equal steps of 7 ranks"):
        example.loader.GrpcLoader("test", 1, servers=[servers[0].address])


def test_an_error_on_the_server_reaches_the_loader(
    example: SimpleNamespace, servers: list[Server]
) -> None:
    with pytest.raises(RuntimeError) as raised:
        loader(example, servers, split="validation")
    said = f"server {servers[0].address} failed: INTERNAL: KeyError('validation')\n"
    assert str(raised.value).startswith(said)
    assert 'dataset.py", line' in str(raised.value)


def test_a_server_that_is_not_there_is_named(example: SimpleNamespace) -> None:
    with pytest.raises(example.loader.ServerLost, match=r"server 127.0.0.1:1: no connection for"):
        example.loader.GrpcLoader("test", 8, servers=["127.0.0.1:1"], patience=0.5)


def test_an_error_in_the_midst_of_an_epoch_reaches_the_loader(example: SimpleNamespace) -> None:
    class Failing(example.server.Batches):
        def _submit(self, share, ids):
            return super()._submit(share, ids + (1000 if 7 in ids else 0))

    with (
        serving(example, Failing, ahead=2) as address,
        pytest.raises(RuntimeError, match="INTERNAL: IndexError"),
    ):
        list(example.loader.GrpcLoader("test", 8, servers=[address]))


def test_a_killed_worker_process_of_a_server_is_no_hang(
    example: SimpleNamespace, victim: Server
) -> None:
    batches = iter(loader(example, [victim], split="train"))
    next(batches)
    children = Path(f"/proc/{victim.process.pid}/task/{victim.process.pid}/children").read_text()
    for pid in map(int, children.split()):
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match=f"server {victim.address} failed: .*BrokenProcessPool"):
        list(batches)


def test_sigterm_lets_streams_end_and_then_the_server(
    example: SimpleNamespace, victim: Server
) -> None:
    batches = iter(loader(example, [victim]))
    ids, _, _ = next(batches)
    os.killpg(victim.process.pid, signal.SIGTERM)  # to the whole tree, as at the end of a job
    assert len(ids) + sum(len(ids) for ids, _, _ in batches) == 360
    assert victim.process.wait(30) == 0
    assert victim.log.read_text().splitlines()[-1] == "closed"


def test_a_server_whose_address_is_taken_fails(servers: list[Server]) -> None:
    port = servers[0].address.rpartition(":")[2]
    second = subprocess.run(
        [sys.executable, "server.py", "--port", port],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert second.returncode == 1
    assert "Failed to bind" in second.stderr


# The whole job ---------------------------------------------------------------------------------

#: The example's own script, with the ids of every epoch as they come.
WITNESS = """
import os, runpy
from loader import GrpcLoader

plain = GrpcLoader.__iter__
count = 0

def watched(self):
    global count
    seen = []
    for batch in plain(self):
        seen += batch[0].tolist()
        yield batch
    print(f"witness pass={count} ids={' '.join(map(str, seen))}", flush=True)
    count += 1

GrpcLoader.__iter__ = watched
runpy.run_path("train.py", run_name="__main__")
"""


NAME = b"grpc-loader-test-%d" % os.getpid()


class Job:
    """A copy of the example, run by the command line with a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "example"
        shutil.copytree(FOLDER, self.folder, ignore=shutil.ignore_patterns("__pycache__"))
        (self.folder / "witness.py").write_text(WITNESS)
        self._environment = {**os.environ, "LAUNCHER_HOME": str(folder / "home"), "NO_COLOR": "1"}

    def start(self, *options: str) -> subprocess.Popen[str]:
        job = str(self.folder / "job.yaml")
        return self._popen("run", job, "--local", "--name", NAME.decode(), "-o", "json", *options)

    def log(self, host: str) -> str:
        talk, _ = self._popen("logs", NAME.decode(), "--host", host).communicate(timeout=60)
        return talk

    def processes(self, part: str) -> list[int]:
        """Living processes of the job whose command has `part` in it."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it may end meanwhile
                is_of_job = b"TRAINING_JOB_NAME=%s\0" % NAME in (entry / "environ").read_bytes()
                if is_of_job and part.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
        return found

    def _popen(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "launcher.cli", *arguments],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture
def job(example: SimpleNamespace, tmp_path: Path) -> Job:
    return Job(tmp_path)


@pytest.mark.slow
def test_the_job_trains_and_sees_each_sample_once_an_epoch(job: Job) -> None:
    stdout, talk = job.start("--set", "entry_point=witness.py").communicate(timeout=170)
    summary = json.loads(stdout)
    assert summary["status"] == "Completed", talk
    assert summary["metrics"]["test_accuracy"] > 0.9
    assert [(g["name"], g["role"], g["hosts"]) for g in summary["groups"]] == [
        ("server_group", "command", ["algo-1", "algo-2"]),
        ("train_group", "train", ["algo-3", "algo-4"]),
    ]
    passes: dict[str, list[int]] = {}
    for number, ids in re.findall(r"witness pass=(\d) ids=([\d ]+)", talk):
        passes.setdefault(number, []).extend(map(int, ids.split()))
    lengths = dict.fromkeys("0123", 1437) | {"4": 360}  # four epochs, and the evaluation
    assert {number: sorted(ids) for number, ids in passes.items()} == {
        number: list(range(length)) for number, length in lengths.items()
    }
    assert len(re.findall(r"server_group/algo-\d +\| closed", talk)) == 2
    assert job.processes("") == []


@pytest.mark.slow
def test_a_server_that_is_killed_fails_the_job_from_its_host(job: Job) -> None:
    process = job.start("--set", "hyperparameters.epochs=1000")
    poll(lambda: "train_loss" in job.log("algo-4"), seconds=120)
    (victim,) = [pid for pid in job.processes("server.py") if is_on(pid, "algo-2")]
    os.kill(victim, signal.SIGKILL)
    stdout, talk = process.communicate(timeout=120)
    summary = json.loads(stdout)
    assert process.returncode == 1
    assert summary["status"] == "Failed"
    assert summary["failure_reason"].startswith(
        "host algo-2 (server_group): the command ended before training did: killed by SIGKILL"
    ), talk
    assert job.processes("") == []


def is_on(pid: int, host: str) -> bool:
    return f"SM_CURRENT_HOST={host}".encode() in Path(f"/proc/{pid}/environ").read_bytes()
