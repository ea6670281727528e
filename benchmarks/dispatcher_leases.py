"""How many leases a second one dispatcher gives out, with token, expiry and acknowledgements.

`python benchmarks/dispatcher_leases.py` starts the real dispatcher as a process and plays 1,000
workers and 64 ranks on 8 train hosts over real sockets, in this process. Workers "prepare" a batch
at once; receivers report every 5 ms, and ranks take every batch that they get. It prints leases and
messages a second, and per second of the dispatcher's own CPU, which is what one core can do when
this process does not compete for it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import selectors
import signal
import socket
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launcher.contract import DataPart
from launcher.data import messages as m
from launcher.data.dispatcher import Dispatcher
from launcher.data.plan import Plan
from launcher.data.streams import StreamSpec
from launcher.runtime import lines
from launcher.runtime.processes import raise_descriptor_limit

_TOKEN = "benchmark"
_HOSTS = 8
_RANKS_PER_HOST = 8
_REPORT_SECONDS = 0.005
_BATCH_BYTES = 65536
_DATASET = "pipeline:train_set"


def _dispatch(port: int) -> None:
    async def serve() -> None:
        dispatcher = Dispatcher(
            DataPart(datasets=(_DATASET,), workers_per_host=1, prefetch_bytes=1 << 30),
            token=_TOKEN,
            data_hosts=("data",),
            start_timeout=60.0,
        )
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, stop.set)
        await dispatcher.serve(("127.0.0.1", port), stop)

    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # a line for each worker that joins
    raise_descriptor_limit()
    asyncio.run(serve())


@dataclass
class _Receiver:
    """One train host: what has arrived since its last report."""

    name: str
    connection: socket.socket
    arrived: dict[str, list[list[Any]]] = field(default_factory=dict)
    waiting: dict[str, set[int]] = field(default_factory=dict)
    next_step: Counter[str] = field(default_factory=Counter)

    def report(self) -> m.Progress:
        taken: dict[str, list[int]] = {}
        for run in self.arrived:
            waiting = self.waiting.setdefault(run, set())
            waiting.update(step for step, _, _ in self.arrived[run])
            while self.next_step[run] in waiting:
                waiting.remove(self.next_step[run])
                taken.setdefault(run, []).append(self.next_step[run])
                self.next_step[run] += 1
        report = m.Progress(arrived=self.arrived, taken=taken)
        self.arrived = {}
        return report


@dataclass
class _Worker:
    name: str
    connection: socket.socket
    done: dict[str, list[int]] = field(default_factory=dict)
    rest: bytes = b""


class _World:
    """All workers and receivers, on one selector. seconds: that a batch takes, as workers say."""

    def __init__(self, port: int, workers: int, seconds: float) -> None:
        self.messages = 0
        self.leases = 0
        self.blocks = 0
        self._seconds = seconds
        self._selector = selectors.DefaultSelector()
        address = ("127.0.0.1", port)
        self._receivers = [self._receiver(f"train-{n}", address) for n in range(_HOSTS)]
        self._by_name = {receiver.name: receiver for receiver in self._receivers}
        self._workers = [self._worker(f"data/{n}", address) for n in range(workers)]
        for receiver in self._receivers:
            for rank in range(_RANKS_PER_HOST):
                self._open(receiver, rank)

    def _connect(self, address: tuple[str, int]) -> socket.socket:
        return lines.connect(address, _TOKEN, patience=30.0, what="the dispatcher")

    def _receiver(self, name: str, address: tuple[str, int]) -> _Receiver:
        receiver = _Receiver(name, self._connect(address))
        self._say(receiver.connection, m.HelloReceiver(host=name, address=address))
        self._selector.register(receiver.connection, selectors.EVENT_READ, None)
        return receiver

    def _worker(self, name: str, address: tuple[str, int]) -> _Worker:
        worker = _Worker(name, self._connect(address))
        self._say(worker.connection, m.HelloWorker(worker=name, pid=0, seconds=self._seconds))
        self._selector.register(worker.connection, selectors.EVENT_READ, worker)
        return worker

    def _open(self, receiver: _Receiver, rank: int) -> None:
        spec = StreamSpec(name="train", dataset=_DATASET, batch_size=1)
        world = _HOSTS * _RANKS_PER_HOST
        plan = Plan(spec=spec, length=10**9, epoch=0, rank=rank, world=world)
        run = f"{receiver.name} {rank}"
        opened = m.OpenRun(run=run, rank=rank, plan=m.encode_plan(plan))
        self._say(receiver.connection, opened)

    def _say(self, connection: socket.socket, message: m.Message) -> None:
        connection.sendall(lines.encode(message.encode()))
        self.messages += 1

    def live(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        next_report, next_beat = 0.0, time.monotonic() + 1.0
        while (now := time.monotonic()) < end:
            for key, _ in self._selector.select(_REPORT_SECONDS):
                self._hear(key.data, key.fileobj)
            if now >= next_report:
                next_report = now + _REPORT_SECONDS
                for receiver in self._receivers:
                    if receiver.arrived:
                        self._say(receiver.connection, receiver.report())
            if now >= next_beat:
                next_beat = now + 1.0
                for worker in self._workers:
                    done, worker.done = worker.done, {}
                    self._say(worker.connection, m.Beat(seconds=self._seconds, done=done))

    def _hear(self, worker: _Worker | None, connection: Any) -> None:
        data = connection.recv(1 << 18)
        if worker is None:
            return
        *whole, worker.rest = (worker.rest + data).split(b"\n")
        for line in whole:
            message = json.loads(line)
            self.messages += 1
            if message["type"] == "Lease":
                self._prepare(worker, message["run"], message["steps"])

    def _prepare(self, worker: _Worker, run: str, steps: list[int]) -> None:
        self.leases += len(steps)
        self.blocks += 1
        worker.done.setdefault(run, []).extend(steps)
        receiver = self._by_name[run.partition(" ")[0]]
        arrived = receiver.arrived.setdefault(run, [])
        arrived += [[step, worker.name, _BATCH_BYTES] for step in steps]


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=5.0, help="how long to measure")
    parser.add_argument("--batch-seconds", type=float, default=0.001, help="what workers say")
    arguments = parser.parse_args()
    raise_descriptor_limit()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    dispatcher = multiprocessing.get_context("spawn").Process(target=_dispatch, args=(port,))
    dispatcher.start()
    assert dispatcher.pid is not None
    try:
        world = _World(port, arguments.workers, arguments.batch_seconds)
        world.live(2.0)  # until all run at their pace
        world.leases = world.blocks = world.messages = 0
        cpu, started = _cpu_seconds(dispatcher.pid), time.monotonic()
        world.live(arguments.seconds)
        cpu, passed = _cpu_seconds(dispatcher.pid) - cpu, time.monotonic() - started
    finally:
        dispatcher.kill()
    print(f"{world.leases / passed:10,.0f} leases/s, {world.messages / passed:,.0f} messages/s")
    print(f"{world.leases / cpu:10,.0f} leases per second of the dispatcher's CPU")
    print(f"{100 * cpu / passed:10.0f} % of one core was the dispatcher's")
    print(f"{world.leases / world.blocks:10.1f} leases in a block")
    print(f"{world.messages / world.leases:10.2f} messages a batch, in all")


if __name__ == "__main__":
    main()
