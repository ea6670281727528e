"""The dispatcher: one process on the leader that leases batches to workers.

`python -m launcher.data.dispatcher` runs until its host closes it, at the end of training; it then
tells the workers and prints how many batches each data host has prepared.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time

from launcher.contract import DataPart, Role
from launcher.data import messages as m
from launcher.data.ledger import SILENCE, Ledger
from launcher.data.metrics import Metrics
from launcher.data.plan import Plan
from launcher.data.publishing import Publisher
from launcher.data.streams import StreamSpec
from launcher.errors import AuthenticationError, DataError, LauncherError, WireError
from launcher.runtime import handshake, lines
from launcher.runtime.environment import Environment, paths_here
from launcher.runtime.events import emit
from launcher.runtime.processes import CLOSE_SIGNAL

#: Seconds without any worker, once there have been some, after which the ranks are told.
ABANDONED_AFTER = 60.0
_TICK = 0.25


class _Peer:
    """One connection, of a worker or a receiver."""

    def __init__(self, writer: asyncio.StreamWriter, name: str, host: str) -> None:
        self._writer = writer
        self.name = name
        self.host = host
        self.known_runs: set[str] = set()

    def send(self, message: m.Message) -> None:
        if not self._writer.is_closing():
            self._writer.write(lines.encode(message.encode()))

    async def close(self) -> None:
        with contextlib.suppress(OSError):
            await self._writer.drain()
            self._writer.close()
            await self._writer.wait_closed()


class Dispatcher:
    """Workers on one side, receivers on the other, and the ledger between them.

    data_hosts: hosts that are expected to serve. start_timeout: seconds to wait for the first.
    """

    def __init__(
        self,
        part: DataPart,
        *,
        token: str,
        data_hosts: tuple[str, ...],
        start_timeout: float,
        data_group: str = "the data group",
    ) -> None:
        self._part = part
        self._token = token
        self._data_hosts = data_hosts
        self._data_group = data_group
        self._start_timeout = start_timeout
        self._ledger = Ledger(part.prefetch_bytes)
        self._workers: dict[str, _Peer] = {}
        self._receivers: dict[str, _Peer] = {}
        self._addresses: dict[str, tuple[str, int]] = {}
        self._plans: dict[str, Plan] = {}
        self._run_receivers: dict[str, str] = {}
        self._specs: dict[str, StreamSpec] = {}
        self._lengths: dict[str, m.Length] = {}
        self._asking: dict[str, set[str]] = {}
        self._hosts_of_workers: dict[str, str] = {}
        self._last_worker = time.monotonic()
        self._metrics = Metrics()

    # Life ---------------------------------------------------------------------------------

    async def serve(self, address: tuple[str, int], stop: asyncio.Event) -> None:
        """Serve until `stop` is set and the receivers have said their last."""
        port = self._part.metrics_port
        publisher = Publisher(
            lambda: self._metrics.snapshot(self._ledger.leases_by_host(), self._ledger.late_leases),
            group=self._data_group,
            address=(address[0], port) if port else None,
        )
        server = await asyncio.start_server(
            self._attend, *address, limit=lines.MESSAGE_LIMIT, backlog=1024
        )
        async with server:
            duties = [asyncio.create_task(each) for each in (self._tick(), publisher.run())]
            await stop.wait()
            await self._last_words()
            for duty in duties:
                duty.cancel()
        publisher.last_words()
        emit(
            "batches_served",
            by_host={host: self._ledger.prepared[host] for host in self._data_hosts},
            received={str(rank): n for rank, n in sorted(self._ledger.received.items())},
        )
        for worker in list(self._workers.values()):
            worker.send(m.Close())
            await worker.close()

    async def _last_words(self, patience: float = 2.0) -> None:
        """Let the receivers, which close first, report what their ranks took last."""
        deadline = time.monotonic() + patience
        while self._receivers and time.monotonic() < deadline:
            await asyncio.sleep(0.02)

    async def _tick(self) -> None:
        before = time.monotonic()
        while True:
            await asyncio.sleep(_TICK)
            now = time.monotonic()
            if now - before > SILENCE:  # it was this process that was stopped: hear them first
                self._last_worker = now
            before = now
            self._check_abandoned()
            self._check_poisoned()
            self._assign()

    def _check_abandoned(self) -> None:
        # A worker that is connected and silent (a frozen or lost host) serves nobody.
        self._last_worker = max([self._last_worker, *self._ledger.signs_of_life])
        silence = time.monotonic() - self._last_worker
        ever = bool(self._hosts_of_workers)
        if silence > (ABANDONED_AFTER if ever else self._start_timeout):
            who = ", ".join(self._data_hosts)
            word = (
                "every data worker is gone or silent" if ever else "no data worker has registered"
            )
            self._fail_all(f"{word} for {silence:.0f} s; data hosts: {who}")

    def _check_poisoned(self) -> None:
        for run, step in self._ledger.poisoned():
            plan = self._plans[run]
            message = (
                f"data workers died again and again over one batch of {plan.spec.dataset} "
                f"({plan.named(step)}); how they ended is in the data hosts' logs: worker_died"
            )
            self._fail_run(m.RunFailed(run=run, kind="dataset", message=message))

    def _fail_all(self, message: str) -> None:
        for run in self._ledger.runs:
            self._fail_run(m.RunFailed(run=run, kind="unavailable", message=message))
        for dataset, askers in self._asking.items():
            for name in askers:
                if receiver_ := self._receivers.get(name):
                    receiver_.send(
                        m.Length(dataset=dataset, length=-1, error=message, unavailable=True)
                    )
        self._asking.clear()

    # Connections --------------------------------------------------------------------------

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            lines.break_in_silence(writer.get_extra_info("socket"))
            await handshake.greet_stream(reader, writer, self._token)
            hello = await self._receive(reader)
            if isinstance(hello, m.HelloWorker):
                await self._attend_worker(hello, reader, writer)
            elif isinstance(hello, m.HelloReceiver):
                await self._attend_receiver(hello, reader, writer)
        except (AuthenticationError, WireError, OSError) as error:
            peer = writer.get_extra_info("peername") or ("?",)
            emit("stranger_refused", peer=peer[0], port="dispatcher", why=str(error)[:120])
        except asyncio.CancelledError:
            return  # we end; asyncio before 3.12 would print this as an error
        finally:
            writer.close()

    async def _receive(self, reader: asyncio.StreamReader) -> m.Message | None:
        """The next message, or None at the end."""
        try:
            line = await reader.readuntil(b"\n")
        except (asyncio.IncompleteReadError, OSError):
            return None
        except asyncio.LimitOverrunError as error:
            raise WireError("a message beyond the limit") from error
        self._metrics.count("messages")
        return m.decode(lines.decode(line))

    async def _attend_worker(
        self, hello: m.HelloWorker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        peer = _Peer(writer, hello.worker, hello.host)
        self._workers[peer.name] = peer
        self._hosts_of_workers[peer.name] = peer.host
        self._ledger.add_worker(peer.name, peer.host, time.monotonic())
        emit("worker_joined", worker=peer.name, pid=hello.pid)
        for dataset in self._asking:
            peer.send(m.Describe(dataset=dataset))
        self._assign()
        try:
            while (message := await self._receive(reader)) is not None:
                self._ledger.seen(peer.name, time.monotonic())
                self._hear_worker(peer, message)
        finally:
            del self._workers[peer.name]
            leases = self._ledger.remove_worker(peer.name)
            self._metrics.forget_worker(peer.name)
            self._metrics.count("lost_leases", len(leases))
            emit("worker_left", worker=peer.name, pid=hello.pid, leases=[list(x) for x in leases])
            self._assign()

    async def _attend_receiver(
        self, hello: m.HelloReceiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        host, port = hello.address
        peer = _Peer(writer, hello.host, hello.host)
        self._receivers[peer.name] = peer
        self._addresses[peer.name] = (host, port)
        try:
            while (message := await self._receive(reader)) is not None:
                self._hear_receiver(peer, message)
        finally:
            del self._receivers[peer.name]
            for run in self._ledger.runs_of(peer.name):
                self._close_run(run)

    # What workers say ---------------------------------------------------------------------

    def _hear_worker(self, peer: _Peer, message: m.Message) -> None:
        if isinstance(message, m.Report):
            self._metrics.hear(message)
            return
        if isinstance(message, m.Sent):
            self._ledger.sent(peer.name, message.run, message.step, message.seconds)
        elif isinstance(message, m.Length):
            self._answer_describe(message)
        elif isinstance(message, m.BatchFailed):
            self._fail_batch(message, peer.host)
        self._assign()

    def _answer_describe(self, length: m.Length) -> None:
        self._lengths[length.dataset] = length
        for name in self._asking.pop(length.dataset, set()):
            if receiver := self._receivers.get(name):
                receiver.send(length)

    def _fail_batch(self, failed: m.BatchFailed, host: str) -> None:
        self._fail_run(
            m.RunFailed(
                run=failed.run,
                kind="sample" if failed.index is not None else "dataset",
                message=f"{failed.message} (on data host {host})",
                index=failed.index,
                remote_traceback=failed.remote_traceback,
            )
        )

    def _fail_run(self, failed: m.RunFailed) -> None:
        """Tell a run's rank that it cannot go on, and forget the run."""
        receiver = self._receivers.get(self._run_receivers.get(failed.run, ""))
        if receiver is not None:
            receiver.send(failed)
        self._close_run(failed.run)

    # What receivers say -------------------------------------------------------------------

    def _hear_receiver(self, peer: _Peer, message: m.Message) -> None:
        if isinstance(message, m.Report):
            self._metrics.hear(message)
            return
        if isinstance(message, m.Arrived):
            host = self._hosts_of_workers.get(message.worker, "?")
            self._ledger.arrived(message.run, message.step, message.worker, host, message.size)
        elif isinstance(message, m.Damaged):
            self._ledger.damaged(message.run, message.worker)
        elif isinstance(message, m.Taken):
            self._ledger.taken(message.run, message.step)
        elif isinstance(message, m.Describe):
            self._describe(peer, message.dataset)
        elif isinstance(message, m.OpenRun):
            self._open_run(peer, message)
        elif isinstance(message, m.CloseRun):
            self._close_run(message.run)
        self._assign()

    def _describe(self, peer: _Peer, dataset: str) -> None:
        if dataset not in self._part.datasets:
            error = (
                f"the dataset {dataset!r} is not served by this job; it serves "
                f"{list(self._part.datasets)}: add it to data_service.datasets"
            )
            peer.send(m.Length(dataset=dataset, length=-1, error=error))
        elif dataset in self._lengths:
            peer.send(self._lengths[dataset])
        else:
            if dataset not in self._asking:
                for worker in self._workers.values():
                    worker.send(m.Describe(dataset=dataset))
            self._asking.setdefault(dataset, set()).add(peer.name)

    def _open_run(self, peer: _Peer, opened: m.OpenRun) -> None:
        try:
            plan = m.decode_plan(opened.plan)
            self._check_agreement(opened.rank, plan)
        except DataError as error:
            peer.send(m.RunFailed(run=opened.run, kind="refused", message=str(error)))
            return
        self._plans[opened.run] = plan
        self._run_receivers[opened.run] = peer.name
        self._ledger.open_run(opened.run, receiver=peer.name, rank=opened.rank, steps=plan.steps)

    def _check_agreement(self, rank: int, plan: Plan) -> None:
        """All ranks must read a stream in the same way, or samples would be lost and doubled."""
        if plan.spec.dataset not in self._part.datasets:
            raise DataError(f"the dataset {plan.spec.dataset!r} is not served by this job")
        agreed = self._specs.setdefault(plan.spec.name, plan.spec)
        if differences := plan.spec.differences(agreed):
            words = ", ".join(
                f"{k}={mine!r} and {theirs!r}" for k, (mine, theirs) in differences.items()
            )
            raise DataError(
                f"the stream {plan.spec.name!r} is read in two ways, {words} (rank {rank}): "
                "ranks must read a stream alike, and two loaders of one dataset need a name= each"
            )

    def _close_run(self, run: str) -> None:
        self._ledger.close_run(run)
        self._plans.pop(run, None)
        self._run_receivers.pop(run, None)
        for worker in self._workers.values():
            if run in worker.known_runs:
                worker.known_runs.discard(run)
                worker.send(m.CloseRun(run=run))

    # Leases -------------------------------------------------------------------------------

    def _assign(self) -> None:
        for assignment in self._ledger.assign(time.monotonic()):
            worker = self._workers[assignment.worker]
            if assignment.run not in worker.known_runs:
                worker.known_runs.add(assignment.run)
                worker.send(
                    m.DefineRun(
                        run=assignment.run,
                        plan=m.encode_plan(self._plans[assignment.run]),
                        address=self._addresses[self._run_receivers[assignment.run]],
                    )
                )
            self._metrics.count("leases", len(assignment.steps))
            worker.send(m.Lease(run=assignment.run, steps=list(assignment.steps)))


async def _serve(environment: Environment) -> None:
    cluster, part = environment.cluster, environment.document.data
    if part is None:
        raise LauncherError("the job document says nothing to serve")
    dispatcher = Dispatcher(
        part,
        token=environment.token,
        data_hosts=cluster.data_hosts,
        start_timeout=environment.document.start_timeout,
        data_group=" and ".join(group.name for group in cluster.groups if group.role is Role.DATA),
    )
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(CLOSE_SIGNAL, stop.set)
    await dispatcher.serve((cluster.bind_address, environment.ports.dispatcher), stop)


def main() -> int:
    asyncio.run(_serve(Environment.read(paths_here())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
