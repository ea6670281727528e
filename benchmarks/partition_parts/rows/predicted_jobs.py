"""Six models of three kinds, cut for speed: are the step and each stage's memory as predicted?

The prediction is made before the jobs, by a run of its own.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from table.figures import Figure, at_most
from trainers_parts.bench import Bench

_STAGES, _MICROBATCHES = 2, 8
_JOBS = 5
_NEAR_STEP, _NEAR_BYTES = 0.10, 0.15
_MB = 1e6
#: Model, its optimizer, and its shape: transformers, convolutions, and linear layers.
_MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt": ("gpt", "AdamW", {"samples": 4}),
    "long gpt": ("gpt", "SGD", {"width": 320, "length": 128, "vocabulary": 4096, "samples": 2}),
    "pyramid": ("pyramid", "SGD", {"samples": 24}),
    "unet": ("unet", "AdamW", {"samples": 16}),
    "taper": ("taper", "AdamW", {"samples": 96}),
    "wide taper": ("taper", "SGD", {"first": 3072, "layers": 10, "samples": 64}),
}
_SMALL = {"taper": ("taper", "AdamW", {"first": 256, "samples": 4})}


def measure(bench: Bench) -> Iterator[Figure]:
    for name, (model, optimizer, shape) in bench.pick(_MODELS, _SMALL).items():
        told = {
            "stages": _STAGES,
            "microbatches": _MICROBATCHES,
            "model": model,
            "optimizer": optimizer,
            "shape": shape,
            "steps": bench.pick(6, 2),
        }
        found = bench.run("predicted_job", ranks=_STAGES, starts=None, **told)
        jobs = [
            bench.run("predicted_job", ranks=_STAGES, starts=found["starts"], **told)
            for _ in range(bench.pick(_JOBS, 1))
        ]
        steps = [statistics.median(each["seconds"]) for each in jobs]
        title = f"{name} ({optimizer})"
        yield Figure(
            row="predicted",
            what=f"{title}: the step, off by",
            values=[100 * abs(found["step"] / statistics.median(steps) - 1)],
            unit="%",
            target=at_most(100 * _NEAR_STEP),
            note=(
                f"predicted {1000 * found['step']:.0f} ms +- {1000 * found['spread']:.0f}, "
                f"{1000 * found['update']:.0f} of them of the optimizer; "
                f"measured {', '.join(f'{1000 * each:.0f}' for each in steps)}"
            ),
        )
        for rank in range(_STAGES):
            used = [each["bytes"][rank] for each in jobs]
            yield Figure(
                row="predicted",
                what=f"{title}: memory of stage {rank}, off by",
                values=[100 * abs(found["bytes"][rank] / statistics.median(used) - 1)],
                unit="%",
                target=at_most(100 * _NEAR_BYTES),
                note=(
                    f"predicted {found['bytes'][rank] / _MB:.0f} MB; "
                    f"measured {', '.join(f'{each / _MB:.0f}' for each in used)}"
                ),
            )
