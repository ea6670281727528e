"""Read the first samples of a dataset twice, in two processes, and answer what they are."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import launcher
from launcher.data.batches import Array, Tree
from launcher.data.dataset_check.check_request import CheckAnswer, CheckRequest
from launcher.data.dataset_check.checked_stream import CheckedStream
from launcher.data.order import BatchContent
from launcher.errors import DataError
from launcher.runtime import paths_here
from launcher.shared import enter

_T = TypeVar("_T")
#: Lines of the stack of a dataset that hangs.
_STACK_LIMIT = 12


def main(request: str, kind: type[DatasetCheck], *, again: bool) -> int:
    """Read the dataset of a request, write the answer and return the exit code."""
    asked = CheckRequest(**json.loads(request))
    paths = paths_here()
    script = paths.code / (asked.entry_point or "train.py")
    enter(str(paths.code), str(script.parent))
    check = kind(asked)
    answer = check.prepare_again() if again else dataclasses.asdict(check.answer())
    Path(asked.output).write_text(json.dumps(answer))
    return 0


class DatasetCheck:
    """One dataset that is read in this process, as a loader reads it."""

    def __init__(self, request: CheckRequest) -> None:
        self.request = request
        self._contents: dict[str, BatchContent] = {}  # of samples, by their places
        self._batch: BatchContent | None = None  # of a collate_fn
        self._orders: dict[str, str] = {}
        self._parts: list[OutlinePart] = []  # of the latest sample
        self.found = CheckAnswer()

    def answer(self) -> CheckAnswer:
        """Read the samples, have them prepared again, and return what was found."""
        watch = threading.Timer(self.request.patience, self._end_hanging)
        watch.daemon = True
        watch.start()
        try:
            self.read()
            watch.cancel()
            if self._contents:
                self._compare()
        except DataError as error:
            self.found.problem = _users_text(str(error))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's `__len__`, say
            what = f"{self.request.dataset} raised {error!r}"
            self.found.problem = _users_text(f"{what}\n{traceback.format_exc()}")
        watch.cancel()
        return self.found

    def prepare_again(self) -> dict[str, Any]:
        """Prepare everything once more: contents of samples and first batch, and orders."""
        stream = CheckedStream(self.request)
        return {
            "samples": [vars(each) for each in stream.samples_again(self.request.samples)],
            "batch": vars(_batch_of(stream)) if stream.collate_fn else None,
            "orders": stream.orders(),
        }

    def read(self) -> None:
        """Read what was asked for, into `found`."""
        stream = self.open()
        self._read_batch(stream)
        self._orders = stream.orders()
        self.found.orders = list(self._orders)
        self._read_samples(stream)
        self.refuse_empty()

    def open(self) -> CheckedStream:
        """Build the dataset and note what it is; raise DataError if its length is 0."""
        stream = CheckedStream(self.request)
        described, self.found.shards = stream.described, stream.shards
        self.found.length, self.found.iterable = described.length, described.iterable
        if described.length == 0 and not described.iterable:
            raise DataError(f"{self.request.dataset} has no samples: its __len__ returned 0")
        return stream

    def refuse_empty(self) -> None:
        """Raise DataError for a dataset that has ended without a sample."""
        if self.found.samples == 0:
            raise DataError(f"{self.request.dataset} has no samples: its __iter__ yielded none")

    @contextlib.contextmanager
    def noting_not_collated(
        self, stream: CheckedStream, batches: Sequence[object] = ()
    ) -> Iterator[None]:
        """Note why samples do not make a batch, where the default makes it and has made none."""
        try:
            yield
        except DataError as error:
            is_default = not stream.collate_fn and stream.batch_size is not None
            if batches or not is_default or type(error) is not DataError:
                raise
            self.found.not_collated = str(error).partition("\n")[0]

    # ---------------------------------------------------------------------------------------

    def _read_samples(self, stream: CheckedStream) -> None:
        answer, request = self.found, self.request
        opening = 0.0  # seconds until the first sample of each shard, which waits for its dataset
        with contextlib.closing(stream.samples()) as samples:
            for (place, parts), _, seconds in timed(samples):
                self._contents[place] = BatchContent.take(*parts, 1)
                self._parts = list(outline(*parts))
                answer.samples += 1
                answer.seconds += seconds
                opening += seconds if answer.samples <= stream.shards else 0
                if answer.samples < stream.shards:
                    continue
                if answer.samples >= request.samples or answer.seconds > request.seconds:
                    break
        rest = answer.samples - stream.shards
        if answer.iterable and rest > 0:
            answer.seconds = (answer.seconds - opening) * answer.samples / rest

    def _read_batch(self, stream: CheckedStream) -> None:
        """Read one batch, or if samples do not make one, a sample."""
        with self.noting_not_collated(stream):
            parts = stream.first_batch()
            self.found.batch_size = stream.batch_size or 1
        if self.found.not_collated:
            parts = stream.first_batch(collated=False)
            self.found.batch_size = 1
        self.found.batch = list(map(str, outline(*parts)))
        if stream.collate_fn:
            self.found.collated_by = stream.collate_fn
            self._batch = BatchContent.take(*parts, 1)

    # What another process prepares ------------------------------------------------------------

    def _compare(self) -> None:
        """Have everything prepared by another process, and note the first difference."""
        path = Path(f"{self.request.output}.again")
        request = dataclasses.replace(self.request, samples=len(self._contents), output=str(path))
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
            self.found.differs = f"another process had not read it after {request.patience:g} s"
            return
        if not path.exists():
            why = (run.stdout.strip().splitlines() or [f"exit code {run.returncode}"])[-1]
            self.found.differs = f"it could be read once, but not in another process: {why}"
            return
        again = json.loads(path.read_text())
        others = [BatchContent(**each) for each in again["samples"]]
        self.found.compared = len(others)
        batch = again["batch"] and BatchContent(**again["batch"])
        self.found.differs = (
            self._difference_of_samples(others)
            or self._difference_of_orders(again["orders"])
            or self._difference_of_batch(batch)
        )

    def _difference_of_samples(self, others: list[BatchContent]) -> str:
        for (place, one), other in zip(self._contents.items(), others, strict=False):
            if difference := one.difference(other, [0]):
                return f"{place} differs in {self._named(one, other) or difference}"
        if len(others) != len(self._contents):
            return f"it ended after {len(others)} samples when it was read again"
        return ""

    def _difference_of_orders(self, others: dict[str, str]) -> str:
        for order, digest in self._orders.items():
            if others.get(order) != digest:
                return f"{order} here, and another order there"
        return ""

    def _difference_of_batch(self, other: BatchContent | None) -> str:
        if self._batch is None or other is None:
            return ""
        difference = self._batch.difference(other, [])
        return difference and f"the batch that {self.found.collated_by} makes: {difference}"

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
        patience = self.request.patience
        what = f"{self.request.dataset} did not answer within {patience:g} s; it was here"
        self.found.problem = _users_text(f"{what}\n{stack}")
        Path(self.request.output).write_text(json.dumps(dataclasses.asdict(self.found)))
        os._exit(0)


def _batch_of(stream: CheckedStream) -> BatchContent:
    return BatchContent.take(*stream.first_batch(), 1)


def timed(items: Iterator[_T]) -> Iterator[tuple[_T, float, float]]:
    """Yield each item with this process's CPU seconds, in all threads, and seconds that it took."""
    while True:
        cpu, begin = time.process_time(), time.perf_counter()
        try:
            item = next(items)
        except StopIteration:
            return
        yield item, time.process_time() - cpu, time.perf_counter() - begin


