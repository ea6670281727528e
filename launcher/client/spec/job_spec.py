"""JobSpec: the description of a training job, independent of where it runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from launcher.client.spec.job_fields import CHOSEN_FIELDS, JobFields
from launcher.client.spec.job_parts import (
    FileSystemInput,
    InstanceGroup,
    MetricDefinition,
    TrainingInput,
    names,
    native_number,
    plain,
)
from launcher.errors import Where, dotted
from launcher.shared import HOMOGENEOUS_GROUP, Role

#: The fields that hold a URI; channels hold their own.
_LOCATIONS = ("output_path", "code_location", "checkpoint_s3_uri", "model_uri")


@dataclass(frozen=True, kw_only=True)
class JobSpec(JobFields):
    """One training job; names and meanings follow the Estimator of SageMaker SDK v2.

    Any sequence becomes a tuple; accepted too are a string for a TrainingInput, and AWS's own
    {"Name": ..., "Regex": ...} for a MetricDefinition. All are converted to the declared types.
    A Mapping[str, Any] has the shape of its part of the CreateTrainingJob request.
    """

    #: Formats where a field was written, for messages; not part of the job.
    where: Where = field(default=dotted, compare=False, repr=False)

    def __post_init__(self) -> None:
        for field_name, value in _kept_forms(self).items():
            object.__setattr__(self, field_name, value)

    def _repr_html_(self) -> str:
        from launcher.client.spec.spec_page import spec_html  # only notebooks need it

        return spec_html(self)

    @property
    def groups(self) -> tuple[InstanceGroup, ...]:
        """The machines as groups; a job without groups has one, which trains."""
        if self.instance_groups or not (preferred := self._preferred()):
            return tuple(self.instance_groups)
        return (InstanceGroup(HOMOGENEOUS_GROUP, *preferred[0], Role.TRAIN),)

    def choices(self, group: InstanceGroup) -> tuple[tuple[str, int], ...]:
        """Return the types that a group may get, each with its count, as they are tried."""
        if self.instance_preferences and not self.instance_groups:
            return self._preferred()
        names = dict.fromkeys((group.instance_type, *group.alternatives))
        return tuple((name, group.instance_count) for name in names)

    def _preferred(self) -> tuple[tuple[str, int], ...]:
        """Return the types and counts of a job without groups; the rules report malformed ones."""
        count = 1 if self.instance_count is None else self.instance_count
        if self.instance_type is not None:
            return ((self.instance_type, count),)
        return tuple(
            (name, number if isinstance(number := each.get("InstanceCount"), int) else count)
            for each in self.instance_preferences
            if isinstance(each, Mapping) and isinstance(name := each.get("InstanceType"), str)
        )

    @property
    def is_serverless(self) -> bool:
        """True if AWS chooses the machines and what they run."""
        return "ServerlessJobConfig" in self.extra_request

    @property
    def chosen_fields(self) -> frozenset[str]:
        """The fields that the job may not have since AWS chooses."""
        return CHOSEN_FIELDS if self.is_serverless else frozenset()

    @property
    def starts_launcher(self) -> bool:
        """True if Launcher runs in the container: the job has code, and AWS's toolkit no part."""
        return self.runs_script and not self.starts_toolkit

    @property
    def starts_toolkit(self) -> bool:
        """True if AWS's toolkit starts the job's processes."""
        # Before the rules have seen it, the distribution may be of any type.
        return not getattr(self.distribution, "runs_launcher", True)

    @property
    def toolkit_strategies(self) -> Mapping[str, Any] | None:
        """SDK v2's strategies for AWS's toolkit; None unless the toolkit starts the job."""
        found: Mapping[str, Any] | None = getattr(self.distribution, "toolkit_strategies", None)
        return found

    @property
    def runs_script(self) -> bool:
        """True if the job has a script or task, whose arguments are decoded from JSON."""
        return bool(self.entry_point or self.task)

    @property
    def has_code_channel(self) -> bool:
        """True if a channel of the request brings the code to the hosts."""
        return self.starts_launcher or (self.starts_toolkit and bool(self.enable_network_isolation))

    @property
    def has_token(self) -> bool:
        """True if the job has a token of its own, with which its hosts know each other."""
        most = [max(count for _, count in self.choices(group)) for group in self.groups]
        return self.starts_launcher and sum(most) > 1

    @property
    def has_remote_source(self) -> bool:
        """True if the source is an archive in S3 instead of a folder."""
        return (self.source_dir or "").startswith("s3://")

    @property
    def s3_inputs(self) -> Mapping[str, TrainingInput]:
        """The channels other than file systems."""
        return {n: c for n, c in self.inputs.items() if isinstance(c, TrainingInput)}

    @property
    def locations(self) -> dict[str, str]:
        """The URIs of the job outside of its channels, by field."""
        return {field: uri for field in _LOCATIONS if (uri := getattr(self, field))}

    @property
    def uris(self) -> dict[str, str]:
        """Every URI in the job, by field; a channel's field is like "inputs.train.s3_data"."""
        channels = {f"inputs.{name}.s3_data": c.s3_data for name, c in self.s3_inputs.items()}
        return {**self.locations, **{field: uri for field, uri in channels.items() if uri}}

    @property
    def is_local(self) -> bool:
        """True if every host runs on this machine (instance types "local" and "local_gpu")."""
        return bool(self.groups) and all(group.is_local for group in self.groups)

    @property
    def script(self) -> str:
        """The path of the training script below a host's code folder."""
        return self.entry_point if self.source_dir is not None else PurePath(self.entry_point).name

    def to_yaml(self) -> str:
        """Return the job as YAML without default values; `from_yaml` reads back an equal job."""
        from launcher.client.spec.job_yaml import write_document  # loads yaml

        return write_document(self)

    @classmethod
    def from_yaml(cls, text_or_path: str | Path, changes: Iterable[str] = ()) -> JobSpec:
        """Read a job from YAML: a Path, a string ending in .yaml or .yml, or the YAML itself.

        In a file, `source_dir` and file:// URIs are relative to the file's folder. Each change is
        "hyperparameters.epochs=1" or "instance_groups.data_group.instance_count=3".

        Raises SpecError listing every problem of the document with its line, together with all
        problems of the job that it describes.
        """
        from launcher.client.spec.job_yaml import read_document  # loads yaml

        document = read_document(cls, text_or_path, changes)
        document.raise_problems()
        return document.spec

    def replace(self, **changes: Any) -> JobSpec:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)


