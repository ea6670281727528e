"""Arguments of torch's DataLoader: accepted where they have a meaning here, else refused.

None of them changes a batch, except the seed of a generator.
"""

from __future__ import annotations

import hashlib
import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from launcher.errors import DataError
from launcher.runtime import log_event


@dataclass(frozen=True, kw_only=True)
class TorchArguments:
    """Arguments for the preparation of batches, by torch's names.

    Raises one DataError that names all problems.
    """

    num_workers: int = 0
    workers: int = 0
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
        if self.num_workers and not self.workers:
            log_event(
                "data_in_process",
                logging.WARNING,
                num_workers=self.num_workers,
                why="this process loads the batches itself: for worker processes beside it, write "
                f"DataLoader(..., workers={self.num_workers}), or in a job "
                f"data_service: {{local_workers: {self.num_workers}}}",
            )


class FollowedGenerator:
    """Seeds that a script sets on a torch.Generator between two epochs, also the one of before.

    A generator that has just been seeded is in the state that its seed begins with. Each epoch
    draws one number from it, as torch's loader does, so that it is not in that state afterwards.
    """

    def __init__(self, generator: Any) -> None:
        self._read = generator  # in the latest epoch, or when the loader was made
        self._begun: dict[bytes, int] = {}  # epochs by the states that they began with

    def epoch_set(self, generator: Any) -> int | None:
        """Return the epoch that the script has set with the generator since the epoch before.

        It is the first one for a generator that was replaced or seeded, and for one whose earlier
        state was set again the epoch that began with it.
        """
        if generator is None:
            return None
        if generator is not self._read or _is_just_seeded(generator):
            return 0
        return self._begun.get(_digest(generator))

    def begin(self, generator: Any, epoch: int) -> None:
        """Record that an epoch begins."""
        if generator is not None:
            self._begun[_digest(generator)] = epoch
        self.skip(generator)

    def skip(self, generator: Any) -> None:
        """Ignore what was seeded before, as something else has set the epoch since."""
        self._read = generator
        if generator is not None:
            sys.modules["torch"].empty((), device=generator.device).uniform_(generator=generator)


def _digest(generator: Any) -> bytes:
    return hashlib.sha256(generator.get_state().numpy()).digest()


def _is_just_seeded(generator: Any) -> bool:
    fresh = type(generator)(device=generator.device).manual_seed(generator.initial_seed())
    return bool((fresh.get_state() == generator.get_state()).all())


def _problems(given: TorchArguments) -> Iterator[str]:
    if type(given.num_workers) is not int or given.num_workers < 0:
        yield (
            f"num_workers is {given.num_workers!r}; it must be 0 or more, and is only a hint: the "
            "job's data_service sets the number of workers (workers_per_host, local_workers)"
        )
    if type(given.workers) is not int or given.workers < 0:
        yield f"workers is {given.workers!r}; it must be 0 or more processes beside the script"
    factor = given.prefetch_factor
    if factor is not None and (type(factor) is not int or factor < 1):
        yield (
            f"prefetch_factor is {factor!r}; it must be at least 1, and is only a hint: the job's "
            "data_service.prefetch_bytes sets how much is prepared ahead"
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
