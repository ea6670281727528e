"""SageMaker's limits on a job: the judge of its request, in the job's own fields and words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.client.request.builder import JobLocation, build_request
from launcher.client.request.request_paths import REQUEST_PATHS, field_of
from launcher.client.request.validation.api_model_check import UnknownType, WrongForm
from launcher.client.request.validation.request_check import find_violations
from launcher.client.request.validation.violations import Violation
from launcher.client.spec import JobSpec, read_document
from launcher.errors import FieldPath, Problem

if TYPE_CHECKING:
    from launcher.shared import TrainingJobRequest

#: The job's words for the request's, where a message names another field than its own.
_WORDS = {
    **{path.rpartition(".")[2]: name for name, path in REQUEST_PATHS.items()},
    "InstanceGroupNames": "instance_groups",
    "VpcConfig": "subnets and security_group_ids",
}


def find_limits(spec: JobSpec, location: JobLocation | None = None) -> Iterator[Problem]:
    """Find what the platform's limits refuse of the fields that a job sets.

    location: where the job is to run; by default anywhere, and by SageMaker's limits. What the
    session adds, `extra_request` and the distribution are judged with the whole request.
    """
    location = location or _anywhere(spec)
    request: Any = build_request(_buildable(spec), location)
    previous: FieldPath = ()
    for found in location.judge(request):
        problem = in_words_of(spec, request, found)
        is_same = isinstance(found, WrongForm) and found.path == previous  # its length is wrong
        is_of_job = problem is not found
        if is_of_job and not is_same and not isinstance(found, UnknownType):  # the catalogue's
            yield problem
        previous = found.path


def read_job(text_or_path: str | Path, changes: Iterable[str] = ()) -> JobSpec:
    """Read a job as `JobSpec.from_yaml` does.

    Raises SpecError with every problem of a wrong document, which here includes the limits.
    """
    document = read_document(JobSpec, text_or_path, changes)
    document.raise_problems(find_limits)
    return document.spec


def in_words_of(spec: JobSpec, request: TrainingJobRequest, found: Violation) -> Problem:
    """Return a violation as a problem of the job's own field; unchanged, if none was set."""
    path = field_of(spec, request, found.path)
    if path is None or not _is_set(spec, path):
        return found
    is_entry = len(path) == 2 and isinstance(getattr(spec, str(path[0])), Mapping)
    own = _last_name(found.path)
    words = {**_WORDS, own: own if is_entry else _last_name(path)}
    name = re.compile(rf"(?<![\"'.\w])({'|'.join(words)})(?![\"'\w])")  # not in a quoted value
    mentioned = {
        w for w in name.findall(f"{found.what} {found.fix}") if w not in (own, *found.path)
    }
    others = (field_of(spec, request, other) for other in found.about)
    return Problem(
        path=path,
        about=(
            *((field,) for word in sorted(mentioned) for field in words[word].split(" and ")),
            *(other for other in others if other),
        ),
        what=name.sub(lambda word: words[word[1]], found.what),
        fix=name.sub(lambda word: words[word[1]], found.fix),
        where=spec.where(path),
        is_warning=found.is_warning,
    )


def _last_name(path: FieldPath) -> str:
    return next(part for part in reversed(path) if isinstance(part, str))


def _is_set(spec: JobSpec, path: FieldPath) -> bool:
    name = str(path[0])
    return bool(getattr(spec, name) != getattr(JobSpec, name, None))  # the default


def _anywhere(spec: JobSpec) -> JobLocation:
    """Return stand-ins for what a session chooses; a file of this machine may be uploaded yet."""

    def judge(request: TrainingJobRequest) -> tuple[Violation, ...]:
        return tuple(
            found
            for found in find_violations(request)
            if not (isinstance(found, WrongForm) and found.what.startswith("'file://"))
        )

    return JobLocation(
        job_name="job",
        role_arn="arn:aws:iam::111122223333:role/any",
        image_uri=spec.image_uri or spec.algorithm_arn or "any",
        code_uri="s3://any/code/",
        output_uri="s3://any",
        checkpoint_uri=spec.checkpoint_s3_uri,
        token="any",
        judge=judge,
    )


def _buildable(spec: JobSpec) -> JobSpec:
    """Return the job without what only a job that keeps the rules is built from."""
    machines = {} if spec.groups else {"instance_type": "any", "instance_count": 1}
    return spec.replace(
        distribution=None,
        framework=None,
        extra_request={},
        secrets={},  # no message may show what may be a value
        model_uri=None if spec.model_channel_name in spec.inputs else spec.model_uri,
        hyperparameters={n: v for n, v in spec.hyperparameters.items() if _is_json(v)},
        **machines,
    )


def _is_json(value: object) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True
