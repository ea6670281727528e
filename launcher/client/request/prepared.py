"""A job that is ready to submit: the request, the job document, and the other objects to send."""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from launcher.client.request.builder import JobLocation, build_request
from launcher.client.request.bundle import (
    Bundle,
    PackProgress,
    build_bundle,
    build_source,
    launch_script,
)
from launcher.client.request.job_limits import find_limits, in_words_of
from launcher.client.request.source_tree import SourceTree
from launcher.client.request.toolkit import SOURCE_FILE
from launcher.client.spec import (
    DataService,
    InstanceGroup,
    JobSpec,
    check,
    job_roles,
    leading_group,
)
from launcher.errors import Problem, SpecError
from launcher.shared import (
    BUNDLE_FILE,
    DOCUMENT_FILE,
    LAUNCH_SCRIPT,
    PARTITION_FILE,
    REDACTED,
    TOKEN_VARIABLE,
    CommandPart,
    DataPart,
    JobDocument,
    Lifetime,
    Role,
    ScriptPart,
    TrainerPart,
)

if TYPE_CHECKING:
    from launcher.shared import PartitionFile, TrainingJobDescription, TrainingJobRequest

Requested = TypeVar("Requested", "TrainingJobRequest", "TrainingJobDescription")


@dataclass(frozen=True, kw_only=True)
class Submission:
    """Everything to send for a job: upload the objects, then create the job from the request.

    objects: content by URI. warnings: messages to show the user first.
    doubts: reasons to ask the user before the source leaves this machine.
    """

    request: TrainingJobRequest = field(repr=False)  # contains the token
    objects: Mapping[str, bytes | Bundle] = field(repr=False)
    warnings: tuple[str, ...]
    doubts: tuple[str, ...] = ()

    @property
    def source_bytes(self) -> int:
        """The size of the files that are packed."""
        return sum(each.size for each in self.objects.values() if isinstance(each, Bundle))

    @contextmanager
    def written(self, progress: PackProgress | None = None) -> Iterator[dict[str, bytes | Path]]:
        """Yield the content of each object by URI; archives are files until the block ends."""
        with tempfile.TemporaryDirectory(prefix="launcher-", dir=_place_of_archives()) as folder:
            contents: dict[str, bytes | Path] = {}
            for number, (uri, content) in enumerate(self.objects.items()):
                if isinstance(content, Bundle):
                    archive = Path(folder, f"{number}.tar.gz")
                    content.write(archive, progress)
                    contents[uri] = archive
                else:
                    contents[uri] = content
            yield contents


def _place_of_archives() -> str | None:
    """Return the folder of temporary files that are large: /tmp is often in memory."""
    place = "/var/tmp"
    return place if "TMPDIR" not in os.environ and os.access(place, os.W_OK | os.X_OK) else None


def prepare(spec: JobSpec, placement: JobLocation) -> Submission:
    """Check a spec and build its submission; raise SpecError with every problem.

    The spec's own rules and its platform's limits are judged first, then the whole request.
    """
    source = SourceTree(spec)
    scheme = placement.code_uri.partition("://")[0]
    limits = partial(find_limits, location=placement)
    warnings = check(spec, source, scheme=scheme, limits=limits)
    request = cast("TrainingJobRequest", build_request(spec, placement))
    problems = [in_words_of(spec, request, found) for found in placement.judge(request)]
    warnings += _accepted(problems)
    objects = _code(spec, source.partition, placement.code_uri)
    bundles = [each for each in objects.values() if isinstance(each, Bundle)]
    return Submission(
        request=request,
        objects=objects,
        warnings=(*dict.fromkeys(warnings), *(w for bundle in bundles for w in bundle.warnings)),
        doubts=tuple(text for bundle in bundles for text in bundle.doubts),
    )


