"""A walk over every public name of torch's DataLoader; it also runs as the script of a job.

Each name is read, assigned before the first epoch and assigned between two. `walk` returns what
came of it: "as in torch", "refused", or what differs.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pipeline
import torch
from torch.utils import data as torch_data

from launcher.data import DataLoader
from launcher.errors import DataError

READ, BEFORE, BETWEEN = "read", "assigned before the first epoch", "assigned between two epochs"
#: What is assigned: a value that differs from the default. Functions must be the pipeline's.
VALUES: dict[str, Callable[[], Any]] = {
    "batch_sampler": lambda: [[1, 2], [3]],
    "batch_size": lambda: 3,
    "collate_fn": lambda: pipeline.tenfold,
    "dataset": lambda: [1, 2, 3],
    "drop_last": lambda: True,
    "generator": lambda: torch.Generator().manual_seed(5),
    "in_order": lambda: False,
    "multiprocessing_context": lambda: "fork",
    "num_workers": lambda: 1,
    "persistent_workers": lambda: True,
    "pin_memory": lambda: True,
    "pin_memory_device": lambda: "cuda",
    "prefetch_factor": lambda: 3,
    "sampler": lambda: [3, 1],
    "shuffle": lambda: True,
    "timeout": lambda: 30,
    "worker_init_fn": lambda: pipeline.set_offset,
}
#: The batches of the pipeline's numbers.
_PLAIN = [[0, 1], [2, 3], [4, 5], [6]]
#: Methods of torch's that this loader does not have.
ABSENT = ("check_worker_number_rationality",)


def public_names() -> set[str]:
    """Those of the class, of an object and of the constructor."""
    loader = torch_data.DataLoader([1, 2])
    found = {*dir(type(loader)), *dir(loader), *inspect.signature(type(loader)).parameters}
    return {name for name in found if not name.startswith("_")}


def walk(make: Callable[..., DataLoader]) -> dict[tuple[str, str], str]:
    """Return what comes of each name and way. make: a loader of the pipeline's numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a host without CUDA
        return {
            (name, way): outcome
            for name in sorted(public_names())
            for way, outcome in _ways(name, make)
        }


def _ways(name: str, make: Callable[..., DataLoader]) -> Iterator[tuple[str, str]]:
    yield READ, _outcome(name, lambda: _read(name, make))
    yield BEFORE, _outcome(name, lambda: _assigned(name, make, epochs=0))
    yield BETWEEN, _outcome(name, lambda: _assigned(name, make, epochs=1))


def _outcome(name: str, step: Callable[[], str]) -> str:
    try:
        return step()
    except (AttributeError, DataError) as error:
        return "refused" if name in str(error) else f"refused without its name: {error}"


def _read(name: str, make: Callable[..., DataLoader]) -> str:
    loader, torchs = make(), torch_data.DataLoader(pipeline.numbers(), batch_size=2)
    if hasattr(loader, name) != hasattr(torchs, name):
        return f"hasattr is {hasattr(loader, name)}" if name not in ABSENT else "refused"
    mine, theirs = getattr(loader, name), getattr(torchs, name)
    if name in ("dataset", "sampler", "batch_sampler"):
        return _compared(len(mine), len(theirs))
    return _compared(mine, theirs)


def _assigned(name: str, make: Callable[..., DataLoader], epochs: int) -> str:
    loader = make()
    for _ in range(epochs):
        _batches(loader)
    value = VALUES.get(name, lambda: 1)()
    setattr(loader, name, value)
    if name in ABSENT:  # a method there, and nothing here: it is the script's own attribute
        return _compared(getattr(loader, name), value)
    if getattr(loader, name) is not value and getattr(loader, name) != value:
        return f"reads as {getattr(loader, name)!r}"
    options = {} if name == "in_order" else {name: value}
    if name == "generator":
        return _of_generator(make, epochs)
    if name == "worker_init_fn":  # which torch calls in its worker processes
        return _compared(_batches(loader), [[100 + each for each in batch] for batch in _PLAIN])
    if name == "collate_fn":
        theirs = torch_data.DataLoader(pipeline.numbers(), batch_size=2, **options)
        return _compared(_batches(loader), _batches(theirs))
    return _compared(sorted(_batches(loader)), sorted(_batches(make())))  # a hint


def _of_generator(make: Callable[..., DataLoader], epochs: int) -> str:
    """Compare the orders that a generator gives, which begin anew when it is seeded anew."""
    loader, generator = make(shuffle=True), torch.Generator().manual_seed(5)
    for _ in range(epochs):
        _batches(loader)
    loader.generator = generator
    first, second = _batches(loader), _batches(loader)
    generator.manual_seed(5)
    again = _batches(loader)
    generator.manual_seed(6)
    other = _batches(loader)
    new = make(shuffle=True, generator=torch.Generator().manual_seed(5))
    return _compared(
        (first, second, again, other != first), (_batches(new), _batches(new), first, True)
    )


def _batches(loader: Any) -> list[list[int]]:
    return [[int(number) for number in batch] for batch in loader]


def _compared(mine: object, theirs: object) -> str:
    return "as in torch" if mine == theirs else f"{mine!r} is not {theirs!r}"


if __name__ == "__main__":
    count = iter(range(1000))
    for place, outcome in walk(
        lambda **options: DataLoader(
            "pipeline:numbers", batch_size=2, name=f"walk {next(count)}", **options
        )
    ).items():
        print("walk", *place, outcome, sep="; ", flush=True)
