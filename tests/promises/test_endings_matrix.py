"""Every cause of an ending, in everyone whom it can hit: what the job says, and what it leaves.

Each cell is a real job of two data and two train hosts, hurt for real. Its status, reason, exit
code and the seconds from the injury to the end are printed as a table after the tests. The cells
without the mark `slow` are part of `make test` and `make test-long`.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
from endings_injuries import (
    frozen,
    frozen_for_a_while,
    misbehaving,
    on_a_full_disk,
    out_of_memory,
    signalled,
    signalled_and_over,
    tolerated,
    with_a_full_output,
)
from endings_programs import COLLECTIVES
from endings_stage import HANG_TIMEOUT, ISOLATION, Stage
from endings_table import Row
from waiting import wait_until

from launcher.client.jobs import EXIT_CODES

#: A job in which someone was hurt is over after so many seconds; hosts have 20 to end at SIGTERM.
SECONDS = 60.0
RANKS = {"rank 0": "host algo-3 (train_group)", "other rank": "host algo-4 (train_group)"}

Play = Callable[[Stage], AbstractContextManager[None]]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One injury. play: runs the job up to it; reason: an expression for the FailureReason."""

    cause: str
    who: str
    play: Play
    status: str = "Failed"
    reason: str = ""
    seconds: float = SECONDS
    is_slow: bool = True

    @property
    def parameter(self) -> object:
        marks = [pytest.mark.slow] if self.is_slow else []
        return pytest.param(self, id=f"{self.cause}, {self.who}", marks=marks)


# The matrix ----------------------------------------------------------------------------------


def cell(cause: str, who: str, play: Callable[..., Any], **more: Any) -> Cell:
    return Cell(cause=cause, who=who, play=partial(play, who=who), **more)


def in_each_rank(cause: str, play: Callable[..., Any], reason: str) -> list[Cell]:
    """An injury of rank 0, and of the other one."""
    return [cell(cause, who, play, reason=re.escape(host) + reason) for who, host in RANKS.items()]


def in_ranks(cause: str, reason: str, **options: object) -> list[Cell]:
    """A fault of the script, in rank 0 and in the other one."""
    return in_each_rank(cause, partial(misbehaving, cause=cause, **options), reason)


def in_worker(cause: str, reason: str, fault: str = "", **options: object) -> Cell:
    """A fault of the dataset, on a data host; it reaches the first rank that needs the batch."""
    play = partial(misbehaving, cause=fault or cause, **options)
    reason = rf"host algo-[34] \(train_group\), rank [01]: .*{reason}"
    return cell(cause, "worker", play, reason=reason)


SAMPLE = r"pipeline:train_set raised {} for sample 5.*\(on data host algo-[12]\)"
KILLED = r", rank [01]: killed by SIGKILL \(memory was (not )?short: [\d.]+ of [\d.]+ GiB in use\)"
TERM, KILL = signal.SIGTERM, signal.SIGKILL
asked, killed = partial(signalled, number=TERM), partial(signalled, number=KILL)
asked_and_over = partial(signalled_and_over, number=TERM)
killed_and_over = partial(signalled_and_over, number=KILL)
OVER: dict[str, Any] = {"status": "Completed"}
QUICK: dict[str, Any] = {"is_slow": False}
OTHERS = ("data host init", "leader", "launcher")

