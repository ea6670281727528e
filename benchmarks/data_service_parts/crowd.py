"""A thousand workers and the receivers of many ranks, as a dispatcher sees them: in one process.

Their work takes no time, so that a dispatcher is asked for all that it can give. Each has its own
connection, with the handshake on the job's token, and says what a real one says: workers beat once
a second, receivers report what has arrived and was taken.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from launcher.data.control import messages as m
from launcher.data.order import BatchPlan, StreamSpec
from launcher.runtime import jsonl_socket

#: A worker says that a batch takes it so long: it is leased blocks of 8 and more.
_BATCH_SECONDS = 0.001
_BATCH_BYTES = 4096
_REPORT_SECONDS = 0.01
_BEAT_SECONDS = 1.0
_STEPS = 1_000_000  # of a rank: more than are ever leased


@dataclass
class Tally:
    """leases: batches leased. blocks: the messages that leased them. messages: in both ways."""

    leases: int = 0
    blocks: int = 0
    messages: int = 0

    def since(self, before: Tally) -> Tally:
        return Tally(**{name: value - getattr(before, name) for name, value in vars(self).items()})


@dataclass
class _Run:
    """What the receiver of a run has to report."""

    arrived: list[list[Any]] = field(default_factory=list)
    waiting: set[int] = field(default_factory=set)
    next_step: int = 0

    def report(self) -> tuple[list[list[Any]], list[int]]:
        """[step, worker, bytes] of what has arrived, and the steps that the rank takes."""
        arrived, self.arrived = self.arrived, []
        self.waiting.update(step for step, _, _ in arrived)
        first = self.next_step
        while self.next_step in self.waiting:
            self.waiting.remove(self.next_step)
            self.next_step += 1
        return arrived, list(range(first, self.next_step))


class Crowd:
    """All of them. address: the dispatcher's."""

    def __init__(self, address: tuple[str, int], token: str, dataset: str) -> None:
        self._address = address
        self._token = token
        self._spec = StreamSpec(name="crowd", dataset=dataset, batch_size=1)
        self._runs: dict[str, _Run] = defaultdict(_Run)
        self._tally = Tally()
        self._tasks: list[asyncio.Task[None]] = []

    async def join(self, *, workers: int, receivers: int, ranks: int) -> None:
        """Connect all, and open a run for each of the ranks, which the receivers share."""
        for number in range(workers):
            await self._join_worker(f"sim-{number}/0/{number}", number)
        for number in range(receivers):
            await self._join_receiver(f"train-{number}", range(number, ranks, receivers), ranks)

    async def work(self, seconds: float) -> Tally:
        """What is done in so many seconds; raises what went wrong."""
        before = Tally(**vars(self._tally))
        await asyncio.sleep(seconds)
        for task in self._tasks:
            if task.done():
                task.result()
        return self._tally.since(before)

    # ---------------------------------------------------------------------------------------

    async def _join_worker(self, name: str, pid: int) -> None:
        line = await self._connect()
        line.send(m.RegisterWorker(worker=name, pid=pid, seconds=_BATCH_SECONDS))
        self._keep(self._take_leases(line, name))
        self._keep(self._beat(line))

    async def _join_receiver(self, host: str, ranks: range, world: int) -> None:
        line = await self._connect()
        line.send(m.RegisterReceiver(host=host, address=("127.0.0.1", 9)))
        runs = {f"{rank}-0-crowd": rank for rank in ranks}
        for run, rank in runs.items():
            plan = BatchPlan(
                spec=self._spec, length=_STEPS * world, epoch=0, rank=rank, world=world
            )
            line.send(m.OpenRun(run=run, rank=rank, plan=m.encode_plan(plan)))
        self._keep(self._report(line, list(runs)))
        self._keep(self._listen(line))

    async def _connect(self) -> _Line:
        connection = jsonl_socket.connect(
            self._address, self._token, timeout=5.0, peer="the dispatcher"
        )
        connection.setblocking(False)
        return _Line(*await asyncio.open_connection(sock=connection, limit=1 << 20), self._tally)

    def _keep(self, duty: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(duty))

    async def _take_leases(self, line: _Line, worker: str) -> None:
        while True:
            message = await line.receive()
            if message["type"] == "Lease":
                steps = message["steps"]
                self._tally.blocks += 1
                self._tally.leases += len(steps)
                arrived = ([step, worker, _BATCH_BYTES] for step in steps)
                self._runs[message["run"]].arrived.extend(arrived)

    async def _beat(self, line: _Line) -> None:
        while True:
            line.send(m.Heartbeat(seconds=_BATCH_SECONDS, done={}))
            await asyncio.sleep(_BEAT_SECONDS)

    async def _listen(self, line: _Line) -> None:
        while True:
            message = await line.receive()
            if message["type"] == "RunFailed":
                raise ConnectionError(message["message"])

    async def _report(self, line: _Line, runs: list[str]) -> None:
        while True:
            reports = {run: self._runs[run].report() for run in runs if self._runs[run].arrived}
            if reports:
                arrived = {run: batches for run, (batches, _) in reports.items()}
                taken = {run: steps for run, (_, steps) in reports.items() if steps}
                line.send(m.ProgressUpdate(arrived=arrived, taken=taken))
            await asyncio.sleep(_REPORT_SECONDS)


@dataclass
class _Line:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    tally: Tally

    def send(self, message: m.Message) -> None:
        self.tally.messages += 1
        self.writer.write(jsonl_socket.encode(message.encode()))

    async def receive(self) -> dict[str, Any]:
        raw = await self.reader.readline()
        if not raw:
            raise ConnectionError("the dispatcher hung up")
        self.tally.messages += 1
        return dict(json.loads(raw))
