"""Whatever happens to an answer of AWS, a verb ends truthfully, in a bounded number of calls.

Each cell injects a fault of fault_kinds.py at the k-th call of an operation, once or from then on,
while a verb runs against moto. fault_cells.py has the judge.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

import pytest
from fault_cells import POLLS, VERBS, Cell, cells, judge
from fault_kinds import KINDS
from fault_stage import Stage, hurry, share_clients

#: One of so many cells is run by `make test`.
SAMPLE = int(os.environ.get("LAUNCHER_FAULT_SAMPLE", "61"))


@pytest.fixture
def stage(front, past, boto, credentials, tmp_path_factory):
    share_clients(credentials, boto)
    stage = Stage(front=front, past=past, folder=tmp_path_factory.mktemp("job"))
    stage.add_ended_job()  # moto and boto load what they need
    hurry(credentials)
    return stage


def calls_of(stage: Stage, verb: str, name: str, target: Path) -> Counter[str]:
    """The calls of a verb that meets no fault."""
    stage.front.calls.clear()
    stage.live("Completed", POLLS.get(verb, 0))
    result = stage.run(*VERBS[verb](name, target, stage))
    assert result.exit_code == 0, (verb, result.output, result.exception)
    return stage.front.count()


def untruthful(stage: Stage, chosen: slice, root: Path) -> tuple[int, dict[Cell, list[str]]]:
    """Judge these of all cells; return their number, and what was wrong in which."""
    ended = stage.ended

    calls = {
        verb: calls_of(stage, verb, stage.new_name() if verb == "run" else ended, root / verb)
        for verb in VERBS
    }
    found, judged = {}, list(cells(calls))[chosen]
    for number, cell in enumerate(judged):
        if os.environ.get("LAUNCHER_FAULT_PROGRESS"):
            print(number, cell, f"{time.process_time():.1f}", flush=True)
        name = stage.new_name() if cell.verb == "run" else ended
        target = root / f"target-{number}"
        target.mkdir()
        if wrong := judge(cell, stage, name, target):
            found[cell] = wrong
            print(f"{cell}: {'; '.join(wrong)}", flush=True)
    return len(judged), found


def told(found: dict[Cell, list[str]]) -> str:
    return "\n".join(f"{cell}: {'; '.join(wrong)}" for cell, wrong in found.items())


@pytest.mark.long
def test_a_sample_of_all_faults_ends_truthfully(stage, tmp_path):
    count, found = untruthful(stage, slice(None, None, SAMPLE), tmp_path)
    assert count > len(KINDS)
    assert not found, told(found)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(4))
def test_every_fault_at_every_call_ends_truthfully(stage, tmp_path, part):
    """All cells in four parts; each prints how many there are."""
    started = time.monotonic()
    count, found = untruthful(stage, slice(part, None, 4), tmp_path)
    print(f"{count} cells in {time.monotonic() - started:.0f} s, {len(found)} untruthful")
    assert count > 375, "1,500 cells in all"
    assert not found, told(found)
