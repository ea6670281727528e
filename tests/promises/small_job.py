"""A job of a schedule: its processes, and their supervision as the runtime does it."""

from __future__ import annotations

import secrets
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import players
from cables import Cables
from job_files import TRAINER, JobFiles
from meeting import Meeting
from players import Player
from received import Received
from schedule import Schedule

from launcher.runtime import CLOSE_SIGNAL
from launcher.shared import parse_event

DATA_HOSTS = ("algo-1", "algo-2", "algo-3")
TRAIN_HOSTS = ("algo-4", "algo-5")
LEADER = TRAIN_HOSTS[0]
#: Seconds after which the supervisor of a data host replaces a worker that has died.
_REPLACED_AFTER = 0.05


class JobBroke(Exception):
    """Something ended that should not have."""


@dataclass
class SmallJob:
    """Everything is looked after by `look`, which is called often."""

    schedule: Schedule
    folder: Path
    cables: Cables
    workers: list[Player] = field(default_factory=list)
    receivers: list[Player] = field(default_factory=list)
    generations: list[list[Player]] = field(default_factory=list)
    next_world: int | None = None  # of the ranks that are started when these have ended
    _timers: list[tuple[float, Callable[[], object]]] = field(default_factory=list)
    _everyone: list[Player] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.data_hosts = DATA_HOSTS[: self.schedule.data_hosts]
        self.train_hosts = TRAIN_HOSTS[: self.schedule.train_hosts]
        self.files = JobFiles(
            schedule=self.schedule,
            folder=self.folder,
            token=secrets.token_hex(16),
            groups={"data_group": self.data_hosts, "train_group": self.train_hosts},
            addresses=self.cables.addresses,
        )
        self.files.lay_out()
        self._meeting = Meeting(self.folder / "meeting")

    # Beginning and end ---------------------------------------------------------------------

    def start(self) -> None:
        self.dispatcher = self._start("dispatcher", "", LEADER, "launcher.data.dispatcher")
        for host in self.train_hosts:
            self.receivers.append(self._start("receiver", host, host, "launcher.data.receiver"))
        for hosts, count in (
            (self.data_hosts, self.schedule.workers_per_host),
            (self.train_hosts, self.schedule.local_workers),
        ):
            for host in hosts:
                for index in range(count):
                    self.start_worker(host, str(index))
        self._start_ranks(self.schedule.world)

    def close(self) -> None:
        """End the job as its hosts do; raises JobBroke when something does not end well."""
        self._timers.clear()
        for worker in self.workers:
            if worker.host in self.train_hosts:
                worker.send(CLOSE_SIGNAL)
                worker.wait()
        if not self.dispatcher.is_living:
            self.start_dispatcher()
        for service in [*self.receivers, self.dispatcher]:
            service.send(CLOSE_SIGNAL)
            if not service.ends_within(15.0) or service.code != 0:
                raise JobBroke(f"{service} was closed, and ended with {service.code}")
        for worker in self.workers:  # one that is not connected would look for a dispatcher
            worker.send(signal.SIGTERM)
        for worker in self.workers:
            if not worker.ends_within(2.0):
                worker.send(signal.SIGKILL)
                worker.wait()

    def resume(self) -> None:
        """Nobody is stopped any more."""
        for player in self._everyone:
            player.send(signal.SIGCONT)

    def players_of(self, host: str) -> list[Player]:
        return [player for player in self._everyone if player.host == host]

    def remains(self) -> list[Player]:
        return [player for player in self._everyone if player.is_living]

    def kill(self) -> None:
        """Leave nothing behind."""
        for player in self._everyone:
            player.send(signal.SIGKILL)
            player.wait()
        self._meeting.close()

    # Supervision ---------------------------------------------------------------------------

    @property
    def ranks(self) -> list[Player]:
        return self.generations[-1]

    @property
    def is_over(self) -> bool:
        return self.next_world is None and all(rank.code == 0 for rank in self.ranks)

    def look(self, seconds: float = 0.005) -> None:
        """See to everything that has happened, waiting so long for ranks that meet.

        Raises JobBroke when a process has ended that nobody ended.
        """
        self._meeting.attend(seconds)
        now = time.monotonic()
        due = [action for moment, action in self._timers if moment <= now]
        self._timers = [(moment, action) for moment, action in self._timers if moment > now]
        for action in due:
            action()
        for service in [*self.receivers, self.dispatcher]:
            if service.poll() is not None and not service.is_condemned:
                raise JobBroke(f"{service} ended with {service.code}")
        for worker in self.workers:
            if worker.poll() == 0 and worker.is_leaving:
                continue
            if worker.poll() is not None and not worker.is_condemned:
                worker.is_condemned = True
                self.later(_REPLACED_AFTER, lambda w=worker: self.start_worker(w.host, w.name))
        self._look_at_ranks()

    def _look_at_ranks(self) -> None:
        codes = [rank.poll() for rank in self.ranks]
        if self.next_world is None:
            for rank, code in zip(self.ranks, codes, strict=True):
                if code:
                    raise JobBroke(f"{rank} ended with {code}")
        elif None not in codes:
            self._start_ranks(self.next_world)
            self.next_world = None

    def later(self, seconds: float, action: Callable[[], object]) -> None:
        self._timers.append((time.monotonic() + seconds, action))

    # Starting ------------------------------------------------------------------------------

    def start_worker(self, host: str, name: str) -> Player:
        worker = self._start("worker", name, host, "launcher.data.worker", name)
        self.workers.append(worker)
        return worker

    def start_dispatcher(self) -> None:
        self.dispatcher = self._start("dispatcher", "", LEADER, "launcher.data.dispatcher")

    def _start_ranks(self, world: int) -> None:
        generation = len(self.generations)
        self._meeting.generation, self._meeting.world = generation, world
        self.generations.append(
            [
                self._start(
                    "rank",
                    f"{generation}-{rank}",
                    self.train_hosts[rank % len(self.train_hosts)],
                    "launcher.runtime.launch.rank",
                    str(self.files.paths.code / TRAINER),
                    RANK=str(rank),
                    WORLD_SIZE=str(world),
                    CHAOS_GENERATION=str(generation),
                )
                for rank in range(world)
            ]
        )

    def _start(self, role: str, name: str, host: str, *command: str, **more: str) -> Player:
        player = players.start(
            role,
            name,
            host=host,
            command=command,
            environment={**self.files.variables(host), **more},
            log=self.folder / "logs" / f"{role}-{host}-{name}",
            enter=self.cables.enter,
        )
        self._everyone.append(player)
        return player

    # What is to be seen --------------------------------------------------------------------

    def received(self, generation: int) -> list[Received]:
        """What the ranks of a generation have noted up to now."""
        return [
            Received.read(self.folder / f"received-{generation}-{number}", rank.log)
            for number, rank in enumerate(self.generations[generation])
        ]

    def batches_received(self) -> int:
        """By all ranks, up to now."""
        return sum(path.read_bytes().count(b"ids") for path in self.folder.glob("received-*"))

    def work_of(self, worker: Player) -> bytes:
        """The log that the dataset keeps in a worker."""
        path = self.folder / "work" / str(worker.pid)
        return path.read_bytes() if path.exists() else b""

    def is_busy(self, worker: Player) -> bool:
        """Whether it is (or was at its end) at work on a sample, for a lease that it holds."""
        work = self.work_of(worker)
        return work.count(b"<") > work.count(b">")

    def events(self, name: str) -> Iterator[dict[str, object]]:
        """The fields of all event lines of one name."""
        for log in sorted((self.folder / "logs").iterdir()):
            for line in log.read_text(errors="replace").splitlines():
                parsed = parse_event(line)
                if parsed and parsed[0] == name:
                    yield parsed[1]

    def logs(self) -> str:
        return "\n".join(
            f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}"
            for log in sorted((self.folder / "logs").iterdir())
        )
