"""A worker: one process on a data host that prepares the batches it is leased.

`python -m launcher.data.worker INDEX` loads, collates and sends until the dispatcher closes. The
main thread runs the user's code and nothing else; control, heartbeat and sending have threads, so
that a batch travels while the next one is prepared.
"""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
import time
import traceback
from typing import Any

from launcher.data import messages as m
from launcher.data import samples, structure, wire
from launcher.data.control import Control
from launcher.data.meters import WorkerMeter, report_regularly
from launcher.data.plan import Plan
from launcher.errors import DataError, SampleError
from launcher.runtime import lines
from launcher.runtime.environment import Environment, paths_here
from launcher.runtime.events import emit
from launcher.runtime.output import print_whole_lines

_BEAT_SECONDS = 1.0
_RETRY_SECONDS = 0.5


class Worker:
    """The batches of one process. Threads share `_runs` and the queues only."""

    def __init__(self, name: str, environment: Environment) -> None:
        self.name = name
        self._token = environment.token
        part = environment.document.data
        self._allowed = part.datasets if part else ()
        self._checksums = part is not None and part.checksums
        self._datasets = samples.Datasets()
        self._runs: dict[str, tuple[Plan, tuple[str, int]]] = {}
        self._work: queue.SimpleQueue[m.Message | None] = queue.SimpleQueue()
        # One batch waits while one is sent: the memory of a worker is three batches.
        self._outbox: queue.Queue[tuple[wire.Frame, float]] = queue.Queue(maxsize=1)
        self._host = environment.cluster.host
        self._meter = WorkerMeter(environment.cpus)
        self._control = Control(environment)
        self._control.say(
            m.HelloWorker(worker=name, host=environment.cluster.host, pid=os.getpid())
        )

    def work(self) -> int:
        """Prepare batches until the dispatcher closes (0) or is lost (1)."""
        for duty in (self._listen, self._send, self._beat):
            threading.Thread(target=duty, daemon=True).start()
        report_regularly(self._report_numbers)
        while (order := self._work.get()) is not None:
            if isinstance(order, m.Close):
                return 0
            if isinstance(order, m.Describe):
                self._describe(order.dataset)
            elif isinstance(order, m.Lease):
                for step in order.steps:
                    self._prepare(order.run, step)
        return 1

    # The main thread ----------------------------------------------------------------------

    def _dataset(self, reference: str) -> Any:
        if reference not in self._allowed:  # whoever asks, only the job's own code is imported
            raise DataError(f"the dataset {reference!r} is not served by this job")
        return self._datasets[reference]

    def _describe(self, reference: str) -> None:
        try:
            answer = m.Length(dataset=reference, length=len(self._dataset(reference)))
        except DataError as error:
            answer = m.Length(dataset=reference, length=-1, error=str(error))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's __len__
            words = f"{reference}: its length is not known: {error!r}\n{traceback.format_exc()}"
            answer = m.Length(dataset=reference, length=-1, error=words)
        self._control.say(answer)

    def _prepare(self, run: str, step: int) -> None:
        definition = self._runs.get(run)
        if definition is None:
            return  # closed since
        plan, _ = definition
        started = time.perf_counter()
        self._meter.begin()
        try:
            batch = samples.load_batch(self._dataset(plan.spec.dataset), plan, step)
            tree, arrays = structure.take_apart(batch)
            frame = wire.Frame.pack(run, step, self.name, tree, arrays, checksums=self._checksums)
        except DataError as error:
            self._report(run, step, error)
            return
        self._meter.prepared()
        self._outbox.put((frame, time.perf_counter() - started))
        self._meter.handed_over()

    def _report(self, run: str, step: int, error: DataError) -> None:
        message, _, rest = str(error).partition("\n")
        sample = error if isinstance(error, SampleError) else None
        self._control.say(
            m.BatchFailed(
                run=run,
                step=step,
                message=message,
                index=sample.index if sample else None,
                remote_traceback=sample.remote_traceback if sample else rest,
            )
        )

    # The other threads --------------------------------------------------------------------

    def _listen(self) -> None:
        """Take orders; definitions are noted here, before the lease that needs them."""
        while (message := self._control.hear()) is not None:
            if isinstance(message, m.DefineRun):
                host, port = message.address
                self._runs[message.run] = (m.decode_plan(message.plan), (host, port))
            elif isinstance(message, m.CloseRun):
                self._runs.pop(message.run, None)
            else:
                self._work.put(message)
        self._work.put(None)

    def _send(self) -> None:
        connections: dict[tuple[str, int], Any] = {}
        while True:
            frame, seconds = self._outbox.get()
            # Until it is sent, or not wanted any more: no other worker needs to have a way there.
            while (definition := self._runs.get(frame.run)) is not None:
                _, address = definition
                try:
                    if address not in connections:
                        connections[address] = lines.connect(
                            address, self._token, patience=10.0, what="the receiver"
                        )
                    frame.send(connections[address])
                except (DataError, OSError) as error:
                    if (broken := connections.pop(address, None)) is not None:
                        broken.close()
                    emit("batch_not_sent", worker=self.name, run=frame.run, why=str(error))
                    time.sleep(_RETRY_SECONDS)
                else:
                    self._tell_sent(frame, seconds)
                    break
            self._meter.sent(frame.payload_bytes)
            del frame  # its arrays need not wait for the next one

    def _tell_sent(self, frame: wire.Frame, seconds: float) -> None:
        with contextlib.suppress(OSError):  # the listener sees the end of the connection, too
            self._control.say(m.Sent(run=frame.run, step=frame.step, seconds=seconds))

    def _report_numbers(self) -> None:
        self._control.say(
            m.Report(kind="worker", of=self._host, process=self.name, figures=self._meter.numbers())
        )

    def _beat(self) -> None:
        try:
            while True:
                self._control.say(m.Beat())
                time.sleep(_BEAT_SECONDS)
        except OSError:
            return  # the listener sees the end of the connection, too


def main() -> int:
    paths = paths_here()
    environment = Environment.read(paths)
    os.chdir(paths.code)
    print_whole_lines()
    sys.path[:1] = [str(paths.library), str(paths.code)]
    name = f"{environment.cluster.host}/{sys.argv[1]}/{os.getpid()}"
    try:
        return Worker(name, environment).work()
    except (DataError, OSError) as error:
        emit("worker_failed", worker=name, why=str(error))
        return 1


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # The dispatcher's word ends the process; threads that wait on sockets need not.
    os._exit(code)
