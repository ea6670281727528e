"""Script mode: jobs that use the image's own start, with the script named by hyperparameters.

SDK v2 and others start AWS's framework images this way. In a container the image's own toolkit does
it; elsewhere our runtime (runtime/script_mode), copied to every host, emulates its start.
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.client.sessions.local.host.host_folder import HostFolder
from launcher.client.sessions.local.job.job_folder import JobFolder
from launcher.client.sessions.local.storage.channel_download import DownloadFailed
from launcher.client.sessions.local.storage.file_uris import path_of
from launcher.client.sessions.local.storage.object_store import S3Failed, copy_into
from launcher.client.sessions.s3_uris import is_s3
from launcher.errors import Problem
from launcher.shared import DEFAULT_ML_ROOT, TOKEN_VARIABLE, MlPaths

if TYPE_CHECKING:
    from launcher.client.sessions.local.storage.s3_process import S3Process
    from launcher.shared import TrainingJobRequest

_PROGRAM = "sagemaker_program"
_SOURCE = "sagemaker_submit_directory"
_MPI = "sagemaker_mpi_enabled"
_ARCHIVE = "sourcedir.tar.gz"
#: The archive's copy in a host.
_INSIDE = MlPaths().input / _ARCHIVE
_START = (
    f"import sys; sys.path.insert(0, {str(MlPaths().library)!r}); "
    "from launcher.runtime.script_mode.toolkit_start import main; sys.exit(main(*sys.argv[1:]))"
)
_TORCHRUN = 'torchrun: distribution={"torch_distributed": {"enabled": True}}'
_PIPELINE = (
    "Launcher's pipelines: distribution=ModelParallel(partitions=2), and another import in the "
    "script (docs/smp.md)"
)


@dataclass(frozen=True, kw_only=True)
class _ImageSoftware:
    """Software that only AWS's images contain, and what does its work elsewhere, by framework."""

    name: str
    in_torch: str
    in_tensorflow: str = ""


#: The hyperparameters that make the toolkit start such software.
_NEEDS_IMAGE = {
    "sagemaker_distributed_dataparallel_enabled": _ImageSoftware(
        name="the library smdistributed.dataparallel",
        in_torch=_TORCHRUN,
        in_tensorflow='distribution={"multi_worker_mirrored_strategy": {"enabled": True}}, or '
        '"mpi" with Horovod',
    ),
    "mp_parameters": _ImageSoftware(
        name="the library smdistributed.modelparallel",
        in_torch=_PIPELINE,
        in_tensorflow="another framework: JAX, which shards a model over a mesh of devices "
        "(distribution=Jax(), docs/reference/tensorflow.md), or PyTorch (ModelParallel, "
        "docs/smp.md)",
    ),
    "sagemaker_pytorch_xla_multi_worker_enabled": _ImageSoftware(
        name="PyTorch/XLA of the training compiler", in_torch=_TORCHRUN
    ),
}


def is_script_mode(request: TrainingJobRequest) -> bool:
    """Return True if a request uses the image's own start with a script."""
    has_program = _PROGRAM in (request.get("HyperParameters") or {})
    algorithm = request.get("AlgorithmSpecification", {})
    return has_program and not algorithm.get("ContainerEntrypoint")


def source_of(request: TrainingJobRequest) -> str | None:
    """Return the URI of the script's archive, or its path in the host; None if not given."""
    source = _decoded(request["HyperParameters"].get(_SOURCE))
    return None if source is None else str(source)


def command_of(request: TrainingJobRequest, *, runs_image: bool) -> list[str]:
    """Return the command that every host runs; empty for the image's own start, in a container."""
    algorithm = request["AlgorithmSpecification"]
    if runs_image or not is_script_mode(request):
        entry_point = algorithm.get("ContainerEntrypoint", ())
        return [*entry_point, *algorithm.get("ContainerArguments", ())]
    archive = [] if _is_inside(source_of(request)) else [str(_INSIDE)]
    return ["python3", "-c", _START, *archive]


