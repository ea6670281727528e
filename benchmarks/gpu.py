"""What this project claims on NVIDIA GPUs, measured on the ones of this machine.

Usage: make gpu [PYTHON=python3] [ROWS=overhead,...]
   or: python benchmarks/gpu.py [--rounds 1] [--rows overhead,...] [--quick] [--json FILE]

overhead    a step of the data parallel trainer (bfloat16) against plain torch, on one GPU
ranks       DDP and FSDP2 over NCCL on all GPUs of this machine, against the same written by hand
precision   bfloat16 against float32: what is learned, and how much faster
copies      page-locked batches of the data service: are copies asynchronous, right, and as fast as
            torch's own; do they overlap with computation
feeding     a GPU step that a data host feeds, against batches in GPU memory and raw TCP
starved     training on photographs: GPU busy with 2 workers beside it, and with a data host
stages      a model cut in four: time and peak memory of each stage alone, predicted and measured
pipeline    a model cut in two over two GPUs: step and peak memory, predicted and measured
examples    digits with a data host and gpt, as jobs on this machine

One run takes about 8 minutes. It needs an interpreter with torch >= 2.8 and numpy, and installs
nothing; examples need what Launcher's client needs, too. Each line says how many GPUs it takes;
a line that needs more than there are is "not measured", and so is all of it without any.
The exit code is 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
from pathlib import Path

_REPOSITORY = Path(__file__).parents[1]
sys.path.insert(1, str(_REPOSITORY))

from table.rows import conclude, measure, parser  # noqa: E402 - Launcher need not be installed

RESULT = Path(__file__).with_suffix(".json")
ROWS = (
    "overhead",
    "ranks",
    "precision",
    "copies",
    "feeding",
    "starved",
    "stages",
    "pipeline",
    "examples",
)
_LEAST_TORCH = (2, 8)


def main() -> int:
    options = parse(sys.argv[1:])
    if missing := missing_here():
        print(f"not measured: {missing}")
        return 0
    from gpu_parts import rows
    from trainers_parts.bench import Bench

    known = rows.by_name()
    with tempfile.TemporaryDirectory(prefix="launcher-bench-") as folder:
        bench = Bench(
            rounds=options.rounds,
            is_quick=options.quick,
            folder=Path(folder),
            package="gpu_parts.inside",
            # Models are made and traced on the CPU.
            environment={
                "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // 2)),
                "GLOO_SOCKET_IFNAME": "lo",
            },
        )
        figures = measure(known, options.rows, bench)
    return conclude(figures, options, known, RESULT)


def parse(words: list[str]) -> argparse.Namespace:
    rows = dict.fromkeys(ROWS)
    return parser(__doc__.split("\n")[0], rows, rounds=1, result=RESULT).parse_args(words)


def missing_here() -> str:
    """Say what this machine or interpreter lacks for any row; "" if nothing."""
    for name in ("torch", "numpy"):
        if importlib.util.find_spec(name) is None:
            return f"{sys.executable} has no {name}"
    import torch

    if tuple(map(int, torch.__version__.split(".")[:2])) < _LEAST_TORCH:
        return f"torch is {torch.__version__}, and must be 2.8 or newer"
    if not torch.cuda.is_available():
        return f"torch {torch.__version__} finds no NVIDIA GPU on this machine"
    return ""


if __name__ == "__main__":
    sys.exit(main())
