"""Download of the artifacts of a job: model.tar.gz and output.tar.gz."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.client.sessions.base import PlatformSession
from launcher.errors import LauncherError, PlatformError, Refused

if TYPE_CHECKING:
    from launcher.shared.training_job_types import TrainingJobDescription

#: Called with a file's name, the bytes copied so far, and its size (None: unknown).
FileProgress = Callable[[str, int, "int | None"], None]
#: S3's error codes for an object that does not exist.
_ABSENT = frozenset({"404", "NoSuchKey", "NotFound"})


def download_artifacts(
    session: PlatformSession,
    description: TrainingJobDescription,
    folder: Path,
    progress: FileProgress | None = None,
) -> list[Path]:
    """Download the artifacts of a described job into a folder, created if needed; return the files.

    Raises LauncherError for artifacts that are not archives, PlatformError for a folder that cannot
    be written, and the session's own errors.
    """
    output = description.get("OutputDataConfig", {})
    if "S3OutputPath" not in output:
        raise LauncherError(
            f"the description of job {description['TrainingJobName']} names no S3OutputPath, where "
            "its results would be: `aws sagemaker describe-training-job` shows all that it says"
        )
    if output.get("CompressionType") == "NONE":
        place = _place(description)
        raise LauncherError(
            f"the results of job {description['TrainingJobName']} are not packed: "
            f"`aws s3 cp --recursive {place} {folder}` fetches them"
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
            f"{folder} cannot be written: {error.strerror}: choose another folder"
        ) from error


def _uris(description: TrainingJobDescription) -> dict[str, str]:
    """Return where the files may be; the model is listed only once it exists."""
    uris = {"output.tar.gz": _place(description) + "output.tar.gz"}
    if model := description.get("ModelArtifacts", {}).get("S3ModelArtifacts"):
        uris = {"model.tar.gz": str(model), **uris}
    return uris


def _place(description: TrainingJobDescription) -> str:
    """Return the prefix of the artifacts.

    Source of the layout: API reference, OutputDataConfig.
    """
    base = description["OutputDataConfig"]["S3OutputPath"].rstrip("/")
    return f"{base}/{description['TrainingJobName']}/output/"


def _fetch(session: PlatformSession, uri: str, file: Path, progress: FileProgress | None) -> bool:
    """Download a file; return False if it does not exist."""

    def tell(copied: int, size: int | None) -> None:
        if progress:
            progress(file.name, copied, size)

    try:
        session.download(uri, file, tell)
    except (PlatformError, Refused) as error:
        if isinstance(error, Refused) and error.code not in _ABSENT:
            raise
        return False
    return True
