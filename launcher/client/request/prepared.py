"""A job that is ready to submit: the request, and the objects that it refers to."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar, cast

from launcher.client.catalogue import price_list
from launcher.client.request.builder import JobLocation, build_document, build_request
from launcher.client.request.bundle import build_bundle, build_source, launch_script
from launcher.client.request.source_tree import SourceTree
from launcher.client.request.toolkit import SOURCE_FILE
from launcher.client.request.validation import Violation
from launcher.client.spec import JobSpec, check
from launcher.errors import SpecError
from launcher.shared import (
    BUNDLE_FILE,
    DOCUMENT_FILE,
    LAUNCH_SCRIPT,
    PARTITION_FILE,
    REDACTED,
    TOKEN_VARIABLE,
)
from launcher.shared.partitions import PartitionFile

if TYPE_CHECKING:
    from launcher.shared.training_job_types import (
        TrainingJobDescription,
        TrainingJobRequest,
    )

Requested = TypeVar("Requested", "TrainingJobRequest", "TrainingJobDescription")


@dataclass(frozen=True, kw_only=True)
class Submission:
    """Everything to send for a job: upload the objects, then create the job from the request.

    objects: content by URI. warnings: messages to show the user first.
    """

    request: TrainingJobRequest = field(repr=False)  # contains the token
    objects: Mapping[str, bytes] = field(repr=False)
    warnings: tuple[str, ...]


def prepare(spec: JobSpec, placement: JobLocation) -> Submission:
    """Check a spec and build its submission; raise SpecError with every problem.

    The spec's own rules are checked first, then the request against its platform's limits.
    """
    source = SourceTree(spec)
    warnings = check(spec, source, scheme=placement.code_uri.partition("://")[0])
    request = cast("TrainingJobRequest", build_request(spec, placement))
    warnings += _accepted(placement.judge(request))
    objects, more = _code(spec, source.partition, placement.code_uri)
    return Submission(request=request, objects=objects, warnings=(*warnings, *more))


def _code(
    spec: JobSpec, partition: PartitionFile | None, uri: str
) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """Return the objects with the code of a job, by URI, and their warnings."""
    if spec.starts_toolkit and spec.has_remote_source:
        return {}, ()
    if spec.starts_toolkit:
        source = build_source(spec)
        return {uri + SOURCE_FILE: source.content}, source.warnings
    if not spec.starts_launcher:
        return {}, ()
    bundle = build_bundle(spec)
    objects = {
        LAUNCH_SCRIPT: launch_script(),
        BUNDLE_FILE: bundle.content,
        DOCUMENT_FILE: build_document(spec, partition, price_list()).to_json().encode(),
    }
    if partition is not None:
        objects[PARTITION_FILE] = partition.to_json().encode()
    return {uri + name: content for name, content in objects.items()}, bundle.warnings


def _accepted(violations: Sequence[Violation]) -> tuple[str, ...]:
    """Return the warnings about a request; raise SpecError for what its platform would reject."""
    if errors := [found for found in violations if not found.is_warning]:
        raise SpecError(errors)
    return tuple(
        found.in_one_line
        for found in violations
        if found.path[-1:] != ("InstanceType",)  # the spec's rules already warn about a new type
    )


def redacted(request: Requested) -> Requested:
    """Return a copy of a request or a description with the job's token replaced, safe to show."""
    shown = copy.deepcopy(request)
    if TOKEN_VARIABLE in shown.get("Environment", {}):
        shown["Environment"][TOKEN_VARIABLE] = REDACTED
    return shown