def _code(spec: JobSpec, partition: PartitionFile | None, uri: str) -> dict[str, bytes | Bundle]:
    """Return the objects with the code of a job, by URI."""
    if spec.starts_toolkit and spec.has_remote_source:
        return {}
    if spec.starts_toolkit:
        return {uri + SOURCE_FILE: build_source(spec)}
    if not spec.starts_launcher:
        return {}
    objects: dict[str, bytes | Bundle] = {
        LAUNCH_SCRIPT: launch_script(),
        BUNDLE_FILE: build_bundle(spec),
        DOCUMENT_FILE: build_document(spec, partition).to_json().encode(),
    }
    if partition is not None:
        objects[PARTITION_FILE] = partition.to_json().encode()
    return {uri + name: content for name, content in objects.items()}


def _accepted(problems: Sequence[Problem]) -> tuple[str, ...]:
    """Return the warnings about a request; raise SpecError for what its platform would reject."""
    if errors := [problem for problem in problems if not problem.is_warning]:
        raise SpecError(errors)
    return tuple(
        problem.in_one_line
        for problem in problems
        if problem.path[-1:] != ("instance_type",)  # the spec's rules already warn about a new type
    )


def redacted(request: Requested) -> Requested:
    """Return a copy of a request or a description with the job's token replaced, safe to show."""
    shown = copy.deepcopy(request)
    if TOKEN_VARIABLE in shown.get("Environment", {}):
        shown["Environment"][TOKEN_VARIABLE] = REDACTED
    return shown


def build_document(spec: JobSpec, partition: PartitionFile | None = None) -> JobDocument:
    """Build the job document of a spec: the role of each group, and what it runs.

    partition: the content of the spec's partition_file.
    """
    if partition is not None and spec.distribution is not None:
        spec = spec.replace(distribution=spec.distribution.completed(partition))
    roles, unclear = job_roles(spec)
    if unclear:
        raise SpecError(unclear)
    return JobDocument(
        roles=roles,
        trainer=_trainer(spec, roles),
        data=_data_part(spec),
        commands={
            group.instance_group_name: _command(group)
            for group in spec.groups
            if group.command and roles[group.instance_group_name] is Role.COMMAND
        },
        scripts={
            group.instance_group_name: _script(group)
            for group in spec.groups
            if roles[group.instance_group_name] is Role.SCRIPT
        },
        hyperparameter_types={
            name: _type_word(value) for name, value in spec.hyperparameters.items()
        },
        requirements={
            group.instance_group_name: group.requirements
            for group in spec.groups
            if group.requirements is not None
        },
        start_timeout=float(min(spec.max_run, (spec.data_service or DataService()).start_timeout)),
    )


def _trainer(spec: JobSpec, roles: Mapping[str, Role]) -> TrainerPart:
    group = leading_group(spec, roles)
    assert group is not None  # checked by the rules
    part = (
        TrainerPart(entry_point=spec.script)
        if spec.distribution is None
        else spec.distribution.trainer_part(spec, group.instance_type)
    )
    is_script = roles[group.instance_group_name] is Role.SCRIPT
    return replace(part, group=group.instance_group_name) if is_script else part


def _data_part(spec: JobSpec) -> DataPart | None:
    service = spec.data_service
    if service is None:
        return None
    return DataPart(
        datasets=tuple(service.datasets),
        workers_per_host=service.workers_per_host,
        prefetch_bytes=service.prefetch_bytes,
        local_workers=service.local_workers,
        checksums=service.checksums,
        metrics_port=service.metrics_port,
        engine=service.engine,
    )


def _command(group: InstanceGroup) -> CommandPart:
    return CommandPart(
        command=tuple(group.command),
        ready=group.ready,
        lifetime=group.lifetime or Lifetime.TRAIN,
        pass_hyperparameters=group.pass_hyperparameters,
    )


def _script(group: InstanceGroup) -> ScriptPart:
    """Describe a group that runs the script; its hosts may wait for others, which has a price."""
    from launcher.client.catalogue import price_list  # no other group has the prices read

    price = price_list().find(group.instance_type, None)
    return ScriptPart(
        ready=group.ready,
        lifetime=group.lifetime or Lifetime.OWN,
        dollars_per_hour=price.per_hour if price else None,
    )


def _type_word(value: object) -> str:
    """Return the job document's word for the type that the job restores."""
    exact = {bool: "bool", int: "int", float: "float", str: "str"}
    return exact.get(type(value), "json")
