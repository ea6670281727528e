"""What one processor core of the dispatcher is good for, beside an echo of JSON lines.

A real dispatcher, started by its host in a job, is driven over real sockets by a crowd. It is held
to one processor and the crowd to the others. The figure is leases per processor second of the
dispatcher: its rate when it is what limits. Each lease counts with all that belongs to it: beats,
reports of arrival, acknowledgements, and leases that may expire.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from data_service_parts.bench import Bench
from data_service_parts.crowd import Crowd
from data_service_parts.job import Job
from data_service_parts.processes import cpu_seconds
from table.figures import Figure, at_least

_DATASET = "pipeline:sleeping"
_ECHO = Path(__file__).parents[1] / "peers" / "echo.py"


def measure(bench: Bench) -> Iterator[Figure]:
    job = Job(bench.folder / "dispatcher", "wait.py", _DATASET)
    try:
        job.lay_out(bench.harness.variables(job, {}))
        job.start_group("train_group")
        bench.harness.await_consumer(job)
        (pid,) = job.pids("launcher.data.dispatcher")
        with _apart(pid):
            yield from asyncio.run(_drive(bench, job, pid))
    finally:
        bench.harness.stop(job)
    with _echo_server() as (pid, port), _apart(pid):
        rates = asyncio.run(_drive_echo(bench, pid, port))
    yield _figure("an asyncio echo of such lines: per core second", rates, "messages/s")


async def _drive(bench: Bench, job: Job, pid: int) -> list[Figure]:
    crowd = Crowd(job.dispatcher_address, job.token, _DATASET)
    workers, ranks = int(bench.pick(1000, 20)), int(bench.pick(64, 4))
    await crowd.join(workers=workers, receivers=max(1, ranks // 8), ranks=ranks)
    await crowd.work(bench.pick(3.0, 1.0))  # everyone has said how fast it is
    values: dict[str, list[float]] = {"leases": [], "messages": [], "wall": [], "block": []}
    seconds = bench.pick(3.0, 0.5)
    for _ in range(bench.rounds):
        before = cpu_seconds(pid)
        tally = await crowd.work(seconds)
        used = cpu_seconds(pid) - before
        values["leases"].append(tally.leases / used)
        values["messages"].append(tally.messages / used)
        values["wall"].append(tally.leases / seconds)
        values["block"].append(tally.leases / max(1, tally.blocks))
    return [
        Figure(
            row="dispatcher",
            what=f"{workers} workers, {ranks} ranks: per core second",
            values=values["leases"],
            unit="leases/s",
            target=at_least(20_000),
        ),
        _figure("leases in one message, on average", values["block"], "leases", least=8),
        _figure("messages, both ways: per core second", values["messages"], "messages/s"),
        _figure("leases in a second of this run, crowd and all", values["wall"], "leases/s"),
    ]


async def _drive_echo(bench: Bench, pid: int, port: int) -> list[float]:
    """Messages that an echo answers, counted as it sees them: in and out."""
    line = (
        b'{"type":"Lease","run":"12-0-crowd","steps":[1001,1002,1003,1004,1005,1006,1007,1008]}\n'
    )
    count = 0

    async def ping() -> None:
        nonlocal count
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while True:
            writer.write(line)
            await reader.readline()
            count += 2

    tasks = [asyncio.create_task(ping()) for _ in range(int(bench.pick(1000, 20)))]
    await asyncio.sleep(bench.pick(2.0, 0.3))
    rates = []
    for _ in range(bench.rounds):
        before, used = count, cpu_seconds(pid)
        await asyncio.sleep(bench.pick(2.0, 0.3))
        rates.append((count - before) / max(0.01, cpu_seconds(pid) - used))
    for task in tasks:
        task.cancel()
    return rates


@contextlib.contextmanager
def _echo_server() -> Iterator[tuple[int, int]]:
    with subprocess.Popen([sys.executable, str(_ECHO)], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        try:
            yield server.pid, int(server.stdout.readline())
        finally:
            server.kill()


@contextlib.contextmanager
def _apart(pid: int) -> Iterator[None]:
    """Hold a process to one processor, and this one to the others."""
    mine = os.sched_getaffinity(0)
    first, *others = sorted(mine)
    os.sched_setaffinity(pid, {first})
    os.sched_setaffinity(0, others or {first})
    try:
        yield
    finally:
        os.sched_setaffinity(0, mine)


def _figure(what: str, values: list[float], unit: str, least: float | None = None) -> Figure:
    target = None if least is None else at_least(least)
    return Figure(row="dispatcher", what=what, values=values, unit=unit, target=target)
