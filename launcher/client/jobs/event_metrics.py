"""The metrics in Launcher's own events: the use of hosts, training and data. Pure.

Names are "<part>/<figure>", which TensorBoard and MLflow show by part:

    host/cpu  host/gpu                             share in use, 0 to 1, over all CPUs or GPUs
    host/memory_bytes  host/gpu_memory_bytes       in use
    host/received_bytes_per_second  host/sent_bytes_per_second
    train/loss  train/samples_per_second           of a rank of a task
    train/data_wait_seconds                        per step
    validation/<metric>                            means over all ranks
    data/steps_per_second  data/wait_share         of the first rank, in its epoch so far
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from launcher.shared import FIELD_ERRORS

_Fields = Mapping[str, Any]
_Figures = Iterator[tuple[str, float]]

#: The figures of host_usage and train_step, by metric.
_HOST = {
    "host/cpu": "cpu",
    "host/memory_bytes": "memory_bytes",
    "host/gpu": "gpu",
    "host/gpu_memory_bytes": "gpu_memory_bytes",
    "host/received_bytes_per_second": "received_bytes_per_second",
    "host/sent_bytes_per_second": "sent_bytes_per_second",
}
_TRAIN = {
    "train/loss": "loss",
    "train/samples_per_second": "samples_per_second",
    "train/data_wait_seconds": "data_wait",
}
_VALIDATION = "validation_"


def event_metrics(name: str, fields: _Fields) -> dict[str, float]:
    """Return the figures in an event, by metric; none for an event without figures."""
    read = _READERS.get(name)
    try:
        return {} if read is None else dict(read(fields))
    except FIELD_ERRORS:
        return {}  # written by another version


def event_step(name: str, fields: _Fields) -> int | None:
    """Return the training step that an event's figures are of; None where it counts none."""
    step = fields.get("step") if name in ("train_step", "evaluation") else None
    return step if isinstance(step, int) else None


def _host_usage(fields: _Fields) -> _Figures:
    return _named(_HOST, fields)


def _train_step(fields: _Fields) -> _Figures:
    return _named(_TRAIN, fields)


def _named(names: Mapping[str, str], fields: _Fields) -> _Figures:
    for metric, name in names.items():
        if name in fields:
            yield metric, float(fields[name])


def _evaluation(fields: _Fields) -> _Figures:
    for name, value in fields.items():
        if name.startswith(_VALIDATION):
            yield f"validation/{name.removeprefix(_VALIDATION)}", float(value)


def _data_progress(fields: _Fields) -> _Figures:
    seconds = float(fields["total_seconds"])
    figures = {
        "data/steps_per_second": float(fields["step"]) / seconds,
        "data/wait_share": float(fields["wait_seconds"]) / seconds,
    }
    yield from ((metric, value) for metric, value in figures.items() if math.isfinite(value))


_READERS: Mapping[str, Callable[[_Fields], _Figures]] = {
    "host_usage": _host_usage,
    "train_step": _train_step,
    "evaluation": _evaluation,
    "data_progress": _data_progress,
}
