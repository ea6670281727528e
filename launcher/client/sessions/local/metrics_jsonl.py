"""The values of a job's metrics in the order in which its logs had them: metrics.jsonl.

One JSON object per line, a RecordedMetric. The platform process appends; any process reads.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterable
from typing import Any, cast

from launcher.client.sessions.local.job.job_description import RecordedMetric
from launcher.client.sessions.local.job.job_folder import JobFolder

#: Largest amount read at once; a reader calls again for more.
_CHUNK_BYTES = 1 << 22


def append_metrics(folder: JobFolder, metrics: Iterable[RecordedMetric]) -> None:
    """Append values; if the disk does not take them, the job continues and they are lost."""
    lines = "".join(f"{json.dumps(metric)}\n" for metric in metrics)
    with contextlib.suppress(OSError), folder.metrics.open("a") as file:
        file.write(lines)


def read_metrics(folder: JobFolder, position: int = 0) -> tuple[list[RecordedMetric], int]:
    """Return complete values after a byte position, and the position after them.

    Values that are no finite numbers are left out, as CloudWatch has none of them.
    """
    try:
        with folder.metrics.open("rb") as file:
            file.seek(position)
            chunk = file.read(_CHUNK_BYTES)
    except FileNotFoundError:  # a job without metrics so far, or an older one
        return [], position
    complete = chunk[: chunk.rfind(b"\n") + 1]
    values = [value for line in complete.splitlines() if (value := _value_of(line)) is not None]
    return values, position + len(complete)


def _value_of(line: bytes) -> RecordedMetric | None:
    """Return the value of a line; None for one that a full disk has cut short."""
    try:
        metric: Any = json.loads(line)
        is_usable = math.isfinite(metric["Value"]) and math.isfinite(metric["Timestamp"])
    except (ValueError, TypeError, KeyError):
        return None
    return cast("RecordedMetric", metric) if is_usable else None
