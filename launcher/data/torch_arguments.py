"""Arguments of torch's DataLoader: accepted where they have a meaning here, else refused.

None of them changes a batch, except the seed of a generator and the settings of a sampler.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from launcher.errors import DataError
from launcher.runtime.event_log import emit


@dataclass(frozen=True, kw_only=True)
class TorchArguments:
    """Arguments for the preparation of batches, by torch's names.

    Raises one DataError that names all problems.
    """

    num_workers: int = 0
    prefetch_factor: int | None = None
    persistent_workers: bool = False
    timeout: float = 0
    generator: Any = None
    pin_memory_device: str = ""
    multiprocessing_context: Any = None

    def __post_init__(self) -> None:
        if problems := list(_problems(self)):
            raise DataError("\n".join(problems))

    def seed(self, given: int) -> int:
        """Return the seed of the order: the generator's if there is one."""
        if self.generator is None:
            return given
        if given:
            raise DataError(
                f"seed={given} and a generator are given: keep one of them; the seed of the "
                "generator determines the order as seed= does"
            )
        return int(self.generator.initial_seed())

    def note_workers(self) -> None:
        """Log that this process prepares the batches itself, where worker processes were asked."""
        if self.num_workers:
            emit(
                "data_in_process",
                num_workers=self.num_workers,
                why="this process loads the batches itself: for worker processes beside it, write "
                f"data_service: {{local_workers: {self.num_workers}}} in the job",
            )


def _problems(given: TorchArguments) -> Iterator[str]:
    if type(given.num_workers) is not int or given.num_workers < 0:
        yield (
            f"num_workers is {given.num_workers!r}; it must be 0 or more, and is only a hint: the "
            "job's data_service says how many workers there are (workers_per_host, local_workers)"
        )
    factor = given.prefetch_factor
    if factor is not None and (type(factor) is not int or factor < 1):
        yield (
            f"prefetch_factor is {factor!r}; it must be at least 1, and is only a hint: the job's "
            "data_service.prefetch_bytes says how much is prepared ahead"
        )
    if isinstance(given.timeout, bool) or not isinstance(given.timeout, (int, float)):
        yield f"timeout is {given.timeout!r}; it must be a number of seconds, 0 for none"
    elif not given.timeout >= 0:
        yield f"timeout is {given.timeout!r}; it must be 0 or more seconds"
    if given.generator is not None and not hasattr(given.generator, "initial_seed"):
        yield (
            f"the generator is a {type(given.generator).__name__}; give torch.Generator()'s "
            "manual_seed(...), or seed=, from which every sample's random numbers follow"
        )
    if given.pin_memory_device and not str(given.pin_memory_device).startswith("cuda"):
        yield (
            f"pin_memory_device is {given.pin_memory_device!r}; pin_memory is for CUDA alone: "
            "leave both out"
        )
    if given.multiprocessing_context is not None:
        yield (
            "multiprocessing_context does not apply: data workers are processes of the job, not "
            "children of the script: leave it out (data_service.local_workers starts some)"
        )


# Samplers ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TorchSampler:
    """The loader's arguments that do what an instance of torch's samplers does.

    epoch: returns the epoch that the script has set; None if it cannot be set.
    """

    shuffle: bool = False
    seed: int | None = None
    rank: int | None = None
    world_size: int | None = None
    uneven: str | None = None
    epoch: Callable[[], int] | None = None

    def settings(self, *, shuffle: bool, seed: int, uneven: str) -> dict[str, Any]:
        """Return the stream's settings with those of the sampler, which win.

        Raises DataError for shuffle=True beside a sampler that shuffles, as torch does.
        """
        if shuffle and self.shuffle:
            raise DataError("sampler excludes shuffle: leave the sampler out, shuffle=True is it")
        return {
            "shuffle": shuffle or self.shuffle,
            "seed": seed if self.seed is None else self.seed,
            "uneven": self.uneven or uneven,
        }

    def share(self, rank: int | None, world_size: int | None) -> tuple[int | None, int | None]:
        """Return this reader's rank and world size, by default the sampler's."""
        return (
            self.rank if rank is None else rank,
            self.world_size if world_size is None else world_size,
        )

    def current_epoch(self) -> int | None:
        """Return the epoch that the script has set on the sampler, if it has epochs."""
        return None if self.epoch is None else self.epoch()


def read_sampler(sampler: Any, what: str, home: str) -> TorchSampler:
    """Return the meaning of a sampler object; raises DataError for one that has none here."""
    torch_data = sys.modules.get("torch.utils.data")
    kind = type(sampler)
    if torch_data is None or what == "batch_sampler":
        raise DataError(_unknown(sampler, what, home))
    if kind is torch_data.SequentialSampler:
        return TorchSampler()
    if (
        kind is torch_data.RandomSampler
        and not sampler.replacement
        and sampler._num_samples is None
    ):
        generator = sampler.generator
        seed = None if generator is None else generator.initial_seed()
        return TorchSampler(shuffle=True, seed=seed)
    if kind is torch_data.DistributedSampler:
        return TorchSampler(
            shuffle=sampler.shuffle,
            seed=sampler.seed,
            rank=sampler.rank,
            world_size=sampler.num_replicas,
            uneven="drop" if sampler.drop_last else "pad",
            epoch=lambda: int(sampler.epoch),
        )
    raise DataError(_unknown(sampler, what, home))


def _unknown(sampler: object, what: str, home: str) -> str:
    returns = "batches of ids" if what == "batch_sampler" else "the ids of an epoch in order"
    kind = type(sampler).__name__
    return (
        f"a {what} is named, as in '{home}:function', or is a function or class itself, so that "
        f"every host can call it; got a {kind}: write a function of (length, epoch, seed) that "
        f"returns {returns}; for a random order write shuffle=True, and ranks share the samples "
        "without a sampler"
    )