def _users_text(text: str) -> str:
    """Return the first line of an error, and the user's part of the traceback below it."""
    first, _, rest = text.partition("\n")
    return f"{first}\n{users_traceback(rest)}".strip()


_FRAME = re.compile(r'^  File "([^"]*)", line \d+.*\n(?:    .*\n|  \[Previous line .*\n)*', re.M)
_OURS = str(Path(launcher.__file__).parent)


def users_traceback(text: str) -> str:
    r"""Return a traceback without frames of ours; "" if none is the user's.

    >>> users_traceback('Traceback:\n  File "<frozen importlib>", line 3, in f\nKeyError: 1\n')
    ''
    """
    text = text if text.endswith("\n") else f"{text}\n"
    kept = _FRAME.sub(lambda found: "" if _is_ours(found.group(1)) else found.group(), text)
    return kept.strip() if _FRAME.search(kept) else ""


def _is_ours(file: str) -> bool:
    return file.startswith((_OURS, "<frozen importlib", "<frozen runpy"))


#: Parts of a list or tuple that are outlined one by one; longer ones by their first.
_MAX_PARTS = 8


@dataclass(frozen=True, kw_only=True)
class OutlinePart:
    """One part of a batch.

    name: where it is, like "image" or "boxes[0]"; "" for a batch of one part.
    kind: its type, with its shape. array: its number among the batch's arrays, None for others.
    """

    name: str
    kind: str
    array: int | None = None

    def __str__(self) -> str:
        return f"{self.name} {self.kind}".strip()


