"""Read a workload from YAML, with every problem of the file at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from launcher.client.catalogue import accelerator_kinds, instance_types
from launcher.client.planning.plans.step_model import family
from launcher.client.planning.workloads.model_reader import read_model
from launcher.client.planning.workloads.workload import Measure
from launcher.client.spec import read_plain
from launcher.errors import FieldPath, Problem, SpecError
from launcher.shared import did_you_mean, shown

_REQUIRED = ("batch_size", "cpu_seconds_per_sample", "bytes_per_batch", "gpu_seconds_per_step")
#: What `launcher plan measure` found beside the workload's fields; nothing is computed from it.
_RECORD = "measured"
_MEASURE = ("mean", "low", "high", "deviation")
_EXAMPLES = {"gpu_seconds_per_step": "{NVIDIA A10G: 0.45}"}
#: Beyond it, products of what a workload has are no floats.
_LARGEST = 1e18
_UNREAD: Any = object()


def read_workload_file(path: Path, fields: Sequence[str]) -> dict[str, Any]:
    """Return the values of a workload's fields; docs/guides/planning.md describes them.

    fields: the names of all.

    Raises SpecError with every problem: what is wrong, in which line, and how to mend it.
    """
    try:
        document = read_plain(path)
    except OSError as error:
        what = f"{path} cannot be read: {error.strerror}"
        fix = "write its fields as docs/guides/planning.md shows"
        raise SpecError([Problem(what=what, where=str(path), fix=fix)]) from error
    reader = _WorkloadReader(list(document.problems), fields)
    workload = reader.read(document.value)
    if workload is None:
        reader.problems.sort(key=lambda problem: document.places.line(problem.path))
        raise SpecError(each.located(document.places.where) for each in reader.problems)
    return workload


class _WorkloadReader:
    """Converts plain values to a workload, and collects what is wrong with them."""

    def __init__(self, problems: list[Problem], fields: Sequence[str]) -> None:
        self.problems = problems
        self._fields = fields

    def read(self, values: object) -> dict[str, Any] | None:
        """Return the values by field; None if a problem was found."""
        if not isinstance(values, Mapping):
            self._reject((), "the document describes no workload", f"write {', '.join(_REQUIRED)}")
            return None
        self._check_keys(values)
        read = {
            name: self._field(name, value)
            for name, value in values.items()
            if name in self._fields and value is not None
        }
        return None if self.problems else read

    def _check_keys(self, values: Mapping[Any, Any]) -> None:
        meant = set()
        for key in values:
            if key not in (*self._fields, _RECORD):
                near = did_you_mean(str(key), (name for name in self._fields if name not in values))
                meant.add(near)
                fix = (
                    f'did you mean "{near}"?'
                    if near
                    else f"known fields: {', '.join(self._fields)}"
                )
                self._reject((str(key),), f"{shown(key)} is not a field of a workload", fix)
        for name in _REQUIRED:
            if values.get(name) is None and name not in meant:
                value = _EXAMPLES.get(name, "...")
                self._reject((name,), f'"{name}" is missing', f'write "{name}: {value}"')

    def _field(self, name: str, value: object) -> Any:
        readers: Mapping[str, Callable[[FieldPath, Any], Any]] = {
            "batch_size": self._count,
            "samples_per_epoch": self._count,
            "epochs": self._count,
            "cpu_seconds_per_sample": self._measure,
            "wait_seconds_per_sample": self._measure,
            "communication_seconds_per_step": self._measure,
            "gpu_seconds_per_step": self._accelerators,
            "cpu_speed": self._speeds,
            "bytes_per_batch": self._amount,
            "bytes_per_worker": self._amount,
            "cpus_per_rank": self._amount,
            "parallel_efficiency": self._efficiency,
            "entry_point": self._text,
            "datasets": self._texts,
            "model": self._model,
        }
        return readers[name]((name,), value)

    def _count(self, path: FieldPath, value: object) -> Any:
        if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
            if value <= _LARGEST:
                return value
            return self._reject_size(path, value)
        return self._reject(path, f"{shown(value)} is not a whole number above 0", "write one")

    def _reject_size(self, path: FieldPath, value: object) -> Any:
        return self._reject(path, f"{shown(value)} is out of range", f"write {_LARGEST:g} at most")

    def _amount(self, path: FieldPath, value: object, *, is_zero_allowed: bool = True) -> Any:
        least = "0 or more" if is_zero_allowed else "more than 0"
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            if value > _LARGEST:
                return self._reject_size(path, value)
            if value > 0 or (is_zero_allowed and value == 0):
                return float(value)
            return self._reject(path, f"{shown(value)} is out of range", f"write {least}")
        return self._reject(path, f"{shown(value)} is not a number", f"write a number, {least}")

    def _efficiency(self, path: FieldPath, value: object) -> Any:
        amount = self._amount(path, value, is_zero_allowed=False)
        if amount is not _UNREAD and amount > 1:
            return self._reject(
                path, f"{shown(value)} is more than all of a vCPU", "write 1 or less"
            )
        return amount

    def _measure(self, path: FieldPath, value: object) -> Any:
        if not isinstance(value, Mapping):
            amount = self._amount(path, value)
            return _UNREAD if amount is _UNREAD else Measure.exact(amount)
        for key in value:
            if key not in _MEASURE:
                fix = f"known fields: {', '.join(_MEASURE)}"
                self._reject((*path, str(key)), f"{shown(key)} is not a part of a measure", fix)
        if "mean" not in value:
            return self._reject(path, '"mean" is missing', "write {mean: ..., low: ..., high: ...}")
        parts = {key: self._amount((*path, key), value[key]) for key in _MEASURE if key in value}
        if _UNREAD in parts.values():
            return _UNREAD
        measure = Measure(**{"low": parts["mean"], "high": parts["mean"], **parts})
        if not measure.low <= measure.mean <= measure.high:
            what = f"the mean {measure.mean:g} is not between {measure.low:g} and {measure.high:g}"
            return self._reject(path, what, "write the range of the mean, not that of samples")
        return measure

    def _accelerators(self, path: FieldPath, value: object) -> Any:
        if not isinstance(value, Mapping) or not value:
            what = f"{shown(value)} names no accelerator"
            return self._reject(
                path, what, 'write the seconds by accelerator: {"NVIDIA A100": 0.086}'
            )
        known = _accelerator_names()
        for name in value:
            if name not in known:
                near = did_you_mean(str(name), known) or _with_maker(str(name), known)
                fix = f'did you mean "{near}"?' if near else f"one of {', '.join(sorted(known))}"
                self._reject((*path, str(name)), f"{shown(name)} is no accelerator", fix)
        return {str(name): self._step((*path, str(name)), each) for name, each in value.items()}

    def _step(self, path: FieldPath, value: object) -> Any:
        seconds = self._measure(path, value)
        if seconds is not _UNREAD and not seconds.mean:
            return self._reject(path, f"{shown(value)} is out of range", "write more than 0")
        return seconds

    def _speeds(self, path: FieldPath, value: object) -> Any:
        if not isinstance(value, Mapping):
            fix = "write the speed by family: {c5: 1, c6i: 1.2}"
            return self._reject(path, f"{shown(value)} is not a mapping", fix)
        known = {family(each) for each in instance_types().values()}
        for name in value:
            if name not in known:
                near = did_you_mean(str(name), known)
                fix = f'did you mean "{near}"?' if near else "use one such as c5 of ml.c5.xlarge"
                self._reject((*path, str(name)), f"{shown(name)} is no instance family", fix)
        return {
            str(name): self._amount((*path, str(name)), each, is_zero_allowed=False)
            for name, each in value.items()
        }

    def _model(self, path: FieldPath, value: object) -> Any:
        figures, problems = read_model(path, value)
        self.problems += problems
        return _UNREAD if problems else figures

    def _text(self, path: FieldPath, value: object) -> Any:
        if isinstance(value, str):
            return value
        return self._reject(path, f"{shown(value)} is not text", f'write "{value}"')

    def _texts(self, path: FieldPath, value: object) -> Any:
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return tuple(value)
        return self._reject(
            path, f"{shown(value)} is not a list of texts", "write [module:function]"
        )

    def _reject(self, path: FieldPath, what: str, fix: str) -> Any:
        self.problems.append(Problem(path=path, what=what, fix=fix))
        return _UNREAD


def _accelerator_names() -> set[str]:
    of_types = (each.accelerator_name for each in instance_types().values())
    return {*accelerator_kinds(), *(name for name in of_types if name)}


def _with_maker(name: str, known: set[str]) -> str | None:
    """Return the known accelerator that ends with a name, such as "NVIDIA A100" for "A100"."""
    return next((each for each in sorted(known) if each.lower().endswith(f" {name.lower()}")), None)
