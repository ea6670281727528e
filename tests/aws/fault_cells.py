"""Cells of the matrix: a fault at the k-th call of an operation of a verb; and their judge."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fault_kinds import KINDS
from fault_stage import LINES, MODEL, TRUTHS, Stage

#: The longest wait of a verb is a number of calls: none makes more.
MOST_CALLS = 400
#: Calls of an operation that are hit, one at a time. `run` describes its job before its creation,
#: and several times after it.
MOST_HIT, MOST_DESCRIPTIONS_HIT = 3, 6
#: Verbs that follow a job to its end: their exit code is the job's.
FOLLOWING = ("run", "logs -f", "wait")
_WAYS_BACK = (
    "fix:",
    "launcher logs -f",
    "launcher status",
    "set it",
    "renew",
    "try again",
    "request id",
)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A fault at the k-th call of an operation while a verb runs; stays: at all later ones too."""

    verb: str
    operation: str
    k: int
    kind: str
    stays: bool
    truth: str

    def __str__(self) -> str:
        when = f"from {self.k} on" if self.stays else f"at {self.k}"
        return f"{self.verb}: {self.kind}, {self.operation} {when}, {self.truth}"

    def arm(self, front: Any) -> None:
        fault = KINDS[self.kind].fault
        front.meet(self.operation, *[None] * (self.k - 1), *[fault] * (1000 if self.stays else 1))

    @property
    def exit_codes(self) -> set[int]:
        """The truthful ones: that of the job, or 4 where the fault stays or is no blip."""
        own = TRUTHS[self.truth] if self.verb in (*FOLLOWING, "status") else 0
        return {own} if KINDS[self.kind].is_blip and not self.stays else {own, 4}


#: The words of each verb; NAME is a job, FOLDER a folder that is empty.
VERBS: dict[str, Callable[[str, Path, Stage], tuple[str, ...]]] = {
    "run": lambda name, _, stage: ("run", str(stage.folder), "--yes", "--name", name),
    "logs -f": lambda name, *_: ("logs", "-f", "--cloud", name),
    "status": lambda name, *_: ("status", "--cloud", name),
    "wait": lambda name, *_: ("wait", "--cloud", name),
    "stop": lambda name, *_: ("stop", "--cloud", name),
    "download": lambda name, folder, _: ("download", "--cloud", name, "--to", str(folder)),
    "list": lambda name, *_: ("list", "--cloud", "--name-contains", name),
}
#: Descriptions that a job's life has before its end.
POLLS = {"run": 3, "logs -f": 2, "wait": 2, "stop": 99}


def cells(calls: dict[str, Counter[str]]) -> Iterator[Cell]:
    """Yield every cell of the verbs, whose calls without a fault are given."""
    truths = itertools.cycle(TRUTHS)
    for verb, counted in calls.items():
        for operation, count in counted.items():
            most = MOST_DESCRIPTIONS_HIT if operation == "DescribeTrainingJob" else MOST_HIT
            for k, (kind, each), stays in itertools.product(
                range(1, min(count, most) + 1), KINDS.items(), (False, True)
            ):
                is_long = kind == "silent" and (stays or k > 1)  # 2 s each time
                if each.fits(operation) and not is_long:
                    yield Cell(
                        verb=verb,
                        operation=operation,
                        k=k,
                        kind=kind,
                        stays=stays,
                        truth=next(truths),
                    )


def judge(cell: Cell, stage: Stage, name: str, target: Path) -> list[str]:
    """Run a cell; return in what it was untruthful."""
    stage.front.calls.clear()
    stage.front.faults.clear()
    stage.live(cell.truth, POLLS.get(cell.verb, 0))
    cell.arm(stage.front)
    result = stage.run(*VERBS[cell.verb](name, target, stage))
    stage.front.faults.clear()
    return [
        *_faults_of_end(cell, stage, result, name),
        *_lies(cell, stage, result, name, target),
    ]


def _faults_of_end(cell: Cell, stage: Stage, result: Any, name: str) -> Iterator[str]:
    error = result.exception
    if error is not None and not isinstance(error, SystemExit):
        yield f"a traceback: {type(error).__name__}: {error}"
        return
    if result.exit_code not in cell.exit_codes:
        yield f"exit code {result.exit_code}: {result.stderr.strip()[-200:]}"
    if len(stage.front.calls) > MOST_CALLS:
        yield f"{len(stage.front.calls)} calls"
    if result.exit_code == 4:
        if not any(way in result.stderr for way in _WAYS_BACK):
            yield f"no way back: {result.stderr[-200:]}"
        is_found = (cell.operation, cell.k) != ("DescribeTrainingJob", 1)
        if is_found and cell.verb in ("logs -f", "wait") and name not in result.stderr:
            yield "the job is not named"


def _lies(cell: Cell, stage: Stage, result: Any, name: str, target: Path) -> Iterator[str]:
    is_done = result.exit_code != 4
    if cell.verb == "run":
        created = stage.jobs(name)
        if created not in ([], [name]):
            yield f"created {created}"
        if is_done and not created:
            yield "an outcome without a job"
        if created and not is_done and name not in result.stderr:
            yield "the job that was created is not named"
    if cell.verb == "logs -f" and is_done:
        texts = [line.rpartition("| ")[2] for line in result.stdout.splitlines()]
        wanted = LINES
        if cell.kind == "events twice":
            texts = list(dict.fromkeys(texts))
        is_prefix = "the log is not complete" in result.stderr and texts == wanted[: len(texts)]
        if texts != wanted and not (cell.stays and is_prefix):
            yield f"lines {texts}"
    if cell.verb in ("wait", "status") and is_done and cell.truth not in result.stdout:
        yield f"another status: {result.stdout}"
    if cell.verb == "list" and is_done and name not in result.stdout:
        yield f"not listed: {result.stdout}{result.stderr}"
    if cell.verb == "stop" and is_done and not stage.front.count("StopTrainingJob"):
        yield "stopped without a call"
    if cell.verb == "download":
        model = target / "model.tar.gz"
        kept = model.read_bytes() if model.exists() else None
        if kept not in (None, MODEL) or (is_done and kept is None):
            yield f"another model: {kept!r}"
        if left := [path.name for path in target.glob("*") if path != model]:
            yield f"left behind: {left}"
