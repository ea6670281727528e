"""Source in S3: an archive that is fetched and unpacked, so that it can be packed with Launcher."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from launcher.client.home import home_folder
from launcher.client.sessions.base import PlatformSession
from launcher.client.sessions.registry import open_session
from launcher.client.spec import JobSpec
from launcher.errors import Problem, SpecError
from launcher.shared import open_archive, space_problem


def with_fetched_source(spec: JobSpec, session: PlatformSession, home: Path) -> JobSpec:
    """Return the job with a folder as source_dir, in place of an archive in S3.

    home: the folder below which sources are kept, one folder for each content.

    Raises SpecError for an archive that cannot be unpacked, and CloudError as the session does.
    """
    uri = str(spec.source_dir)
    is_own = uri.startswith(f"{session.platform.uri_scheme}://")
    store = session if is_own else open_session("aws")
    return spec.replace(source_dir=str(_fetched(uri, store, home)))


def sources_folder() -> Path:
    """Return the folder of fetched sources, beside the jobs: $LAUNCHER_HOME, or ~/.launcher."""
    return home_folder() / "sources"


def _fetched(uri: str, store: PlatformSession, home: Path) -> Path:
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home, prefix=".fetching-") as scratch:
        archive = Path(scratch, "source.tar.gz")
        store.download(uri, archive)
        place = home / hashlib.sha256(archive.read_bytes()).hexdigest()
        if not place.exists():
            unpacked = Path(scratch, "source")
            unpack_source(archive, unpacked, uri)
            _move(unpacked, place)
    return place


def _move(unpacked: Path, place: Path) -> None:
    """Move a whole folder into its place, unless another process was faster."""
    try:
        os.rename(unpacked, place)  # noqa: PTH104 (fails where Path.replace does, and says so)
    except OSError:
        if not place.exists():
            raise


def unpack_source(archive: Path, folder: Path, uri: str, *, below: str = "") -> None:
    """Unpack an archive, or its part below a folder, into a new folder.

    Raises SpecError for an archive that cannot be unpacked, or whose files would be elsewhere.
    """
    folder.mkdir()
    try:
        with open_archive(archive) as tar:
            if problem := space_problem(tar, folder):
                raise _unusable(uri, problem, fix="free space there, or look into the archive")
            for member, path in _files(tar, uri):
                if not path.is_relative_to(below):
                    continue
                target = folder / path.relative_to(below)
                target.parent.mkdir(parents=True, exist_ok=True)
                content = tar.extractfile(member)
                assert content is not None  # a regular file
                with content, target.open("wb") as copy:
                    shutil.copyfileobj(content, copy)
                target.chmod(0o755 if member.mode & 0o100 else 0o644)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise _unusable(uri, str(error)) from error


def _files(tar: tarfile.TarFile, uri: str) -> Iterator[tuple[tarfile.TarInfo, PurePosixPath]]:
    """Yield the files of an archive; links and paths that leave it are refused."""
    for member in tar:
        path = PurePosixPath(member.name)
        if path.is_absolute() or ".." in path.parts:
            raise _unusable(uri, f"{member.name} is outside of it")
        if member.isfile():
            yield member, path
        elif not member.isdir():
            raise _unusable(uri, f"{member.name} is neither a file nor a folder")


_PACK = "pack it again: tar -czf sourcedir.tar.gz -C FOLDER ."


def _unusable(uri: str, reason: str, fix: str = _PACK) -> SpecError:
    what = f"the source {uri} cannot be unpacked: {reason}"
    return SpecError([Problem(what=what, where="source_dir", fix=fix)])
