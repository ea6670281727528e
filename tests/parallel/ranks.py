"""Starts ranks as a job does, and reads what they wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forked_ranks import run_ranks

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
#: Seconds for the longest of the slow tests, on a machine that is busy.
PATIENCE = 900


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a run ended. notes: what each rank wrote with `note`, by rank."""

    code: int
    output: str
    notes: dict[int, Any]


#: What scripts find: modules beside this one, and these names.
_PREAMBLE = f"""
import copy, itertools, json, os, pathlib, sys
sys.path.append({str(HERE)!r})
import torch, torch.distributed as dist
from torch import nn
from torch.utils._pytree import tree_leaves
from launcher import parallel
from launcher.errors import ParallelError
from launcher.parallel import (
    Pipeline, Randomness, accumulating, boundaries, clip, cut, replicate, scaler, shard
)
from architectures import ARCHITECTURES, Gpt

torch.set_num_threads(1)

def note(words):
    rank = int(os.environ.get("RANK", 0))
    path = pathlib.Path(os.environ["NOTES"], str(rank))
    path.with_suffix(".part").write_text(json.dumps(words))
    path.with_suffix(".part").replace(path)

def refused(call, *arguments, **named):
    '''Return the words in which a call is refused, or None.'''
    try:
        call(*arguments, **named)
    except ParallelError as error:
        return str(error)
"""
#: Scripts for smp leave by themselves.
_ENDING = """
if dist.is_initialized() and "launcher.parallel.smp" not in sys.modules:
    parallel.leave()
"""


def noted(folder: Path, script: str, *, ranks: int = 2, **options: Any) -> list[Any]:
    """Return what each rank of a script wrote, which ends well. options: see `run`."""
    outcome = run(folder, script, ranks=ranks, **options)
    assert outcome.code == 0, outcome.output
    assert sorted(outcome.notes) == list(range(ranks)), outcome.output
    return [outcome.notes[rank] for rank in range(ranks)]


def run(
    folder: Path,
    script: str,
    *,
    ranks: int = 2,
    restarts: int = 0,
    patience: int = PATIENCE,
    torchrun: bool = False,
    **variables: str,
) -> Outcome:
    """Run a script on so many ranks; on one, as plain Python.

    Ranks are forked. torchrun: start them by torchrun itself, as is done whenever there may be
    restarts.
    """
    notes = folder / f"notes-{ranks}"
    notes.mkdir(parents=True)
    file = folder / f"script-{ranks}.py"
    file.write_text(_PREAMBLE + script + _ENDING)
    environment = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY),
        "NOTES": str(notes),
        "OMP_NUM_THREADS": "1",
        **variables,
    }
    if torchrun or restarts:
        code, output = _under_torchrun(file, ranks, restarts, patience, environment)
    else:
        code, output = run_ranks(
            str(file),
            ranks=ranks,
            variables=environment,
            output=folder / f"output-{ranks}",
            folder=Path.cwd(),
            patience=patience,
        )
    found = {int(path.name): json.loads(path.read_text()) for path in notes.glob("[0-9]*")}
    return Outcome(code=code, output=output, notes=found)


def _under_torchrun(
    file: Path, ranks: int, restarts: int, patience: int, environment: dict[str, str]
) -> tuple[int, str]:
    under = ["-m", "torch.distributed.run", "--nnodes=1", f"--nproc-per-node={ranks}"]
    under += ["--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", f"--max-restarts={restarts}"]
    done = subprocess.run(
        [sys.executable, *under, str(file)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=patience,
    )
    return done.returncode, done.stdout
