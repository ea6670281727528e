"""A failure schedule: a small job and what happens to it, drawn from a seed. Pure."""

from __future__ import annotations

import enum
import random
from dataclasses import dataclass, replace
from typing import Any


class Kind(str, enum.Enum):
    """What happens, and to whom."""

    KILL_WORKER = "kill worker"
    STOP_WORKER = "stop worker"
    SLOW_WORKER = "slow worker"
    RESTART_DATA_HOST = "restart data host"
    ADD_WORKER = "add worker"
    DRAIN_WORKER = "drain worker"
    KILL_DISPATCHER = "kill dispatcher"
    STOP_DISPATCHER = "stop dispatcher"
    CUT_CABLE = "cut cable"
    RESET_CABLE = "reset cable"
    SLOW_CABLE = "slow cable"
    KILL_RANK = "kill rank"
    STOP_RANK = "stop rank"
    RESTART_RANKS = "restart ranks"
    STOP_RECEIVER = "stop receiver"
    STOP_HOST = "stop host"


class Reading(str, enum.Enum):
    """How the ranks read; all but `PLAIN` differ from it in one thing."""

    PLAIN = "plain"
    SHARDS = "shards"
    ANY_ORDER = "any order"
    SKIPPING = "skipping"
    LOCAL_WORKERS = "local workers"
    SAMPLER = "sampler"
    BATCH_SAMPLER = "batch sampler"


class Samples(str, enum.Enum):
    """What the samples are: noise of the global generators, or harder to repeat or to send."""

    NOISE = "noise"
    UNSEEDED = "unseeded"
    TYPED = "typed"


#: From this seed on, the samples are of the harder kinds, and receivers and hosts are stopped, too.
HARDER = 2000
#: Stopped receivers and hosts come more often than the others.
_OFTEN = (Kind.STOP_RECEIVER, Kind.STOP_HOST)
_OTHERS = tuple(kind for kind in Kind if kind not in _OFTEN)

#: Dealt to the seeds in turn; what is left of each round is plain.
_ROUND = 24
_DEALT = (
    *(Reading.SHARDS, Reading.ANY_ORDER, Reading.SKIPPING, Reading.LOCAL_WORKERS) * 2,
    *(Reading.SAMPLER, Reading.BATCH_SAMPLER),
)
_DATASETS = {
    (Reading.SHARDS, Samples.NOISE): "InShards",
    (Reading.SHARDS, Samples.TYPED): "InShards",
    (Reading.SHARDS, Samples.UNSEEDED): "UnseededInShards",
    (Reading.PLAIN, Samples.UNSEEDED): "UnseededByIndex",
    (Reading.SKIPPING, Samples.NOISE): "PartlyBroken",
}


@dataclass(frozen=True, kw_only=True)
class Fault:
    """batches: that ranks receive between the last fault and this one.

    seconds: how long it lasts, or until what was killed is started again. world: of the ranks that
    are started after it. pick: which of the possible victims, from 0 to 1.
    """

    kind: Kind
    batches: int
    seconds: float
    world: int
    pick: float

    def __str__(self) -> str:
        return f"{self.kind.value} ({self.seconds:.2f} s, world {self.world}, {self.pick:.2f})"


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """prefetch: bytes. sample_seconds: of preparing one. save_every: steps.

    local_workers: on each train host. shards: of an iterable dataset.
    """

    seed: int
    reading: Reading = Reading.PLAIN
    samples: Samples = Samples.NOISE
    local_workers: int = 0
    shards: int = 1
    data_hosts: int
    workers_per_host: int
    train_hosts: int
    world: int
    length: int
    epochs: int
    batch_size: int
    shuffle: bool
    uneven: str
    drop_last: bool
    sample_bytes: int
    sample_seconds: float
    step_seconds: float
    prefetch: int
    save_every: int
    faults: tuple[Fault, ...]

    @property
    def dataset(self) -> str:
        return f"noisy_samples:{_DATASETS.get((self.reading, self.samples), 'ByIndex')}"

    @property
    def stream(self) -> dict[str, Any]:
        """What the loader is told, but for the number of epochs."""
        sampler, batch_sampler = Reading.SAMPLER, Reading.BATCH_SAMPLER
        return {
            **{name: getattr(self, name) for name in _OF_LOADER},
            "dataset": self.dataset,
            "in_order": self.reading is not Reading.ANY_ORDER,
            "on_error": "skip" if self.reading is Reading.SKIPPING else "raise",
            "sampler": "noisy_samples:draw_ids" if self.reading is sampler else None,
            "batch_sampler": (
                "noisy_samples:draw_batches" if self.reading is batch_sampler else None
            ),
            "collate_fn": "noisy_samples:measure" if self.samples is Samples.TYPED else None,
        }


