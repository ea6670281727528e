"""Download of a job's input channels from S3, while the job is Downloading.

Each object is fetched once; the hosts that get it have hard links to it. Names are SageMaker's: a
channel has the keys below its prefix, or the names in its manifest.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.client.sessions.local.host.host_folder import HostFolder
from launcher.client.sessions.local.job.job_folder import JobFolder
from launcher.client.sessions.local.storage.input_channels import InputChannel, channels_of
from launcher.client.sessions.local.storage.object_store import S3Failed, safe_name
from launcher.client.sessions.local.storage.s3_process import S3Process
from launcher.client.sessions.s3_uris import bucket_and_key, clashing, is_s3
from launcher.errors import PlatformError

if TYPE_CHECKING:
    from launcher.shared import TrainingJobRequest


class DownloadFailed(PlatformError):
    """Raised when a job's inputs cannot be downloaded; the message is SageMaker's FailureReason."""


def fetch_channels(
    channels: tuple[InputChannel, ...],
    s3_process: S3Process,
    folder: Path,
    *,
    note: Callable[[str], None],
    progress: Callable[[str], None],
) -> dict[str, Path]:
    """Fetch each channel in S3 to its own folder, unless already there; return folders by name.

    note: called with a line about each downloaded channel.
    progress: called with the progress of the current download.
    Raises DownloadFailed, OSError or TransferStopped.
    """
    fetched = {channel.name: folder / channel.name for channel in channels if channel.is_in_s3}
    for channel in channels:
        target = fetched.get(channel.name)
        if target is not None and not target.exists():
            note(_fetch(channel, s3_process, folder / ".draft", progress))
            (folder / ".draft").rename(target)
    return fetched


def _fetch(
    channel: InputChannel, s3_process: S3Process, folder: Path, progress: Callable[[str], None]
) -> str:
    """Fetch one channel; return a line about it."""
    start = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        found = _objects(channel, s3_process)
        if not found:
            raise DownloadFailed(_no_objects(channel.uri))
        total = sum(size for _, size in found.values())
        free = shutil.disk_usage(folder).free
        if total > free:
            raise DownloadFailed(
                f"ClientError: Data download failed: {channel.uri} has {_megabytes(total)}, and "
                f"{_megabytes(free)} are free at {folder.parent}: free space there, or use less"
            )
        s3_process.fetch(
            _files({uri: name for name, (uri, _) in found.items()}, folder),
            lambda done: progress(
                f"Downloading {channel.name!r}: {_megabytes(done)} of {_megabytes(total)}"
            ),
        )
    except S3Failed as error:
        raise DownloadFailed(_download_error(channel.uri, error)) from error
    seconds = time.monotonic() - start
    return (
        f"channel {channel.name!r}: {len(found)} objects, {_megabytes(total)}, fetched from "
        f"{channel.uri} in {seconds:.1f} s"
    )


def _objects(channel: InputChannel, s3_process: S3Process) -> dict[str, tuple[str, int]]:
    """Return (URI, bytes) of each object by its name in the channel."""
    if channel.data_type == "ManifestFile":
        prefix, names = _manifest(channel.uri, s3_process.read(channel.uri))
        sizes = dict(s3_process.list(prefix))
        return {name: (prefix + name, sizes.get(prefix + name, 0)) for name in names}
    found = [each for each in s3_process.list(channel.uri) if not each[0].endswith("/")]
    return {name_in_channel(uri, channel.uri): (uri, size) for uri, size in found}


def _files(names: Mapping[str, str], folder: Path) -> dict[str, Path]:
    """Return the path for each URI; raise DownloadFailed where S3 keys clash as file names."""
    files = {uri: folder / safe_name(name) for uri, name in names.items()}
    if clash := clashing(files):
        raise DownloadFailed(
            f"ClientError: Data download failed: {clash[0]} and {clash[1]} cannot be files of one "
            "folder, as they have the same file name, or one is a file where the other needs a "
            "folder: rename one of them"
        )
    return files


def name_in_channel(uri: str, prefix: str) -> str:
    """Return the name of an object below its channel's folder.

    >>> name_in_channel("s3://b/digits/deep/i", "s3://b/digits")
    'deep/i'
    >>> name_in_channel("s3://b/digits/deep/i", "s3://b/digits/de")
    'deep/i'
    >>> name_in_channel("s3://b/digits/a", "s3://b/digits/a")
    'a'
    """
    inside = uri.removeprefix(f"{prefix.rstrip('/')}/")
    return inside if inside != uri else uri.removeprefix(prefix.rpartition("/")[0] + "/")


def _manifest(uri: str, content: bytes) -> tuple[str, list[str]]:
    """Return (prefix, names) of a manifest: [{"prefix": "s3://bucket/some/"}, "a", "b", ...]."""
    try:
        first, *names = json.loads(content)
        prefix = first["prefix"]
        is_valid = is_s3(prefix) and all(isinstance(name, str) for name in names)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        is_valid = False
    if not is_valid:
        raise DownloadFailed(
            f"ClientError: Data download failed: {uri} is not a manifest: write "
            '[{"prefix": "s3://bucket/prefix/"}, "name", ...]'
        )
    return prefix, names


def _download_error(uri: str, error: S3Failed) -> str:
    if error.code == "NoSuchBucket":
        return _no_objects(uri)
    return f"ClientError: Data download failed: {error} ({uri})"


def _no_objects(uri: str) -> str:
    return (
        f'ClientError: Data download failed: No S3 objects found under S3 URL "{uri}" given in '
        "input data source. Please ensure that the bucket exists in the selected region, that "
        "objects exist under that S3 prefix, and that your credentials have "
        f'"s3:ListBucket" permissions on bucket "{bucket_and_key(uri)[0]}".'
    )


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"


def discard_fetched(request: TrainingJobRequest, folder: JobFolder) -> None:
    """Remove the downloaded inputs of an ended job: they may be large, and S3 has the originals."""
    names = [channel.name for channel in channels_of(request) if channel.is_in_s3]
    for tree in map(HostFolder, folder.hosts.glob("*")):
        for name in names if tree.has(tree.ml.channels) else ():
            shutil.rmtree(tree.ml.channels / name, ignore_errors=True)
    shutil.rmtree(folder.fetched, ignore_errors=True)
