"""A GPU step fed by a data host, by raw TCP, and by nothing but the GPU's own memory."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_parts import gpus, job
from table.figures import Figure, at_least, at_most, interval_of, ratios
from trainers_parts.bench import Bench


def measure(bench: Bench) -> Iterator[Figure]:
    settings = {
        "batch_size": bench.pick(128, 8),
        "widths": bench.pick([128, 256, 512, 1024], [8, 16]),
        "warm": bench.pick(15, 2),
        "steps": bench.pick(25, 3),
        "rounds": bench.pick(9, 2),
        "pause": bench.pick(0.3, 0.0),
        "buffered": bench.pick(16, 2),
        "reads": bench.pick(60, 5),
    }
    found = job.run(bench.folder / "feeding", "feed.py", settings)
    steps, rates = found["steps"], found["rates"]
    note = gpus.note(1)

    def figure(what: str, values: list[float], **rest: object) -> Figure:
        return Figure(row="feeding", what=what, values=values, note=note, **rest)  # type: ignore[arg-type]

    yield figure("a step on a batch in the GPU", [1000 * s for s in steps["resident"]], unit="ms")
    slower = [100 * (share - 1) for share in ratios(steps["served"], steps["resident"])]
    raw = [100 * (share - 1) for share in ratios(steps["raw"], steps["resident"])]
    yield figure("slower, fed by raw TCP", raw, unit="%", interval=interval_of(raw))
    yield figure("slower, fed by a data host", slower, unit="%", interval=interval_of(slower))
    yield figure(
        "a step fed by a data host, to one fed by raw TCP",
        share := ratios(steps["served"], steps["raw"]),
        target=at_most(1.02),
        interval=interval_of(share),
    )
    for name, words in (("served", "a data host"), ("raw", "raw TCP")):
        yield figure(f"{words}, rate without steps", [r / 1e9 for r in rates[name]], unit="GB/s")
    yield figure("rate to raw TCP", ratios(rates["served"], rates["raw"]), target=at_least(0.9))