_OF_LOADER = ("batch_size", "shuffle", "seed", "uneven", "drop_last", "shards")


def draw(seed: int) -> Schedule:
    """The schedule of a seed: always the same."""
    coin = random.Random(seed)
    kinds = _OTHERS if seed < HARDER else (*_OTHERS, *_OFTEN * 3)
    batch_size = coin.randint(2, 6)
    sample_bytes = coin.choice((16, 1000, 20000))
    length, epochs = coin.randint(100, 180), 2
    number = coin.randint(4, 7)
    spacing = epochs * length // batch_size // (number + 1)
    plain = Schedule(
        seed=seed,
        data_hosts=coin.randint(1, 3),
        workers_per_host=coin.randint(1, 2),
        train_hosts=coin.randint(1, 2),
        world=coin.randint(1, 3),
        length=length,
        epochs=epochs,
        batch_size=batch_size,
        shuffle=coin.random() < 0.8,
        uneven=coin.choice(("pad", "pad", "drop")),
        drop_last=coin.random() < 0.2,
        sample_bytes=sample_bytes,
        sample_seconds=coin.uniform(0.006, 0.012),
        step_seconds=coin.choice((0.0, 0.01)),
        prefetch=coin.choice((4, 16)) * max(65536, batch_size * sample_bytes),
        save_every=coin.randint(2, 6),
        faults=tuple(_fault(coin, coin.choice(kinds), spacing) for _ in range(number)),
    )
    return _read_as(reading_of(seed), plain, coin)


def reading_of(seed: int) -> Reading:
    if seed >= HARDER:
        return Reading.SHARDS if seed % 2 else Reading.PLAIN
    turn = seed % _ROUND
    return _DEALT[turn] if turn < len(_DEALT) else Reading.PLAIN


def _read_as(reading: Reading, plain: Schedule, coin: random.Random) -> Schedule:
    """What a reading excludes, as docs/data-loader.md says, is not asked for."""
    given = replace(plain, reading=reading, samples=_samples_of(plain.seed))
    if reading is Reading.ANY_ORDER:  # a worker by itself keeps it
        return replace(given, workers_per_host=2)
    if reading is Reading.LOCAL_WORKERS:
        return replace(given, local_workers=coin.randint(1, 2))
    if reading is Reading.SHARDS:  # a place in shards is one of as many ranks
        faults = tuple(replace(fault, world=plain.world) for fault in plain.faults)
        shards = coin.randint(3, 6)
        return replace(given, shuffle=False, uneven="pad", shards=shards, faults=faults)
    if reading is Reading.BATCH_SAMPLER:
        return replace(given, shuffle=False, batch_size=1, drop_last=False)
    if reading in (Reading.SAMPLER, Reading.SKIPPING):
        return replace(given, shuffle=False)
    return given


def _samples_of(seed: int) -> Samples:
    if seed < HARDER:
        return Samples.NOISE
    return Samples.TYPED if seed // 2 % 2 else Samples.UNSEEDED


def _fault(coin: random.Random, kind: Kind, spacing: int) -> Fault:
    # Most pass before a heartbeat is missed, some only long after.
    long = coin.random() < 0.2
    return Fault(
        kind=kind,
        batches=coin.randint(1, max(1, spacing)),
        seconds=coin.uniform(3.2, 4.5) if long else coin.uniform(0.05, 1.0),
        world=coin.randint(1, 3),
        pick=coin.random(),
    )
