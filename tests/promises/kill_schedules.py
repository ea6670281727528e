"""Schedules of kills of a data engine's processes, and their jobs, drawn from seeds. Pure."""

from __future__ import annotations

import enum
import random
from dataclasses import dataclass


class Mode(str, enum.Enum):
    """How the elements are prepared: by Launcher's workers, or by tf.data's in a sharding."""

    LAUNCHER = "launcher"
    AUTO = "auto"
    FILE = "file"
    DATA = "data"
    DYNAMIC = "dynamic"


class Victim(str, enum.Enum):
    """Whom a kill hits."""

    WORKER = "a worker"
    WORKERS = "all workers"
    DISPATCHER = "the dispatcher"
    HOST = "a data host"


#: Elements of an epoch of tf.data's service: lines of equally long files.
TF_LENGTH = 1000
#: Those that are restarted when they die: five times within 30 s, which may be a whole job.
SERVICES = (Victim.WORKER, Victim.WORKERS, Victim.DISPATCHER)
#: Schedules that one job plays, each in an epoch: one kind of victim, several, and a data host.
ROUND = len(SERVICES) + 2


@dataclass(frozen=True, kw_only=True)
class Kill:
    """after: elements of the epoch that a rank has read. pick: of the victims, from 0 to 1."""

    victim: Victim
    after: int
    pick: float


@dataclass(frozen=True, kw_only=True)
class KillSchedule:
    """When whom a job loses in one of its epochs."""

    seed: int
    epoch: int
    kills: tuple[Kill, ...]

    @property
    def victims(self) -> str:
        """Whom it kills, in the words of the docs' tables."""
        kinds = {kill.victim for kill in self.kills}
        return kinds.pop().value if len(kinds) == 1 else "several of them"


@dataclass(frozen=True, kw_only=True)
class KillJob:
    """A job and the schedules of its epochs; the last of them is the end of the job.

    length: elements of an epoch. step_seconds: of a rank between two batches. The others are of
    Launcher's engine: bytes of a sample and of the receiver, workers of a data host, train hosts.
    """

    seed: int
    mode: Mode
    length: int
    batch_size: int
    sample_bytes: int
    prefetch_bytes: int
    workers_per_host: int
    train_hosts: int
    step_seconds: float
    schedules: tuple[KillSchedule, ...]


def draw(number: int, modes: tuple[Mode, ...]) -> KillJob:
    """The job of a number, always the same; modes are dealt in turn."""
    coin = random.Random(number)
    mode = modes[number % len(modes)]
    is_ours = mode is Mode.LAUNCHER
    length = coin.randint(160, 240) if is_ours else TF_LENGTH
    return KillJob(
        seed=number,
        mode=mode,
        length=length,
        batch_size=coin.randint(1, 3) if is_ours else 1,
        sample_bytes=coin.choice((64, 20_000, 100_000)),
        prefetch_bytes=coin.choice((2, 32)) << 20,
        workers_per_host=coin.randint(1, 2) if is_ours else 1,
        train_hosts=2 if is_ours and number % 5 == 4 else 1,
        step_seconds=0.02 if is_ours else 0.004,
        schedules=tuple(_schedule(coin, number, epoch, length) for epoch in range(ROUND)),
    )


def _schedule(coin: random.Random, number: int, epoch: int, length: int) -> KillSchedule:
    """Kills at random places of the first half of what a rank reads in an epoch."""
    victims = _victims(coin, epoch)
    places = sorted(coin.sample(range(1, length // 4), len(victims)))
    return KillSchedule(
        seed=number * ROUND + epoch,
        epoch=epoch,
        kills=tuple(
            Kill(victim=victim, after=place, pick=coin.random())
            for victim, place in zip(victims, places, strict=True)
        ),
    )


def _victims(coin: random.Random, epoch: int) -> list[Victim]:
    if epoch == ROUND - 1:
        return [Victim.HOST]
    if epoch == ROUND - 2:
        both = [Victim.DISPATCHER, coin.choice((Victim.WORKER, Victim.WORKERS))]
        return coin.sample(both, 2)
    return [SERVICES[epoch]] * (1 if SERVICES[epoch] is Victim.WORKERS else coin.randint(1, 2))
