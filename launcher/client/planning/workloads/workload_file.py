"""Read a workload from YAML, by the types of its fields and with every problem at once."""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.client.catalogue import accelerator_kinds, instance_types
from launcher.client.planning.plans.amounts import Measure
from launcher.client.planning.plans.parallel_strategy import ModelFigures
from launcher.client.planning.plans.step_model import family
from launcher.client.spec import read_plain
from launcher.errors import FieldPath, Problem, SpecError
from launcher.shared import PRECISIONS, Activations, Footprint, did_you_mean, shown

if TYPE_CHECKING:
    from launcher.client.planning.workloads.workload import Workload

#: What `launcher plan measure` found beside the workload's fields; nothing is computed from it.
_RECORD = "measured"
_MEASURE = ("mean", "low", "high", "deviation")
_EXAMPLES = {"gpu_seconds_per_step": "{NVIDIA A10G: 0.45}"}
#: Beyond it, products of what a workload has are no floats.
_LARGEST = 1e18
_UNREAD: Any = object()

#: The fields of a model, in bytes but for the last four.
_NEEDED = ("parameters", "optimizer")
_BYTES = (*_NEEDED, "gradients", "largest_block", "outside_blocks", "stage_output")
_TEXTS = ("blocks", "precision")
_SWITCHES = ("batch_norm", "is_recomputed")
_ACTIVATIONS = ("sample", "fixed")
#: By name in the file: whether forward passes are in 16 bits, and whether blocks are recomputed.
SETTINGS = {
    "full": (False, False),
    "bf16": (True, False),
    "recomputed": (False, True),
    "bf16_recomputed": (True, True),
}


def read_workload_file(declared: type[Workload], path: Path) -> dict[str, Any]:
    """Return the values of a workload's declared fields; docs/reference/planner.md describes them.

    Raises SpecError with every problem: what is wrong, in which line, and how to mend it.
    """
    try:
        document = read_plain(path)
    except OSError as error:
        what = f"{path} cannot be read: {error.strerror}"
        fix = "write its fields as docs/reference/planner.md shows"
        raise SpecError([Problem(what=what, where=str(path), fix=fix)]) from error
    reader = _WorkloadReader(declared, list(document.problems))
    workload = reader.read(document.value)
    if reader.problems:
        reader.problems.sort(key=lambda problem: document.places.line(problem.path))
        raise SpecError(each.located(document.places.where) for each in reader.problems)
    return workload


