"""A model that is cut in four, on one GPU: what is predicted of each stage, and what it takes."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_parts import gpus
from table.figures import Figure, at_most
from trainers_parts.bench import Bench

SHAPE = {"width": 2048, "layers": 8, "vocabulary": 16384, "length": 1024, "samples": 2}
SMALL = {"width": 64, "layers": 4, "vocabulary": 256, "length": 32, "samples": 2}
#: Relative to what was learned: sums in another order in float32, and rounding in bfloat16.
_SAME = {"None": 1e-3, "bf16": 0.03}


def measure(bench: Bench) -> Iterator[Figure]:
    note = gpus.note(1)
    alike = bench.run("virtual_stages", ranks=1, shape=SMALL | {"width": 256}, microbatches=4)
    for precision, bound in _SAME.items():
        yield Figure(
            row="stages",
            what=f"2 stages, {'float32' if precision == 'None' else precision}: apart from uncut",
            values=[alike[precision]],
            unit="",
            target=at_most(bound),
            note=note,
        )
    found = bench.run(
        "stages_alone",
        ranks=1,
        shape=bench.pick(SHAPE, SMALL),
        stages=4,
        microbatches=8,
        rounds=bench.pick(20, 3),
    )
    for what, unit, name in (("time", "ms", "seconds"), ("peak memory", "GB", "bytes")):
        scale = 1e3 if unit == "ms" else 1e-9
        for number, stage in enumerate(found["stages"]):
            predicted, measured = stage[f"predicted_{name}"] * scale, stage[name] * scale
            yield off("stages", f"stage {number}: {what}", predicted, measured, unit, note)
    whole = found["whole"]
    predicted, measured = (1e3 * whole[name] for name in ("predicted_seconds", "seconds"))
    yield off("stages", "a step of the uncut model", predicted, measured, "ms", note)


def off(row: str, what: str, predicted: float, measured: float, unit: str, note: str) -> Figure:
    return Figure(
        row=row,
        what=f"{what}, prediction off by",
        values=[100 * abs(predicted / measured - 1)],
        unit="%",
        target=at_most(10),
        note=f"{note}; predicted {predicted:.3g} {unit}, measured {measured:.3g} {unit}",
    )
