"""The source archive of a job, read before its hosts start, so that pip can install from it."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from launcher.client.sessions.local.host.toolkit_mode import fetch_source, is_script_mode, source_of
from launcher.client.sessions.local.job.job_folder import JobFolder
from launcher.client.sessions.local.storage.channel_download import fetch_channels
from launcher.client.sessions.local.storage.file_uris import path_of
from launcher.client.sessions.local.storage.input_channels import channels_of, objects
from launcher.errors import ContractError, PlatformError
from launcher.shared import (
    BUNDLE_CODE,
    BUNDLE_FILE,
    CODE_CHANNEL,
    DOCUMENT_FILE,
    JobDocument,
    MlPaths,
    open_archive,
    space_problem,
)

if TYPE_CHECKING:
    from launcher.client.sessions.local.storage.s3_process import S3Process
    from launcher.shared import TrainingJobRequest

#: Bytes of a file that is read whole: a list of packages.
_LARGEST_TEXT = 1 << 20


@dataclass(frozen=True, kw_only=True)
class SourceArchive:
    """An archive of the user's code, below `top` in the archive.

    requirements: the requirements files of groups that have their own.
    """

    archive: Path
    top: str
    requirements: dict[str, str]

    def read(self, path: str) -> str | None:
        """Return the text of a file; None if there is no such file."""
        member = self._members.get(path)
        if member is None:
            return None
        if member.size > _LARGEST_TEXT:
            raise PlatformError(
                f"{path} in {self.archive.name} has {member.size:,} bytes: it may have "
                f"{_LARGEST_TEXT:,}"
            )
        with open_archive(self.archive) as archive:
            content = archive.extractfile(member)
            return content.read().decode("utf-8", "replace") if content else None

    def unpack(self, folder: Path) -> None:
        """Write all the user's files below a folder.

        Raises PlatformError if there is no room for them.
        """
        folder.mkdir(parents=True, exist_ok=True)
        with open_archive(self.archive) as archive:
            if problem := space_problem(archive, folder):
                raise PlatformError(f"cannot unpack {self.archive.name}: {problem}")
            for path, member in self._members.items():
                content = archive.extractfile(member)
                if content is not None:
                    place = folder / path
                    place.parent.mkdir(parents=True, exist_ok=True)
                    with place.open("wb") as copy:
                        shutil.copyfileobj(content, copy)

    @cached_property
    def _members(self) -> dict[str, tarfile.TarInfo]:
        with open_archive(self.archive) as archive:
            found = {}
            for member in archive:
                path = PurePosixPath(member.name)
                is_safe = member.isfile() and not path.is_absolute() and ".." not in path.parts
                if is_safe and path.is_relative_to(self.top):
                    found[str(path.relative_to(self.top))] = member
            return found


def code_of(
    request: TrainingJobRequest,
    folder: JobFolder,
    s3_process: S3Process | None,
    *,
    note: Callable[[str], None],
    progress: Callable[[str], None],
) -> SourceArchive | None:
    """Return the code that Launcher or AWS's toolkit would start; None for other programs.

    What is in S3 is downloaded to where the hosts' channels are taken from.
    note, progress: as for `fetch_channels`.
    Raises DownloadFailed, OSError or TransferStopped.
    """
    files = _Files(request, folder, s3_process, note, progress)
    if is_script_mode(request):
        archive = files.at(str(source_of(request)))
        return None if archive is None else SourceArchive(archive=archive, top="", requirements={})
    archive = files.in_channel(CODE_CHANNEL, BUNDLE_FILE)
    document = files.in_channel(CODE_CHANNEL, DOCUMENT_FILE)
    if archive is None or document is None:
        return None
    try:
        requirements = JobDocument.from_json(document.read_text(encoding="utf-8")).requirements
    except ContractError:
        return None  # the hosts will report what is wrong with it
    return SourceArchive(archive=archive, top=BUNDLE_CODE, requirements=dict(requirements))


@dataclass(frozen=True)
class _Files:
    """The files that a request refers to."""

    request: TrainingJobRequest
    folder: JobFolder
    s3_process: S3Process | None
    note: Callable[[str], None]
    progress: Callable[[str], None]

    def at(self, place: str) -> Path | None:
        """Return the file of a URI, or of a path below /opt/ml/input/data in a host."""
        channels = MlPaths().channels
        if PurePosixPath(place).is_relative_to(channels):
            name, _, rest = str(PurePosixPath(place).relative_to(channels)).partition("/")
            return self.in_channel(name, rest)
        return _if_file(fetch_source(place, self.s3_process, self.folder))

    def in_channel(self, name: str, file: str) -> Path | None:
        """Return one file of a channel; a channel in S3 is downloaded as a whole."""
        channel = next((each for each in channels_of(self.request) if each.name == name), None)
        if channel is None:
            return None
        if not channel.is_in_s3:
            return objects(path_of(channel.uri)).get(file)
        if self.s3_process is None:
            return None
        folders = fetch_channels(
            (channel,),
            self.s3_process,
            self.folder.fetched,
            note=self.note,
            progress=self.progress,
        )
        return _if_file(folders[name] / file)


def _if_file(path: Path) -> Path | None:
    return path if path.is_file() else None
