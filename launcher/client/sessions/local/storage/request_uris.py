"""URIs that a request reads from and writes to, file:// or s3://, and the stores it writes to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.client.sessions.local.host.toolkit_mode import is_script_mode, source_of
from launcher.client.sessions.local.job.job_folder import JobFolder
from launcher.client.sessions.local.storage.file_uris import path_of
from launcher.client.sessions.local.storage.object_store import (
    FolderStore,
    ObjectStore,
    S3Store,
    remove_partial,
)
from launcher.client.sessions.s3_uris import is_s3

if TYPE_CHECKING:
    from launcher.client.sessions.local.storage.s3_process import S3Process
    from launcher.errors import FieldPath
    from launcher.shared import TrainingJobRequest

OUTPUT = ("OutputDataConfig", "S3OutputPath")
CHECKPOINTS = ("CheckpointConfig", "S3Uri")


def uris_of(request: TrainingJobRequest) -> Iterator[tuple[FieldPath, str]]:
    """Yield (field, URI) for every URI of a request."""
    for index, channel in enumerate(request.get("InputDataConfig", ())):
        source = channel.get("DataSource", {}).get("S3DataSource") or {}
        yield ("InputDataConfig", index), source.get("S3Uri", "")
    yield OUTPUT, request.get("OutputDataConfig", {}).get("S3OutputPath", "")
    if checkpoints := request.get("CheckpointConfig"):
        yield CHECKPOINTS, checkpoints.get("S3Uri", "")
    if is_script_mode(request):
        yield ("HyperParameters", "sagemaker_submit_directory"), source_of(request) or ""


def place_of(request: TrainingJobRequest, path: FieldPath) -> str:
    """Return the text of a field's place in a request; a channel has its name."""
    match path:
        case ("InputDataConfig", int(index), *_):
            name = request["InputDataConfig"][index].get("ChannelName", index)
            return f"InputDataConfig {name!r}"
        case ("HyperParameters", key):
            return f"HyperParameters {key!r}"
    return " ".join(map(str, path))


def needs_s3(request: TrainingJobRequest) -> bool:
    """Return whether any URI of a request is in S3."""
    return any(is_s3(uri) for _, uri in uris_of(request))


def results_store(
    request: TrainingJobRequest, s3_process: S3Process | None, folder: JobFolder
) -> ObjectStore:
    """Return the store for a job's results, at SageMaker's location for them."""
    base = request["OutputDataConfig"]["S3OutputPath"].rstrip("/")
    uri = f"{base}/{request['TrainingJobName']}/output"
    return _store_at(uri, s3_process, folder, "results")


def checkpoint_store(uri: str, s3_process: S3Process | None, folder: JobFolder) -> ObjectStore:
    """Return the store for a job's checkpoints."""
    return _store_at(uri, s3_process, folder, "checkpoints")


def discard_drafts(request: TrainingJobRequest, folder: JobFolder) -> None:
    """Remove the partial files of a dead platform process; the hosts' folders are kept."""
    remove_partial(folder.unsent)
    base = request["OutputDataConfig"]["S3OutputPath"]
    if not is_s3(base):
        remove_partial(path_of(base) / request["TrainingJobName"] / "output")


def _store_at(uri: str, s3_process: S3Process | None, folder: JobFolder, name: str) -> ObjectStore:
    """Return the store at a URI; `name` separates the drafts of a job's stores."""
    if s3_process is not None and is_s3(uri):
        return S3Store(uri, s3_process, folder.unsent / name)
    return FolderStore(uri)
