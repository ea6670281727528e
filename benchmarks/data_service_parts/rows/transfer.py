"""Ready batches from one worker to one rank, beside what others make of the same bytes."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

from data_service_parts import reference
from data_service_parts.bench import Bench
from data_service_parts.harness import Order, Side, Window
from data_service_parts.inside import payload
from data_service_parts.inside.variables import PAYLOAD
from data_service_parts.job import Job
from data_service_parts.peer import Peer, torch_loader
from table.figures import Figure, at_least, at_most, ratios
from table.turns import in_turns

#: Images of 3 x 224 x 224 bytes: 32 and 256 of them, and 107 as float32 (see reference.py).
SIZES = {"4 MB": 4_816_896, "38 MB": 38_535_168, "64 MB": 64_425_984}
#: Rounds of small batches differ more, and take less time: three times as many.
_MORE_ROUNDS = {"4 MB": 3}
_HELD = 4  # batches that a consumer may keep, say for copies to a device that are under way

Windows = dict[str, list[Window]]


def measure(bench: Bench) -> Iterator[Figure]:
    for size in list(SIZES)[: 1 if bench.is_quick else None]:
        yield from _figures(size, _measure_size(bench, size), bench)


def sides(bench: Bench, size: str) -> list[Side]:
    """Ours, the limit in four forms, and the peers that can run here."""
    folder = bench.folder / f"transfer-{size.replace(' ', '-')}"
    folder.mkdir()
    here, there = sys.executable, bench.peers_python
    found: list[Side] = [Job(folder, "read_ready.py", "pipeline:ready")]
    found += [
        Peer(f"raw {kind}", here, "raw_tcp", folder, [kind])
        for kind in ("plain", "pieces", "unsent", "framed")
    ]
    if not bench.is_quick:
        found.append(torch_loader(folder, "ready"))
    if there is not None:
        found += [
            Peer("tf.data", there, "tf_service", folder),
            Peer("gRPC", there, "grpc_stream", folder),
            Peer("AWS", there, "aws_pattern", folder),
        ]
    return found


def _measure_size(bench: Bench, size: str) -> Windows:
    variables = {PAYLOAD: str(payload.write(bench.folder / size, SIZES[size]))}
    order = Order(seconds=bench.pick(1.5, 0.2), warm_seconds=bench.pick(0.3, 0.0))
    held = replace(order, held=_HELD)
    with ExitStack() as stack:
        measures = {}
        for side in sides(bench, size):
            bench.log(f"  {size}: starting {side.name}")
            stack.callback(bench.harness.stop, side)
            bench.harness.start(side, variables)
            measures[side.name] = lambda side=side: bench.harness.measure(side, order)
            if side.name == "ours":
                measures["ours, held"] = lambda side=side: bench.harness.measure(side, held)
        times = 1 if bench.is_quick else _MORE_ROUNDS.get(size, 1)
        return in_turns(bench.rounds * times, measures)


def _by_program(windows: list[Window]) -> str:
    """Where the processor time went, in the middle one of the rounds."""
    middle = sorted(windows, key=lambda window: window.trainer_cpu_per_gb)[len(windows) // 2]
    parts = sorted(middle.trainer_programs.items(), key=lambda part: -part[1])
    return ", ".join(f"{name} {used:.3f}" for name, used in parts) if len(parts) > 1 else ""


def _figures(size: str, windows: Windows, bench: Bench) -> Iterator[Figure]:
    rates = {name: [w.bytes_per_second for w in taken] for name, taken in windows.items()}
    cpu = {name: [w.trainer_cpu_per_gb for w in taken] for name, taken in windows.items()}
    raw = max(("raw plain", "raw pieces"), key=lambda name: statistics.median(rates[name]))

    def figure(what: str, values: list[float], **rest: object) -> Figure:
        return Figure(row="transfer", what=f"{size}: {what}", values=values, **rest)  # type: ignore[arg-type]

    for name, values in rates.items():
        yield figure(f"{name}, rate", [v / 1e9 for v in values], unit="GB/s")
        note = _by_program(windows[name])
        yield figure(f"{name}, CPU of the trainer's host", cpu[name], unit="s/GB", note=note)
    yield figure("rate to raw TCP", ratios(rates["ours"], rates[raw]), target=at_least(0.9))
    yield figure("CPU to raw TCP", ratios(cpu["ours"], cpu[raw]), target=at_most(1.4))
    yield figure(
        f"CPU to raw TCP, {_HELD} batches held",
        ratios(cpu["ours, held"], cpu[raw]),
        target=at_most(1.6) if size == "4 MB" else None,
    )
    yield figure(
        "slower than a pipeline with neither order nor exactly-once",
        [100 * (1 - share) for share in ratios(rates["ours"], rates["raw framed"])],
        unit="%",
        target=at_most(3),
    )
    yield figure("that pipeline to raw TCP", ratios(rates["raw framed"], rates[raw]))
    unsent = "raw TCP whose sender keeps as little unsent as ours"
    yield figure(f"rate to {unsent}", ratios(rates["ours"], rates["raw unsent"]))
    yield figure(f"CPU to {unsent}", ratios(cpu["ours"], cpu["raw unsent"]))
    for name, bound in (("tf.data", 1 / 4), ("AWS", 1 / 10)):
        values = ratios(cpu["ours"], cpu.get(name, []))
        yield figure(f"CPU to {name}", values, target=at_most(bound))
        limit = ratios(cpu[raw], cpu.get(name, []))
        yield figure(f"raw TCP's own CPU to {name}", limit)
    for name in reference.peers(size):
        values = ratios(rates.get(name, []), rates[raw])
        least = reference.least_ratio(name, size)
        yield figure(f"{name} to raw TCP (valid run)", values, target=at_least(least))
