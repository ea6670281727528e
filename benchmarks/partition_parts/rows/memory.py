"""A model that is cut for memory lives where the one cut for speed dies, and is slower elsewhere.

Its activations are early and its parameters late. Each rank limits its own data (RLIMIT_DATA) to
what it has when torch is up and the midpoint between what the largest stages of both are predicted
to need. Allocators give back what is freed, so that what counts is in use.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from table.figures import Figure, at_least, at_most, interval_of, ratios
from table.rows import Invalid
from trainers_parts.bench import Bench

_STAGES, _MICROBATCHES = 2, 8
#: To be made under the limit.
_STEPS = 3
#: What both need must differ by more than is not predicted of either.
_APART = 1.2
_MB = 1e6
#: glibc maps what is larger than this by itself, and unmaps it when it is freed.
_THRIFTY = {"MALLOC_MMAP_THRESHOLD_": str(2**16), "MALLOC_ARENA_MAX": "1"}
_NO_MEMORY = "can't allocate memory"


def measure(bench: Bench) -> Iterator[Figure]:
    told = {
        "stages": _STAGES,
        "microbatches": _MICROBATCHES,
        "shape": {"widths": [32, 64, 128, 128], "hidden": [2048] * 8, "samples": 8},
    }
    found = bench.run("objectives", ranks=_STAGES, turns=bench.pick(2, 1) * bench.rounds, **told)
    speed, memory = found["speed"], found["memory"]
    most, least = (max(plan["bytes"]) for plan in (speed, memory))
    yield Figure(
        row="memory",
        what="cut for speed: the largest rank, to memory's (valid run)",
        values=[most / least],
        target=at_least(_APART),
        note=f"as predicted: {_megabytes([most, least])} MB",
    )
    limit = (most + least) / 2
    runs = {
        name: [_run(bench, plan, limit, told) for _ in range(bench.rounds)]
        for name, plan in found.items()
    }
    words = f"limit {limit / _MB:.0f} MB beside torch"
    yield _steps("cut for memory: steps under the limit", runs["memory"], words)
    yield _steps("cut for speed: steps under the limit", runs["speed"], _end_of(runs["speed"]))
    shares = ratios(speed["seconds"], memory["seconds"])
    yield Figure(
        row="memory",
        what="cut for speed: a step without the limit, to memory's",
        values=shares,
        target=at_most(1),
        interval=interval_of(shares),
        note=f"; predicted {speed['step'] / memory['step']:.3g}",
    )
    yield _used("memory", memory, runs["memory"])
    yield _used("speed", speed, [_run(bench, speed, None, told)])


def _run(
    bench: Bench, plan: dict[str, Any], limit: float | None, told: dict[str, Any]
) -> list[dict[str, Any]]:
    """What each rank has to say."""
    thrifty = replace(bench, environment=_THRIFTY)
    files = [bench.folder / f"{rank}.json" for rank in range(_STAGES)]
    for each in files:
        each.unlink(missing_ok=True)
    thrifty.run(
        "limited",
        ranks=_STAGES,
        starts=plan["starts"],
        limit=limit,
        steps=_STEPS,
        folder=str(bench.folder),
        **told,
    )
    return [json.loads(each.read_text()) for each in files]


def _steps(what: str, runs: list[list[dict[str, Any]]], note: str) -> Figure:
    """Those that all ranks have made."""
    is_memory = "for memory" in what
    return Figure(
        row="memory",
        what=what,
        values=[min(rank["steps"] for rank in ranks) for ranks in runs],
        unit="steps",
        target=at_least(_STEPS) if is_memory else at_most(0),
        note=note,
    )


def _end_of(runs: list[list[dict[str, Any]]]) -> str:
    """What it died of, which must be the lack of memory, in every run."""
    for ranks in runs:
        if not any(_NO_MEMORY in rank["died"] for rank in ranks):
            raise Invalid(f"it did not die of a lack of memory: {[rank['died'] for rank in ranks]}")
    return f"died in {len(runs)} of {len(runs)} runs: DefaultCPUAllocator: {_NO_MEMORY}"


def _used(name: str, plan: dict[str, Any], runs: list[list[dict[str, Any]]]) -> Figure:
    """Of the rank with the most."""
    predicted, used = plan["bytes"], [[rank["used"] for rank in ranks] for ranks in runs]
    return Figure(
        row="memory",
        what=f"cut for {name}: bytes of the largest rank, to those predicted",
        values=[max(each) / max(predicted) for each in used],
        note=f"by rank {_megabytes(used[0])}, predicted {_megabytes(predicted)} MB",
    )


def _megabytes(sizes: Sequence[float]) -> str:
    return ", ".join(f"{size / _MB:.0f}" for size in sizes)
