"""The dispatcher process on the leader, which leases batches to workers.

`python -m launcher.data.dispatcher` runs until its host closes it at the end of training. It then
closes the workers and logs how many batches each data host prepared. The dispatcher may die at any
moment: its host restarts it, and workers and receivers send the new one all the state they hold.
"""

from __future__ import annotations

import asyncio
import time

from launcher.data.dispatcher.coordinator import Coordinator
from launcher.data.dispatcher.peer import Peer
from launcher.data.metrics import Publisher
from launcher.errors import AuthenticationError, LauncherError, WireError
from launcher.runtime import (
    CLOSE_SIGNAL,
    Environment,
    emit,
    handshake,
    jsonl_socket,
    paths_here,
    use_batch_scheduling,
)
from launcher.shared import LOCAL_WORKERS, DataPart, Role

_TICK = 0.1
_HEARTBEAT_TICKS = 10
_READ_LIMIT = 1 << 18
#: A tick that is this many seconds late means that this process was stopped.
_FROZEN = 1.0


class Dispatcher:
    """The dispatcher's server: connections, clock and event loop.

    data_hosts: hosts that are expected to serve. local_hosts: train hosts whose workers serve only
    their own ranks. start_timeout: seconds to wait for the first worker.
    """

    def __init__(
        self,
        part: DataPart,
        *,
        token: str,
        data_hosts: tuple[str, ...],
        local_hosts: tuple[str, ...] = (),
        start_timeout: float,
        data_group: str = "the data group",
    ) -> None:
        self._token = token
        self._data_group = data_group
        self._metrics_port = part.metrics_port
        self._stopped_seconds = 0.0
        self._is_assigning = False
        self._coordinator = Coordinator(
            part,
            data_hosts=data_hosts,
            local_hosts=local_hosts,
            start_timeout=start_timeout,
            now=self._now,
        )

    def _now(self) -> float:
        """Return a monotonic time that excludes periods in which this process was stopped.

        Peers that sent nothing during such a period were not silent.
        """
        return time.monotonic() - self._stopped_seconds

    # Lifetime -----------------------------------------------------------------------------

    async def serve(self, address: tuple[str, int], stop: asyncio.Event) -> None:
        """Serve until `stop` is set and the receivers have sent their last reports."""
        publisher = Publisher(
            self._coordinator.snapshot,
            group=self._data_group,
            address=(address[0], self._metrics_port) if self._metrics_port else None,
        )
        server = await asyncio.start_server(
            self._serve_peer, *address, limit=_READ_LIMIT, backlog=1024
        )
        async with server:
            duties = [asyncio.create_task(each) for each in (self._tick(), publisher.run())]
            await _wait_while(duties, stop)
            await self._await_receivers()
            for duty in duties:
                duty.cancel()
            try:
                self._coordinator.report()
                publisher.publish_final()
            finally:
                await self._coordinator.close()

    async def _await_receivers(self, patience: float = 2.0) -> None:
        """Wait for the receivers, which close first, to report what their ranks consumed last."""
        deadline = time.monotonic() + patience
        while self._coordinator.has_receivers and time.monotonic() < deadline:
            await asyncio.sleep(0.02)

    async def _tick(self) -> None:
        ticks = 0
        before = time.monotonic()
        while True:
            await asyncio.sleep(_TICK)
            late = time.monotonic() - before - _TICK
            before = time.monotonic()
            if late > _FROZEN:
                self._stopped_seconds += late
                continue  # first handle the messages that arrived meanwhile
            ticks += 1
            if ticks % _HEARTBEAT_TICKS == 0:
                self._coordinator.heartbeat()
            self._coordinator.poll()
            self._wake()

    # Connections --------------------------------------------------------------------------

    async def _serve_peer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer)
        try:
            jsonl_socket.enable_keepalive(writer.get_extra_info("socket"))
            await handshake.accept_stream(reader, writer, self._token)
            async for messages in peer.messages():
                self._coordinator.receive(peer, messages)
                self._wake()
        except (AuthenticationError, WireError, OSError) as error:
            address = writer.get_extra_info("peername") or ("?",)
            emit("connection_rejected", peer=address[0], port="dispatcher", why=str(error)[:120])
        except asyncio.CancelledError:
            return  # shutting down; asyncio before 3.12 would log this as an error
        finally:
            self._coordinator.disconnect(peer)
            self._wake()
            writer.close()

    # Leases -------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Schedule one lease assignment for all messages received in this turn of the loop."""
        if not self._is_assigning:
            self._is_assigning = True
            asyncio.get_running_loop().call_soon(self._assign)

    def _assign(self) -> None:
        self._is_assigning = False
        self._coordinator.assign()


async def _wait_while(duties: list[asyncio.Task[None]], stop: asyncio.Event) -> None:
    """Wait until `stop` is set; raise the error of a background task that fails first.

    A dispatcher without its clock would lease nothing again, whereas one that died is restarted.
    """
    stopped = asyncio.create_task(stop.wait())
    done, _ = await asyncio.wait({stopped, *duties}, return_when=asyncio.FIRST_COMPLETED)
    if stopped not in done:
        stopped.cancel()
    for task in done:
        task.result()


async def _serve(environment: Environment) -> None:
    cluster, part = environment.cluster, environment.document.data
    if part is None:
        raise LauncherError("the job document has no data service")
    dispatcher = Dispatcher(
        part,
        token=environment.token,
        data_hosts=cluster.data_hosts,
        local_hosts=cluster.train_group.hosts if environment.local_workers else (),
        start_timeout=environment.document.start_timeout,
        data_group=" and ".join(group.name for group in cluster.groups if group.role is Role.DATA)
        or LOCAL_WORKERS,
    )
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(CLOSE_SIGNAL, stop.set)
    await dispatcher.serve((cluster.bind_address, environment.ports.dispatcher), stop)


def main() -> int:
    """Run the dispatcher process; return its exit code."""
    use_batch_scheduling()
    asyncio.run(_serve(Environment.read(paths_here())))
    return 0
