"""Read the first samples of a dataset twice, in two processes, and answer what they are."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from launcher.data.dataset_check.outline import OutlinePart, outline
from launcher.data.dataset_check.users_frames import users_traceback
from launcher.data.order.batch_plan import BatchPlan, ResumePoint, make_plan
from launcher.data.order.samples import Description
from launcher.data.order.served_code import ServedCode
from launcher.data.order.shard_passes import Parts
from launcher.data.order.shards import ShardPlan, plan_shards
from launcher.data.order.streams import StreamSpec
from launcher.data.order.verification import BatchContent
from launcher.data.sources import LocalSource
from launcher.errors import DataError
from launcher.runtime.environment import paths_here

#: Samples of the batch whose structure is shown.
_BATCH_SIZE = 8
#: Lines of the stack of a dataset that hangs.
_STACK_LIMIT = 12


@dataclass(frozen=True, kw_only=True)
class CheckRequest:
    """A request to read the first `samples` of a dataset, for `seconds` at most.

    patience: seconds after which a dataset that does not answer has hung.
    served: the datasets that the job lists. output: the file for the answer.
    """

    dataset: str
    samples: int
    seconds: float
    patience: float
    served: list[str]
    entry_point: str | None
    output: str


@dataclass(kw_only=True)
class CheckAnswer:
    """The findings about a dataset, as far as it was read.

    length: None if unknown. batch: the parts of the first one. not_collated: why samples do not
    make a batch. samples: how many were read, in so many seconds. compared: samples that were
    prepared again. differs: how one of them differed, and its index. problem: what went wrong, with
    the user's traceback on the lines below.
    """

    length: int | None = None
    iterable: bool = False
    batch: list[str] = field(default_factory=list)
    batch_size: int = 0
    not_collated: str = ""
    samples: int = 0
    seconds: float = 0.0
    compared: int = 0
    index: int | None = None
    differs: str = ""
    problem: str = ""


def main(request: str, *, again: bool) -> int:
    """Read the dataset of a request, write the answer and return the exit code."""
    asked = CheckRequest(**json.loads(request))
    paths = paths_here()
    os.chdir(paths.code)
    script = paths.code / (asked.entry_point or "train.py")
    # After our own folder, which a user's launcher.py must not hide.
    sys.path[:1] = [os.environ["PYTHONPATH"].split(os.pathsep)[0], str(paths.code)]
    sys.path.insert(2, str(script.parent))
    check = DatasetCheck(asked)
    if again:
        answer: object = [vars(content) for content in check.prepare_again()]
    else:
        answer = dataclasses.asdict(check.answer())
    Path(asked.output).write_text(json.dumps(answer))
    return 0


class DatasetCheck:
    """One dataset that is read in this process, as a loader reads it."""

    def __init__(self, request: CheckRequest) -> None:
        self._request = request
        self._source = LocalSource()
        self._contents: list[BatchContent] = []
        self._parts: list[OutlinePart] = []  # of the latest sample
        self._answer = CheckAnswer()

    def answer(self) -> CheckAnswer:
        """Read the samples, have them prepared again, and return what was found."""
        watch = threading.Timer(self._request.patience, self._end_hanging)
        watch.daemon = True
        watch.start()
        try:
            self._read()
            watch.cancel()
            if self._contents:
                self._compare()
        except DataError as error:
            self._answer.problem = _users_text(str(error))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's `__len__`, say
            what = f"{self._request.dataset} raised {error!r}"
            self._answer.problem = _users_text(f"{what}\n{traceback.format_exc()}")
        watch.cancel()
        return self._answer

    def prepare_again(self) -> list[BatchContent]:
        """Prepare the samples once more; those of a map-style dataset from the last one on."""
        described, count = self._described(), self._request.samples
        plan = self._plan(described, None)
        if isinstance(plan, ShardPlan):
            parts = itertools.islice(self._batches(plan), count)
            return [BatchContent.take(*each, 1) for each in parts]
        found = [
            BatchContent.take(*self._source.load(plan, step), 1) for step in reversed(range(count))
        ]
        return found[::-1]

    # ---------------------------------------------------------------------------------------

    def _described(self) -> Description:
        request = self._request
        code = paths_here().code
        served = ServedCode(request.served, code=code, entry_point=request.entry_point)
        served.check_dataset(request.dataset)
        return self._source.describe(request.dataset)

    def _plan(self, described: Description, batch_size: int | None) -> BatchPlan | ShardPlan:
        name = self._request.dataset
        spec = StreamSpec(name=name, dataset=name, batch_size=batch_size, verify=0)
        start = ResumePoint(epoch=0)
        if described.iterable:
            return plan_shards(spec, described.length, start, rank=0, world=1)
        return make_plan(spec, described.length or 0, start, rank=0, world=1)

    def _read(self) -> None:
        answer, request = self._answer, self._request
        described = self._described()
        answer.length, answer.iterable = described.length, described.iterable
        if described.length == 0 and not described.iterable:
            raise DataError(f"{request.dataset} has no samples: its __len__ returned 0")
        self._read_batch(described)
        first = 0.0
        batches = _timed(self._batches(self._plan(described, None)))
        for parts, seconds in itertools.islice(batches, request.samples):
            self._contents.append(BatchContent.take(*parts, 1))
            self._parts = list(outline(*parts))
            answer.samples += 1
            answer.seconds += seconds
            first = first or seconds
            if answer.seconds > request.seconds:
                break
        if answer.samples == 0:
            raise DataError(f"{request.dataset} has no samples: its __iter__ yielded none")
        if answer.iterable and answer.samples > 1:  # the first waits for the dataset to be built
            answer.seconds *= answer.samples / (answer.samples - 1) * (1 - first / answer.seconds)

    def _read_batch(self, described: Description) -> None:
        """Read one batch, or if samples do not make one, a sample."""
        size: int | None = min(_BATCH_SIZE, self._request.samples)
        for batch_size in (size, None):
            batches = self._batches(self._plan(described, batch_size))
            try:
                tree, arrays = next(batches, (None, []))
            except DataError as error:
                if batch_size is None or type(error) is not DataError:
                    raise
                self._answer.not_collated = str(error).partition("\n")[0]
                continue
            finally:
                batches.close()
            self._answer.batch = list(map(str, outline(tree, arrays)))
            self._answer.batch_size = batch_size or 1
            return

    def _batches(self, plan: BatchPlan | ShardPlan) -> Generator[Parts, None, None]:
        """Yield the batches of a plan, disassembled as a data host sends them."""
        if isinstance(plan, ShardPlan):
            with contextlib.closing(self._source.batches(plan)) as batches:
                for _, parts in batches:
                    yield parts
        else:
            for step in range(plan.steps):
                yield self._source.load(plan, step)

    # What another process prepares ------------------------------------------------------------

    def _compare(self) -> None:
        """Have the samples prepared by another process, and note the first difference."""
        path = Path(f"{self._request.output}.again")
        request = dataclasses.replace(self._request, samples=len(self._contents), output=str(path))
        try:
            run = subprocess.run(
                [sys.executable, "-m", __package__, "again"],
                input=json.dumps(dataclasses.asdict(request)),
                cwd="/",  # a module in the user's folder must not hide one of Python's
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=request.patience,
                check=False,
            )
        except subprocess.TimeoutExpired:
            self._answer.differs = f"another process had not read it after {request.patience:g} s"
            return
        if not path.exists():
            why = (run.stdout.strip().splitlines() or [f"exit code {run.returncode}"])[-1]
            self._answer.differs = f"it could be read once, but not in another process: {why}"
            return
        others = [BatchContent(**each) for each in json.loads(path.read_text())]
        self._answer.compared = len(others)
        if len(others) != len(self._contents):
            self._answer.differs = f"it ended after {len(others)} samples when it was read again"
        for index, (one, other) in enumerate(zip(self._contents, others, strict=False)):
            if difference := one.difference(other, [index]):
                self._answer.index = index
                self._answer.differs = self._named(one, other) or difference
                return

    def _named(self, one: BatchContent, other: BatchContent) -> str:
        """Return the names of the parts that differ; "" if they are not arrays of one shape."""
        if one.arrays != other.arrays:
            return ""
        pairs = enumerate(zip(one.rows, other.rows, strict=True))
        numbers = {number for number, (mine, others) in pairs if mine != others}
        return ", ".join(str(part) for part in self._parts if part.array in numbers)

    def _end_hanging(self) -> None:
        """End this process with the stack of its main thread as the answer."""
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        stack = "".join(traceback.format_stack(frame)[-_STACK_LIMIT:])
        patience = self._request.patience
        what = f"{self._request.dataset} did not answer within {patience:g} s; it was here"
        self._answer.problem = _users_text(f"{what}\n{stack}")
        Path(self._request.output).write_text(json.dumps(dataclasses.asdict(self._answer)))
        os._exit(0)


def _timed(batches: Iterator[Parts]) -> Iterator[tuple[Parts, float]]:
    """Yield each batch with the seconds that it took."""
    while True:
        begin = time.perf_counter()
        if (parts := next(batches, None)) is None:
            return
        yield parts, time.perf_counter() - begin


def _users_text(text: str) -> str:
    """Return the first line of an error, and the user's part of the traceback below it."""
    first, _, rest = text.partition("\n")
    return f"{first}\n{users_traceback(rest)}".strip()
