"""Input channels of a request, and which of their files each host gets.

Files of this machine are used in place; objects in S3 were downloaded before (channel_download.py).
Each isolation puts the files into its hosts. As on SageMaker, a channel's URI is a prefix of S3
keys: a folder means everything below it, any other path every file whose path starts with it.
ShardedByS3Key distributes the sorted objects over the hosts of the channel's groups. AWS does not
document how that works across several groups; one distribution over all of them is our
interpretation.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.client.sessions.local.job.job_hosts import LocalHost
from launcher.client.sessions.local.storage.file_uris import path_of
from launcher.client.sessions.s3_uris import is_s3

if TYPE_CHECKING:
    from launcher.shared import TrainingJobRequest


@dataclass(frozen=True, kw_only=True)
class InputChannel:
    """One channel of a request; `groups` is None when every group gets it."""

    name: str
    uri: str
    data_type: str
    sharded: bool
    groups: tuple[str, ...] | None
    config: Mapping[str, str]

    def is_mounted_in(self, group: str) -> bool:
        """Return whether the hosts of a group get this channel."""
        return self.groups is None or group in self.groups

    @property
    def is_in_s3(self) -> bool:
        """True if its files are in S3, so that they are downloaded for this job."""
        return is_s3(self.uri)


@dataclass(frozen=True, kw_only=True)
class ChannelMount:
    """One host's share of one channel: a whole folder, or single files by name in the channel."""

    channel: InputChannel
    folder: Path | None = None
    files: Mapping[str, Path]

    @property
    def is_writable(self) -> bool:
        """True if the host may change the files; otherwise they are the user's."""
        return self.channel.is_in_s3


def channels_of(request: TrainingJobRequest) -> tuple[InputChannel, ...]:
    """Return the channels of a request that has passed the checks."""
    default_mode = request["AlgorithmSpecification"].get("TrainingInputMode", "File")
    return tuple(_channel(raw, default_mode) for raw in request.get("InputDataConfig", ()))


def assign_channels(
    channels: Sequence[InputChannel], hosts: Sequence[LocalHost], fetched: Mapping[str, Path]
) -> dict[LocalHost, list[ChannelMount]]:
    """Return what each host gets of the channels; raise OSError when a folder cannot be read.

    fetched: the folders of the channels that came from S3, by channel name.
    """
    mounts: dict[LocalHost, list[ChannelMount]] = {host: [] for host in hosts}
    for channel in channels:
        readers = [host for host in hosts if channel.is_mounted_in(host.group)]
        prefix = fetched[channel.name] if channel.is_in_s3 else path_of(channel.uri)
        for host, mount in zip(readers, _split(channel, prefix, len(readers)), strict=True):
            mounts[host].append(mount)
    return mounts


def objects(prefix: Path) -> dict[str, Path]:
    """Return the files that a prefix matches, by name in the channel, in the order of S3 keys."""
    found = {name: path for name, path in _candidates(prefix) if path.is_file()}
    return dict(sorted(found.items(), key=lambda item: os.fsencode(item[0])))


def has_objects(prefix: Path) -> bool:
    """Return whether a prefix matches at least one file."""
    return any(path.is_file() for _, path in _candidates(prefix))


def _channel(raw: Mapping[str, Any], default_mode: str) -> InputChannel:
    source = raw["DataSource"]["S3DataSource"]
    distribution = source.get("S3DataDistributionType", "FullyReplicated")
    config = {
        "TrainingInputMode": raw.get("InputMode", default_mode),
        "S3DistributionType": distribution,
        "RecordWrapperType": raw.get("RecordWrapperType", "None"),
    }
    if "ContentType" in raw:
        config["ContentType"] = raw["ContentType"]
    groups = source.get("InstanceGroupNames")
    return InputChannel(
        name=raw["ChannelName"],
        uri=source["S3Uri"],
        data_type=source.get("S3DataType", "S3Prefix"),
        sharded=distribution == "ShardedByS3Key",
        groups=tuple(groups) if groups else None,
        config=config,
    )


def _split(channel: InputChannel, prefix: Path, parts: int) -> list[ChannelMount]:
    if not channel.sharded:
        return [_replica(channel, prefix)] * parts
    found = list(objects(prefix).items())
    return [ChannelMount(channel=channel, files=dict(found[part::parts])) for part in range(parts)]


def _replica(channel: InputChannel, prefix: Path) -> ChannelMount:
    if prefix.is_dir() and not channel.is_in_s3:
        return ChannelMount(channel=channel, folder=prefix, files={})
    return ChannelMount(channel=channel, files=objects(prefix))


def _candidates(prefix: Path) -> Iterator[tuple[str, Path]]:
    """Yield (name in the channel, path) of everything below a prefix that may be a file."""
    if prefix.is_dir():
        yield from _below(prefix, prefix)
    elif prefix.parent.is_dir():
        for entry in prefix.parent.iterdir():
            if entry.name.startswith(prefix.name):
                yield from _below(entry, prefix.parent)


def _below(path: Path, root: Path) -> Iterator[tuple[str, Path]]:
    entries = _contents(path) if path.is_dir() else [path]
    for entry in entries:
        yield entry.relative_to(root).as_posix(), entry


def _contents(folder: Path) -> Iterator[Path]:
    """Yield what is below a folder, also behind links to folders, but not a folder in itself."""
    waiting = [(folder, frozenset({_identity(folder)}))]
    while waiting:
        place, above = waiting.pop()
        with contextlib.suppress(PermissionError), os.scandir(place) as entries:
            for entry in entries:
                path = place / entry.name
                if not _is_folder(entry):
                    yield path
                elif (identity := _identity(path)) not in above:
                    waiting.append((path, above | {identity}))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a folder or a link to one; a link to nowhere is none."""
    return os.path.isdir(entry) if entry.is_symlink() else entry.is_dir()  # noqa: PTH112 (entry)


def _identity(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    return status.st_dev, status.st_ino
