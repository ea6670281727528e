"""Checks of a request before anything is started: find what the local platform must refuse."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from launcher.client.request import WrongType
from launcher.client.sessions.base import violations_without_aws
from launcher.client.sessions.local.host.toolkit_mode import is_script_mode
from launcher.client.sessions.local.isolation_level import Isolation
from launcher.client.sessions.local.job.host_credentials import secret_values
from launcher.client.sessions.local.job.job_checks import check_inputs, check_job
from launcher.client.sessions.local.storage.request_uris import place_of, uris_of
from launcher.client.sessions.s3_uris import is_s3
from launcher.errors import PlatformError, Problem, RequestRefused
from launcher.shared import SHORTEST_SECRET, secret_sources

if TYPE_CHECKING:
    from launcher.shared import TrainingJobRequest


#: The channel with SDK v3's programs; the name is reserved for them.
_DRIVERS = "sm_drivers"

__all__ = ["check_isolation", "check_request", "find_problems", "ignored_field_notes"]


def check_request(
    request: TrainingJobRequest,
    uploads: Collection[str] = (),
    environment: Mapping[str, str] = MappingProxyType({}),
    *,
    runs_image: bool = False,
) -> None:
    """Raise one RequestRefused with everything that this machine cannot do of a request.

    uploads: the URIs of objects that will be stored before the job starts.
    environment: the variables that the platform process has in addition to ours.
    runs_image: its hosts are containers.
    """
    problems = find_problems(request, uploads, environment, runs_image=runs_image)
    if problems:
        raise RequestRefused(problems)


def find_problems(
    request: TrainingJobRequest,
    uploads: Collection[str] = (),
    environment: Mapping[str, str] = MappingProxyType({}),
    *,
    runs_image: bool = False,
) -> list[Problem]:
    """Return everything that this machine cannot do of a request; arguments as `check_request`.

    SageMaker's limits are judged too. A field that this machine refuses is not reported again.
    """
    limits = violations_without_aws(request, scheme="file")
    own = [*_system(runs_image=runs_image)]
    if not any(_is_unreadable(found) for found in limits):
        own += [
            *check_job(request, runs_image=runs_image),
            *check_inputs(request, uploads),
            *check_credentials(request, environment),
            *check_secrets(request, environment),
        ]
    refused = [problem.path for problem in own if problem.path]
    return [*own, *(found for found in limits if not found.depends_on(refused))]


def _system(*, runs_image: bool) -> Iterator[Problem]:
    """Yield a problem on a machine without Linux, from which jobs for AWS can be submitted."""
    system = sys.platform  # mypy takes the test of sys.platform itself for always false
    if not runs_image and not system.startswith("linux"):
        yield Problem(
            what=f"local jobs need Linux, but this is {system}",
            where="this machine",
            fix="run its hosts in containers: --isolation container; or run the job on AWS",
        )


def _is_unreadable(found: Problem) -> bool:
    """Return whether a value has the wrong type; the checks read no hyperparameter as a text."""
    is_entry = found.path[0] in ("HyperParameters", "Environment") and len(found.path) > 1
    return isinstance(found, WrongType) and not is_entry


def check_isolation(request: TrainingJobRequest, isolation: Isolation) -> None:
    """Raise PlatformError if a request's programs need /opt/ml and the isolation has none."""
    names = {channel["ChannelName"] for channel in request.get("InputDataConfig", ())}
    if isolation is Isolation.PROCESS and _DRIVERS in names:
        raise PlatformError(
            f"the programs in the channel {_DRIVERS!r} (SDK v3 sends them) find their files below "
            "/opt/ml only, which hosts have with isolation 'sandbox' or 'network'"
        )


def check_secrets(request: TrainingJobRequest, environment: Mapping[str, str]) -> Iterator[Problem]:
    """Yield a problem for each secret without a value, and for one that could not be redacted.

    environment: the variables that the platform process has in addition to ours.
    """
    values = secret_values(request, {**os.environ, **environment})
    for name in secret_sources(request.get("Environment", {})):
        if name not in values:
            yield Problem(
                what=f"the secret {name} is not in your environment",
                where=f"secrets.{name}",
                fix=f"export {name}=...: on this machine the values of secrets come from there",
            )
        elif len(values[name]) < SHORTEST_SECRET:
            few = f"fewer than {SHORTEST_SECRET} characters"
            yield Problem(
                what=f"the secret {name} has {few}, and could not be kept out of the logs",
                where=f"secrets.{name}",
                fix="give it as a variable of the environment, or make it longer",
            )


_KEY = "AWS_ACCESS_KEY_ID"


def check_credentials(
    request: TrainingJobRequest, environment: Mapping[str, str]
) -> Iterator[Problem]:
    """Yield a problem for the first S3 location, if no AWS credentials are found."""
    locations = [(path, uri) for path, uri in uris_of(request) if is_s3(uri)]
    if not locations or _KEY in environment or _has_credentials():
        return
    path, uri = locations[0]
    yield Problem(
        what=f"{uri} is in S3, and no AWS credentials are found",
        path=path,
        where=place_of(request, path),
        fix="give some (`aws configure`, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY), or "
        "files of this machine: file:///absolute/path",
    )


def _has_credentials() -> bool:
    """Return whether boto3 finds credentials: in variables, in files or in an instance's role."""
    import boto3  # slow to import; only jobs that use S3 need it

    return boto3.Session().get_credentials() is not None


#: The job's notes list those that the request sets.
_IGNORED = (
    "VpcConfig",
    "EnableNetworkIsolation",
    "EnableInterContainerTrafficEncryption",
    "RetryStrategy",
    "ResourceConfig.VolumeKmsKeyId",
    "ResourceConfig.KeepAlivePeriodInSeconds",
    "ResourceConfig.TrainingPlanArn",
    "ResourceConfig.InstancePlacementConfig",
    "OutputDataConfig.KmsKeyId",
    "AlgorithmSpecification.TrainingImageConfig",
    "AlgorithmSpecification.EnableSageMakerMetricsTimeSeries",
    "ExperimentConfig",
    "TensorBoardOutputConfig",
    "DebugHookConfig",
    "DebugRuleConfigurations",
    "ProfilerConfig",
    "ProfilerRuleConfigurations",
    "RemoteDebugConfig",
    "SessionChainingConfig",
    "InfraCheckConfig",
)
_OF_CONTAINERS = ("EnableNetworkIsolation",)
_IMAGE_IS_EMULATED = "the image is not run: its script mode is emulated in this machine's Python"


def ignored_field_notes(request: TrainingJobRequest, *, runs_image: bool = False) -> list[str]:
    """Return a note for each part of the request that a local job ignores."""
    ignored = [field for field in _IGNORED if not (runs_image and field in _OF_CONTAINERS)]
    notes = [f"{field} has no effect on a local job" for field in ignored if _at(request, field)]
    is_emulated = is_script_mode(request) and not runs_image
    return [*notes, _IMAGE_IS_EMULATED] if is_emulated else notes


def _at(request: TrainingJobRequest, field: str) -> object:
    top, _, below = field.partition(".")
    part: object = request.get(top)
    if not below:
        return part
    return part.get(below) if isinstance(part, Mapping) else None