def outline(tree: Tree, arrays: Sequence[Array], name: str = "") -> Iterator[OutlinePart]:
    """Yield the parts of a batch that was disassembled."""
    match tree:
        case ["array" | "tensor" | "scalar", int(number), *stored_as]:
            kind = stored_as[0] if stored_as else arrays[number].dtype
            shape = f" {arrays[number].shape}" if tree[0] != "scalar" else ""
            yield OutlinePart(name=name, kind=f"{kind}{shape}", array=number)
        case ["bytes" | "text", int(number)]:
            kind = f"{'bytes' if tree[0] == 'bytes' else 'str'} of length {arrays[number].size}"
            yield OutlinePart(name=name, kind=kind, array=number)
        case ["list" | "tuple", *parts]:
            yield from _sequence(tree[0], parts, arrays, name)
        case ["dict", *pairs]:
            for key, part in zip(pairs[::2], pairs[1::2], strict=True):
                yield from outline(part, arrays, _joined(name, _key(key)))
        case ["class", str(), list(fields), *parts]:
            for field, part in zip(fields, parts, strict=True):
                yield from outline(part, arrays, _joined(name, str(field)))
        case ["enum", str(reference), *_]:
            yield OutlinePart(name=name, kind=reference.partition(":")[2])
        case ["codec", str(codec), content]:
            for part in outline(content, arrays, name):
                yield OutlinePart(
                    name=part.name, kind=f"{codec} with {part.kind}", array=part.array
                )
        case ["int" | "complex", *_]:
            yield OutlinePart(name=name, kind=tree[0])
        case _:
            yield OutlinePart(name=name, kind="None" if tree is None else type(tree).__name__)


def _sequence(
    kind: str, parts: list[Any], arrays: Sequence[Array], name: str
) -> Iterator[OutlinePart]:
    if not parts:
        yield OutlinePart(name=name, kind=f"empty {kind}")
    elif len(parts) <= _MAX_PARTS and any(isinstance(part, list) for part in parts):
        for index, part in enumerate(parts):
            yield from outline(part, arrays, f"{name}[{index}]")
    else:
        for part in outline(parts[0], arrays, name):
            yield OutlinePart(name=part.name, kind=f"{kind} of {len(parts)}, each {part.kind}")


def _key(tree: Tree) -> str:
    return "key" if isinstance(tree, list) else str(tree)


def _joined(name: str, part: str) -> str:
    return f"{name}.{part}" if name else part
