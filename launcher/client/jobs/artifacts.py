"""Download of the artifacts of a job: model.tar.gz and output.tar.gz."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.client.sessions import PlatformSession, is_s3
from launcher.errors import CloudError, PlatformError, Refused

if TYPE_CHECKING:
    from launcher.shared import TrainingJobDescription

#: Called with a file's name, the bytes copied so far, and its size (None: unknown).
FileProgress = Callable[[str, int, "int | None"], None]
#: The files of a job's results.
ARTIFACTS = ("model.tar.gz", "output.tar.gz")
#: S3's error codes for an object that does not exist.
_NOT_FOUND_CODES = frozenset({"404", "NoSuchKey", "NotFound"})


def download_artifacts(
    session: PlatformSession,
    description: TrainingJobDescription,
    folder: Path,
    progress: FileProgress | None = None,
) -> list[Path]:
    """Download the artifacts of a described job into a folder, created if needed; return the files.

    Raises PlatformError for artifacts that are not archives and a folder that cannot be written,
    CloudError for a description without their place, and the session's own errors.
    """
    output = description.get("OutputDataConfig", {})
    if "S3OutputPath" not in output:
        raise CloudError(
            f"the description of job {description['TrainingJobName']} has no S3OutputPath, so its "
            "results cannot be located: see `aws sagemaker describe-training-job`"
        )
    if output.get("CompressionType") == "NONE":
        prefix = _prefix(description)
        how = "with `aws s3 cp --recursive`" if is_s3(prefix) else "as files"
        raise PlatformError(
            f"the results of job {description['TrainingJobName']} are stored uncompressed: copy "
            f"them {how} from {prefix} to {folder}"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        uris = _uris(description)
        return [
            folder / name
            for name, uri in uris.items()
            if _fetch(session, uri, folder / name, progress)
        ]
    except OSError as error:
        raise PlatformError(
            f"cannot write to {folder}: {error.strerror}: choose another folder"
        ) from error


def _uris(description: TrainingJobDescription) -> dict[str, str]:
    """Return the URI of each file by name; the model is listed only once it exists."""
    model_file, output_file = ARTIFACTS
    uris = {output_file: _prefix(description) + output_file}
    if model := description.get("ModelArtifacts", {}).get("S3ModelArtifacts"):
        uris = {model_file: str(model), **uris}
    return uris


def _prefix(description: TrainingJobDescription) -> str:
    """Return the prefix of the artifacts.

    Source of the layout: API reference, OutputDataConfig.
    """
    base = description["OutputDataConfig"]["S3OutputPath"].rstrip("/")
    return f"{base}/{description['TrainingJobName']}/output/"


def _fetch(session: PlatformSession, uri: str, file: Path, progress: FileProgress | None) -> bool:
    """Download a file; return False if it does not exist."""

    def report(copied: int, size: int | None) -> None:
        if progress:
            progress(file.name, copied, size)

    try:
        session.download(uri, file, report)
    except (PlatformError, Refused) as error:
        if isinstance(error, Refused) and error.code not in _NOT_FOUND_CODES:
            raise
        return False
    return True