class _WorkloadReader:
    """Converts plain values to those of a workload's fields, and collects what is wrong."""

    def __init__(self, declared: type[Workload], problems: list[Problem]) -> None:
        self.problems = problems
        self._types = typing.get_type_hints(declared)
        self._fields = [part.name for part in dataclasses.fields(declared)]
        self._required = [
            part.name
            for part in dataclasses.fields(declared)
            if part.default is part.default_factory is dataclasses.MISSING
        ]
        #: What reads a field of each type.
        self._readers: dict[Any, Callable[[FieldPath, Any], Any]] = {
            int: self._count,
            int | None: self._count,
            float: self._amount,
            Measure: self._measure,
            Measure | None: self._measure,
            Mapping[str, Measure]: self._accelerators,
            Mapping[str, float]: self._speeds,
            str: self._text,
            tuple[str, ...]: self._texts,
            ModelFigures | None: self._model,
        }

    def read(self, values: object) -> dict[str, Any]:
        """Return the values by field, without those in which a problem was found."""
        if not isinstance(values, Mapping):
            fix = f"write {', '.join(self._required)}"
            self._reject((), "the document describes no workload", fix)
            return {}
        self._check_keys(values)
        return {
            name: self._field(name, value)
            for name, value in values.items()
            if name in self._fields and value is not None
        }

    def _check_keys(self, values: Mapping[Any, Any]) -> None:
        unused = [name for name in self._fields if name not in values]
        known = f"known fields: {', '.join(self._fields)}"
        meant = {
            self._unknown((), key, "not a field of a workload", unused, known)
            for key in values
            if key not in (*self._fields, _RECORD)
        }
        for name in self._required:
            if values.get(name) is None and name not in meant:
                self._missing((name,), _EXAMPLES.get(name, "..."))

    def _field(self, name: str, value: object) -> Any:
        is_share = name == "parallel_efficiency"
        reader = self._efficiency if is_share else self._readers[self._types[name]]
        return 0 if (name, value) == ("workers_per_rank", 0) else reader((name,), value)

    def _count(self, path: FieldPath, value: object) -> Any:
        if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
            return value if value <= _LARGEST else self._reject_size(path, value)
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
            what = f"{shown(value)} is more than all of a vCPU"
            return self._reject(path, what, "write 1 or less")
        return amount

    def _measure(self, path: FieldPath, value: object) -> Any:
        if not isinstance(value, Mapping):
            amount = self._amount(path, value)
            return _UNREAD if amount is _UNREAD else Measure.exact(amount)
        for key in value:
            if key not in _MEASURE:
                known = f"known fields: {', '.join(_MEASURE)}"
                self._unknown(path, key, "not a part of a measure", (), known)
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
            fix = 'write the seconds by accelerator: {"NVIDIA A100": 0.086}'
            return self._reject(path, what, fix)
        known = _accelerator_names()
        listed = f"one of {', '.join(sorted(known))}"
        for name in value:
            if name not in known:
                self._unknown(path, name, "no accelerator", known, listed)
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
                example = "use one such as c5 of ml.c5.xlarge"
                self._unknown(path, name, "no instance family", known, example)
        return {
            str(name): self._amount((*path, str(name)), each, is_zero_allowed=False)
            for name, each in value.items()
        }

    def _text(self, path: FieldPath, value: object) -> Any:
        if isinstance(value, str):
            return value
        return self._reject(path, f"{shown(value)} is not text", f'write "{value}"')

    def _texts(self, path: FieldPath, value: object) -> Any:
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return tuple(value)
        what = f"{shown(value)} is not a list of texts"
        return self._reject(path, what, "write [module:function]")

    def _model(self, path: FieldPath, value: object) -> Any:
        if not isinstance(value, Mapping):
            what = f"{shown(value)} does not describe a model"
            return self._reject(path, what, f"write {', '.join(_NEEDED)}, in bytes")
        before = len(self.problems)
        self._parts(path, value, (*_BYTES, "activations", *_TEXTS, *_SWITCHES))
        for name in _NEEDED:
            if value.get(name) is None:
                self._missing((*path, name), "...")
        self._bytes(path, value, _BYTES)
        self._activations((*path, "activations"), value.get("activations") or {})
        self._all_are(path, value, _TEXTS, str, "text", "the name of a module list, or bf16")
        precision = value.get("precision")
        if isinstance(precision, str) and precision not in PRECISIONS:
            self._not((*path, "precision"), precision, "a precision", " or ".join(PRECISIONS))
        self._all_are(path, value, _SWITCHES, bool, "true or false", "one of them")
        return _UNREAD if len(self.problems) > before else _figures(value)

    def _activations(self, path: FieldPath, value: object) -> None:
        if not isinstance(value, Mapping):
            self._not(path, value, "a mapping", "{bf16: {sample: 2e8, fixed: 0}}")
            return
        self._parts(path, value, tuple(SETTINGS))
        for name, each in value.items():
            here = (*path, str(name))
            if not isinstance(each, Mapping) or each.get("sample") is None:
                self._not(here, each, "bytes of a sample", "{sample: 2e8}")
                continue
            self._parts(here, each, _ACTIVATIONS)
            self._bytes(here, each, _ACTIVATIONS)

    def _parts(self, path: FieldPath, value: Mapping[Any, Any], known: tuple[str, ...]) -> None:
        for name in value:
            if name not in known:
                listed = f"known fields: {', '.join(known)}"
                self._unknown(path, name, "not a field here", known, listed)

    def _bytes(self, path: FieldPath, value: Mapping[Any, Any], names: tuple[str, ...]) -> None:
        for name in names:
            count = value.get(name)
            if count is not None and (isinstance(count, bool) or not _is_count(count)):
                self._not((*path, name), count, "a number of bytes", "a whole number, 0 or more")

    def _all_are(
        self,
        path: FieldPath,
        value: Mapping[Any, Any],
        names: tuple[str, ...],
        kind: type,
        noun: str,
        fix: str,
    ) -> None:
        for name in names:
            if value.get(name) is not None and not isinstance(value[name], kind):
                self._not((*path, name), value[name], noun, fix)

    def _not(self, path: FieldPath, value: object, kind: str, fix: str) -> None:
        self._reject(path, f"{shown(value)} is not {kind}", f"write {fix}")

    def _missing(self, path: FieldPath, value: str) -> None:
        self._reject(path, f'"{path[-1]}" is missing', f'write "{path[-1]}: {value}"')

    def _unknown(
        self, path: FieldPath, key: object, what: str, known: Iterable[str], otherwise: str
    ) -> str | None:
        """Record a key that is none of the known ones; return the one that it may mean."""
        names = list(known)
        near = did_you_mean(str(key), names) or _with_maker(str(key), names)
        fix = f'did you mean "{near}"?' if near else otherwise
        self._reject((*path, str(key)), f"{shown(key)} is {what}", fix)
        return near

    def _reject(self, path: FieldPath, what: str, fix: str) -> Any:
        self.problems.append(Problem(path=path, what=what, fix=fix))
        return _UNREAD


def _accelerator_names() -> set[str]:
    of_types = (each.accelerator_name for each in instance_types().values())
    return {*accelerator_kinds(), *(name for name in of_types if name)}


def _with_maker(name: str, known: Iterable[str]) -> str | None:
    """Return the known accelerator that ends with a name, such as "NVIDIA A100" for "A100"."""
    return next((each for each in sorted(known) if each.lower().endswith(f" {name.lower()}")), None)


def _is_count(value: object) -> bool:
    return isinstance(value, int | float) and value >= 0 and float(value).is_integer()


def _figures(value: Mapping[str, Any]) -> ModelFigures:
    outside, gradients = value.get("outside_blocks"), value.get("gradients")
    return ModelFigures(
        footprint=Footprint(
            parameters=int(value["parameters"]),
            gradients=int(value["parameters"] if gradients is None else gradients),
            states=int(value["optimizer"]),
            largest=int(value.get("largest_block") or 0),
            # Without blocks, shards gather the whole model at once.
            rest=int(value["parameters"] if outside is None else outside),
            activations={
                SETTINGS[name]: Activations(
                    sample=int(each["sample"]), fixed=int(each.get("fixed") or 0)
                )
                for name, each in (value.get("activations") or {}).items()
            },
        ),
        blocks=value.get("blocks"),
        batch_norm=value.get("batch_norm"),
        precision=value.get("precision"),
        recomputed=bool(value.get("is_recomputed")),
        stage_output=None if value.get("stage_output") is None else int(value["stage_output"]),
    )