def with_source_inside(request: TrainingJobRequest) -> TrainingJobRequest:
    """Return the request of a job in containers with its script's archive where they have it.

    The image's toolkit takes it from there, and would need credentials to download it.
    """
    if not needs_source_inside(request):
        return request
    values = {**request["HyperParameters"], _SOURCE: json.dumps(str(_INSIDE))}
    return {**request, "HyperParameters": values}


def needs_source_inside(request: TrainingJobRequest) -> bool:
    """Return whether the hosts of a job in script mode get its archive in another place."""
    return is_script_mode(request) and not _is_inside(source_of(request))


def source_note(request: TrainingJobRequest) -> str:
    """Return the note on the archive's place in containers."""
    return f"{_SOURCE} is {_INSIDE} in the containers, a copy of {source_of(request)}"


def _is_inside(source: str | None) -> bool:
    return str(source).startswith(f"{DEFAULT_ML_ROOT}/")


def mpi_token_variable(request: TrainingJobRequest) -> dict[str, str]:
    """Return the secret with which the hosts of an MPI job know each other; empty for others.

    Jobs of Launcher's own bring one.
    """
    has_mpi = is_script_mode(request) and _decoded(request["HyperParameters"].get(_MPI))
    return {TOKEN_VARIABLE: secrets.token_hex(16)} if has_mpi else {}


def check_script_mode(request: TrainingJobRequest) -> Iterator[Problem]:
    """Yield the problems that keep script mode from being emulated here."""
    source = source_of(request)
    if source is None:
        yield Problem(
            what=f"{_PROGRAM} is set, but {_SOURCE} is not",
            where="HyperParameters",
            fix=f'set "{_SOURCE}": "s3://BUCKET/KEY/{_ARCHIVE}", the archive of the script',
        )
    elif not is_s3(source) and not source.startswith(("file://", f"{DEFAULT_ML_ROOT}/")):
        yield Problem(
            what=f"{source!r} is neither an archive in S3 nor a path below {DEFAULT_ML_ROOT}",
            where=f"HyperParameters {_SOURCE!r}",
            fix="use s3://BUCKET/KEY, or the path of the archive in a channel",
        )
    image = str(request.get("AlgorithmSpecification", {}).get("TrainingImage", ""))
    for name, software in _NEEDS_IMAGE.items():
        if _decoded(request["HyperParameters"].get(name)):
            of_tensorflow = software.in_tensorflow if "tensorflow" in image else ""
            yield Problem(
                what=f"the job needs {software.name}, which only AWS's images contain",
                where=f"HyperParameters {name!r}",
                fix=f"run it on SageMaker, or use {of_tensorflow or software.in_torch}",
            )


def copy_script(
    request: TrainingJobRequest,
    trees: Iterable[HostFolder],
    s3_process: S3Process | None,
    folder: JobFolder,
    *,
    runs_image: bool,
) -> None:
    """Copy the script's archive to every host unless it is in a channel, and what starts it.

    runs_image: the image has its own toolkit for that; else it is our runtime.

    Raises DownloadFailed, OSError or TransferStopped.
    """
    if not is_script_mode(request):
        return
    from launcher.client.request import job_world

    source = str(source_of(request))
    archive = None if _is_inside(source) else fetch_source(source, s3_process, folder)
    for tree in trees:
        for file in () if runs_image else job_world():
            copy_into(tree.ml.library, Path(file.path), file.origin)
        if archive is not None:
            shutil.copyfile(archive, tree.ml.input / _ARCHIVE)


def fetch_source(uri: str, s3_process: S3Process | None, folder: JobFolder) -> Path:
    """Return the script's archive, downloaded once if it is in S3. Raises DownloadFailed."""
    if s3_process is None or not is_s3(uri):
        return path_of(uri)
    archive = folder.fetched / _ARCHIVE
    if archive.exists():
        return archive
    draft = archive.with_suffix(".draft")
    try:
        s3_process.fetch({uri: draft})
    except S3Failed as error:
        raise DownloadFailed(f"ClientError: cannot download the script: {error}") from error
    return draft.rename(archive)


def _decoded(text: str | None) -> Any:
    """Return a hyperparameter's value: parsed if it is JSON, otherwise the text."""
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return text
