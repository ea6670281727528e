"""A Hugging Face llama on two ranks: cut as torchtitan cuts, and sharded as Accelerate shards it.

    python benchmarks/llama.py [--rounds 5] [--steps 6]

Needs transformers and accelerate (`make frameworks` installs them). Launcher cuts and shards the
model as it is; torchtitan's way is a module for each stage, written by hand, whose other parts are
not there, in torch's 1F1B; Accelerate wraps each decoder layer in FSDP2. The sides run by turns,
each round in new processes, on gloo with one thread a rank. A ratio is that of a round: seconds of
a step and the larger rank's memory, with the median and quartiles. The losses must be equal.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from table.turns import in_turns

#: Sides, and what each is compared with.
PEERS = {"launcher's pipeline": "torchtitan's cut", "launcher's shards": "Accelerate's FSDP2"}
#: Relative: both sides must have had the same losses.
_SAME = 1e-4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6)
    options = parser.parse_args()
    if missing := [name for name in ("transformers", "accelerate") if find_spec(name) is None]:
        print(f"not measured: {' and '.join(missing)} not installed; run make frameworks")
        return 0
    sides = [name for pair in PEERS.items() for name in pair]
    found = in_turns(options.rounds, {name: partial(run, name, options.steps) for name in sides})
    print("| side | ms a step | MiB, larger rank | step to its peer's | memory to its peer's |")
    print("|---|---|---|---|---|")
    for ours, peer in PEERS.items():
        for name in (ours, peer):
            step, memory = (statistics.median(each[key] for each in found[name]) for key in KEYS)
            ratios = "" if name == peer else f"{shown(found, ours, peer, 0)} | "
            ratios += "|" if name == peer else shown(found, ours, peer, 1)
            print(f"| {name} | {1000 * step:.0f} | {memory:.0f} | {ratios} |")
    return int(not all(same_losses(found, *pair) for pair in PEERS.items()))


KEYS = ("step", "memory")


def run(side: str, steps: int) -> dict[str, Any]:
    """Train in new processes; the median step, the larger rank's memory and the losses."""
    words = ["--standalone", "--nproc-per-node", "2", "-m", "llama_parts.inside.sides"]
    ran = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *words, side, str(steps)],
        cwd=Path(__file__).parent,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    lines = [line for line in ran.stdout.splitlines() if line.startswith('{"seconds"')]
    if ran.returncode or not lines:
        raise SystemExit(f"{side} ended with {ran.returncode}\n{ran.stdout}{ran.stderr}")
    told = json.loads(lines[0])
    return {
        "step": statistics.median(told["seconds"]),
        "memory": max(told["memory"]),
        "losses": told["losses"],
    }


def shown(found: dict[str, list[dict[str, Any]]], ours: str, peer: str, which: int) -> str:
    key = KEYS[which]
    ratios = [a[key] / b[key] for a, b in zip(found[ours], found[peer], strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else 3 * ratios
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


def same_losses(found: dict[str, list[dict[str, Any]]], ours: str, peer: str) -> bool:
    one, other = found[ours][0]["losses"], found[peer][0]["losses"]
    apart = max(abs(a / b - 1) for a, b in zip(one, other, strict=True))
    print(f"losses of {ours} and {peer}: at most {apart:.1e} apart")
    return apart < _SAME


if __name__ == "__main__":
    sys.exit(main())