def _kept_forms(spec: Any) -> dict[str, Any]:
    """Return the fields of a JobSpec, coerced to their declared types where they accept others."""
    return {
        part.name: _FORMS.get(part.type, _native)(getattr(spec, part.name))
        for part in dataclasses.fields(spec)
    }


def _native(value: Any) -> Any:
    """Convert a number, or the numbers that are fields of a dataclass; return others unchanged."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return native_number(value)
    held = {part.name: getattr(value, part.name) for part in dataclasses.fields(value) if part.init}
    changed = {name: new for name, old in held.items() if (new := _native(old)) is not old}
    return dataclasses.replace(value, **changed) if changed else value


def _channels(inputs: Any) -> Any:
    """Return the channels by name; the rules report what is no mapping."""
    if not isinstance(inputs, Mapping):
        return inputs
    return {name: _native(_channel(channel)) for name, channel in inputs.items()}


def _channel(channel: TrainingInput | FileSystemInput | str) -> TrainingInput | FileSystemInput:
    return TrainingInput(channel) if isinstance(channel, str) else channel


def _metric(metric: MetricDefinition | Mapping[str, str]) -> MetricDefinition:
    if isinstance(metric, Mapping) and metric.keys() == {"Name", "Regex"}:
        return MetricDefinition(metric["Name"], metric["Regex"])
    return metric  # type: ignore[return-value]  # the rules report other mappings


_FORMS: Mapping[Any, Callable[[Any], Any]] = {
    "Sequence[str]": names,
    "Sequence[InstanceGroup]": lambda groups: tuple(map(_native, groups)),
    "Sequence[MetricDefinition]": lambda metrics: tuple(map(_metric, metrics)),
    "Sequence[Mapping[str, Any]]": lambda parts: tuple(plain(parts)),
    "Mapping[str, TrainingInput | FileSystemInput]": _channels,
    **dict.fromkeys(("Mapping[str, str]", "Mapping[str, Any]", "Mapping[str, Any] | None"), plain),
}
