"""Page-locked batches of a real data host, copied to the GPU."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_parts import gpus, job
from table.figures import Figure, at_least, at_most, ratios
from trainers_parts.bench import Bench


def measure(bench: Bench) -> Iterator[Figure]:
    settings = {
        "batch_size": bench.pick(64, 8),
        "batches": bench.pick(240, 16),
        "kept": 8,
        # About 10 ms that the GPU is busy before each copy.
        "cycles": 20_000_000,
        "rounds": bench.pick(15, 3),
        "copies": 60,
        "products": 80,
    }
    found = job.run(bench.folder / "copies", "copies.py", settings)
    note = gpus.note(1)

    def figure(what: str, values: list[float], **rest: object) -> Figure:
        return Figure(row="copies", what=what, values=values, note=note, **rest)  # type: ignore[arg-type]

    batches = settings["batches"]
    yield figure(
        f"wrong of {batches} batches given back before the copy",
        [found["wrong"]],
        unit="",
        target=at_most(0),
    )
    yield figure("a batch is page-locked", [found["is_pinned"]], unit="", target=at_least(1))
    yield figure("rate of copies", found["gigabytes_per_second"], unit="GB/s")
    share = ratios(found["gigabytes_per_second"], found["torchs"])
    yield figure("rate to torch's pin_memory()", share, target=at_least(0.95))
    yield figure("the script waits, of a copy's time", found["call_share"], target=at_most(0.2))
    times = found["overlap"]
    longer = max(times["copy"], times["compute"])
    words = f"copies {1000 * times['copy']:.3g} ms, products {1000 * times['compute']:.3g} ms"
    yield Figure(
        row="copies",
        what="copies beside matrix products, to the longer of both",
        values=[times["both"] / longer],
        target=at_most(1.15),
        note=f"{note}; {words}",
    )