CELLS = [
    *in_ranks("exception", ", rank [01]: ValueError: loss is nan\n"),
    in_worker("exception", SAMPLE.format("ValueError")),
    *in_ranks("sys.exit", r", rank [01]: the script called sys\.exit\(3\)"),
    in_worker("sys.exit", SAMPLE.format("SystemExit")),
    *in_each_rank("SIGTERM", asked, ", rank [01]: killed by SIGTERM"),
    cell("SIGTERM", "worker", asked_and_over, **OVER),
    cell("SIGTERM", "data host init", asked_and_over, **OVER),
    cell(
        *("SIGTERM", "leader", asked),
        reason=r"host algo-3 \(train_group\): it was asked to stop \(SIGTERM\), but the others",
        seconds=150,  # it serves the other train host for 110 s
    ),
    cell("SIGTERM", "launcher", asked, status="Stopped"),
    *(
        replace(each, is_slow=each.who == "rank 0")
        for each in in_each_rank("SIGKILL", killed, KILLED)
    ),
    cell("SIGKILL", "worker", killed_and_over, **OVER, **QUICK),
    cell(
        *("SIGKILL", "data host init", killed),
        reason=r"host algo-1 \(data_group\): killed by SIGKILL",
        **QUICK,
    ),
    cell("  tolerated", "data host init", partial(tolerated, number=KILL), **OVER),
    cell("SIGKILL", "leader", killed, reason=r"host algo-3 \(train_group\): killed by SIGKILL"),
    cell(
        *("SIGKILL", "launcher", killed),
        reason=r"the local platform process died \(killed by SIGKILL\)",
        **QUICK,
    ),
    *in_each_rank("OOM kill", out_of_memory, KILLED),
    cell("OOM kill", "worker", out_of_memory, **OVER),
    *in_ranks("MemoryError", ", rank [01]: MemoryError"),
    in_worker("MemoryError", SAMPLE.format("MemoryError")),
    *in_each_rank("disk full", on_a_full_disk, r", rank [01]: OSError: .*No space left on device"),
    in_worker("disk full", SAMPLE.format("OSError") + ".*", fault="full device"),
    Cell(
        cause="disk full",
        who="launcher",
        play=with_a_full_output,
        reason="cannot write the results to file://.*: No space left on device: free space",
    ),
    *in_ranks(
        "hang",
        rf", rank [01]: no progress for {HANG_TIMEOUT} s: rank [01] is in .*sleep.*; "
        r"rank [01] waits in all_reduce \(train\.py:\d+\)",
        script=COLLECTIVES,
        torchrun=True,
    ),
    in_worker("hang", f"no progress for {HANG_TIMEOUT} s: .*data loader", torchrun=True),
    *(cell("hang", who, frozen, status="Stopped", seconds=120) for who in OTHERS[:2]),
    Cell(cause="hang", who="launcher", play=frozen_for_a_while, status="Completed"),
    *in_ranks("import error", ", rank [01]: ModuleNotFoundError: No module named 'no_such_module'"),
    in_worker("import error", "No module named 'no_such_module'"),
    *in_ranks("missing file", r", rank [01]: FileNotFoundError: .*no-such-file\.csv"),
    in_worker("missing file", SAMPLE.format("FileNotFoundError")),
]

#: Why others cannot meet a cause.
_OF_OTHERS = {
    "exception": "runs no code of the user's",
    "sys.exit": "runs no code of the user's",
    "OOM kill": "to the kernel and the platform it is the SIGKILL above",
    "import error": "runs no code of the user's",
    "missing file": "an absent entry point or channel is refused before a start",
}
NO_CELLS = {
    **{(cause, who): why for cause, why in _OF_OTHERS.items() for who in OTHERS},
    ("disk full", "data host init"): "writes nothing but its failure file, whose room is kept",
    ("disk full", "leader"): "shares the disk that rank 0 fills above",
}


STAGES = [
    pytest.param(ISOLATION, id="here"),
    pytest.param("container", marks=pytest.mark.library("containers")),
]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:2 train hosts, but no distribution")
@pytest.mark.parametrize("stage", STAGES, indirect=True)
@pytest.mark.parametrize("cell", [cell.parameter for cell in CELLS])
def test_ending(stage: Stage, table: list[Row], cell: Cell) -> None:
    with cell.play(stage):
        hurt = time.monotonic()
        wait_until(stage.is_over, cell.seconds, "the end of the job")
        table.append(seen(stage, cell, time.monotonic() - hurt))
        check(stage, cell)


def seen(stage: Stage, cell: Cell, seconds: float) -> Row:
    summary = stage.job.summary()
    return Row(
        cause=cell.cause,
        who=cell.who,
        status=summary["status"],
        exit_code=str(summary["exit_code"]),
        seconds=f"{seconds:.1f}",
        reason=summary["failure_reason"] or "",
    )


def check(stage: Stage, cell: Cell) -> None:
    summary = stage.job.summary()
    reason = summary["failure_reason"] or ""
    lines = "\n".join(f"{line.host} | {line.text}" for line in stage.job.logs())
    assert summary["status"] == cell.status, f"{reason}\n{lines}"
    assert summary["exit_code"] == EXIT_CODES[cell.status]
    assert bool(reason) == (cell.status == "Failed")
    assert re.match(cell.reason, reason, re.DOTALL), f"{reason}\n{lines}"
    deadline = time.monotonic() + 10
    while remains := stage.traces.remains():
        assert time.monotonic() < deadline, remains


@pytest.mark.slow
def test_missing_cells_give_their_reason(table: list[Row]) -> None:
    causes = {cell.cause for cell in CELLS if not cell.cause.startswith(" ")} - {"MemoryError"}
    everyone = {cell.who for cell in CELLS}
    there = {(cell.cause, cell.who) for cell in CELLS}
    missing = {(cause, who) for cause in causes for who in everyone} - there
    assert missing == NO_CELLS.keys()
    table += [Row(cause=cause, who=who, reason=why) for (cause, who), why in NO_CELLS.items()]
