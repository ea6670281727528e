"""The gRPC example: what server and loader agree on, and real servers."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import wait_until

FOLDER = Path(__file__).parents[2] / "examples" / "grpc_loader"


@pytest.fixture(scope="module")
def example(grpc_example: SimpleNamespace) -> SimpleNamespace:
    return grpc_example


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
    """A server process of the example that serves on a port of its own."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self._start()
        while not self._serves():  # another process has taken the port that was free
            self._start()

    def _start(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.address = f"127.0.0.1:{port}"
        with self.log.open("w") as written:
            self.process = subprocess.Popen(
                [sys.executable, "server.py", "--port", str(port)],
                cwd=FOLDER,
                stdout=written,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _serves(self) -> bool:
        """Wait until it serves, or has ended because its address is in use."""
        wait_until(lambda: "serving" in self.log.read_text() or self.process.poll() is not None)
        is_over = self.process.poll() is not None
        assert not is_over or "Failed to bind" in self.log.read_text(), self.log.read_text()
        return not is_over

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
    yield made
    for server in made:
        server.kill()


@pytest.fixture
def victim(example: SimpleNamespace, tmp_path: Path) -> Iterator[Server]:
    """A server that may be ended."""
    server = Server(tmp_path / "log")
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


@pytest.mark.long
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


@pytest.mark.long
def test_an_epoch_that_is_left_early_can_be_followed_by_another(
    example: SimpleNamespace, servers: list[Server]
) -> None:
    batches = loader(example, servers)
    for _ in batches:
        break
    assert sum(len(ids) for ids, _, _ in batches) == 360


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
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


def test_a_worker_process_that_dies_while_it_sends_a_batch_is_no_hang(
    example: SimpleNamespace,
) -> None:
    class Dying(example.server.Batches):  # type: ignore[misc, name-defined]
        def _submit(self, share: Any, ids: np.ndarray) -> Future[bytes]:
            worker = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,))
            worker.start()
            super()._submit(share, ids)
            worker.kill()
            return Future()  # the pool waits for the rest of the batch

    with (
        serving(example, Dying, ahead=1) as address,
        pytest.raises(RuntimeError, match="BrokenProcessPool: a worker process has died"),
    ):
        list(example.loader.GrpcLoader("test", 8, servers=[address]))


@pytest.mark.long
def test_sigterm_lets_streams_end_and_then_the_server(
    example: SimpleNamespace, victim: Server
) -> None:
    batches = iter(loader(example, [victim]))
    ids, _, _ = next(batches)
    os.killpg(victim.process.pid, signal.SIGTERM)  # to the whole tree, as at the end of a job
    assert len(ids) + sum(len(ids) for ids, _, _ in batches) == 360
    assert victim.process.wait(30) == 0
    assert victim.log.read_text().splitlines()[-1] == "closed"


@pytest.mark.long
def test_a_server_whose_address_is_taken_fails(servers: list[Server]) -> None:
    port = servers[0].address.rpartition(":")[2]
    second = subprocess.run(
        [sys.executable, "server.py", "--port", port],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert second.returncode == 1
    assert "Failed to bind" in second.stderr
