"""The code bundle: a reproducible archive of the user's source and Launcher's job-side code.

The same files give the same bytes on every machine: names are sorted, times and owners are zero,
and a file's mode is 0644 or 0755. The archive's SHA-256 therefore identifies its content. It is
written to a file when it is uploaded, and never held in memory.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, cast

from launcher.client.request.source_tree import SourceFile, SourceTree
from launcher.client.spec import JobSpec
from launcher.errors import Problem, SpecError
from launcher.shared import BUNDLE_CODE, BUNDLE_LIBRARY, JOB_WORLD

#: Source above this many bytes probably contains data by accident.
LARGE_SOURCE = 50 * 1024 * 1024
_NAMED_FILES = 5
_PACKAGE = Path(__file__).resolve().parents[2]
#: Of gzip. Measured: level 9 takes three times as long, for 6 % fewer bytes.
_LEVEL = 4
_EXECUTABLE, _PLAIN = 0o755, 0o644
#: Bytes of a file that are hashed at once.
_PIECE = 1 << 20
#: Called with the bytes of source that are packed, and their total.
PackProgress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """An archive (tar.gz) that is not written yet: its paths, sorted, with the files at each.

    warnings: messages for the user, each one sentence or one list.
    doubts: reasons why the source may have been chosen by mistake.
    """

    members: tuple[tuple[str, SourceFile], ...]
    warnings: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of the archive."""
        return tuple(path for path, _ in self.members)

    @property
    def size(self) -> int:
        """The bytes of its files."""
        return sum(file.size for _, file in self.members)

    def write(self, archive: Path, progress: PackProgress | None = None) -> None:
        """Write the archive to a file; raise SpecError for a source file that cannot be read."""
        counter = _PackedBytes(self.size, progress)
        # An empty name and mtime 0 make the gzip header the same everywhere.
        with (
            archive.open("wb") as file,
            gzip.GzipFile("", mode="wb", fileobj=file, compresslevel=_LEVEL, mtime=0) as stream,
            tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar,
        ):
            for path, member in self.members:
                _add(tar, path, member, counter)


def build_bundle(spec: JobSpec) -> Bundle:
    """List the source folder and the job-side code; raise SpecError for links that leave it."""
    tree = SourceTree(spec)
    code = [(f"{BUNDLE_CODE}/{file.path}", file) for file in tree.files]
    library = [(f"{BUNDLE_LIBRARY}/{file.path}", file) for file in job_world()]
    return _bundle(sorted([*code, *library]), tree)


def build_source(spec: JobSpec) -> Bundle:
    """List the source folder alone, flat, for AWS's toolkit; raise SpecError as `build_bundle`."""
    tree = SourceTree(spec)
    return _bundle([(file.path, file) for file in tree.files], tree)


def _bundle(members: list[tuple[str, SourceFile]], tree: SourceTree) -> Bundle:
    warnings = (*tree.warnings, *_size_warning(tree.files))
    return Bundle(members=tuple(members), warnings=warnings, doubts=tree.doubts)


def launch_script() -> bytes:
    """Return the script that every host starts, from the wheel or else from the repository."""
    installed = _PACKAGE / "client" / "request" / "launch.py"
    script = installed if installed.exists() else _PACKAGE.parent / "entrypoints" / "launch.py"
    return script.read_bytes()


def job_world() -> Iterator[SourceFile]:
    """Yield the files of our package that run inside jobs; paths begin with launcher/."""
    for part in JOB_WORLD:
        for origin in _python_files(_PACKAGE / part):
            path = origin.relative_to(_PACKAGE.parent).as_posix()
            yield SourceFile(path=path, origin=origin, size=origin.stat().st_size, executable=False)


def _python_files(part: Path) -> list[Path]:
    return [part] if part.is_file() else sorted(part.rglob("*.py"))


class _PackedBytes:
    """Counts the bytes that are read from each file."""

    def __init__(self, total: int, progress: PackProgress | None) -> None:
        self._total, self._progress = total, progress
        self._packed = 0
        self.file: BinaryIO | None = None

    def read(self, size: int) -> bytes:
        """Read from the current file."""
        content = self.file.read(size) if self.file else b""
        self._packed = min(self._total, self._packed + len(content))
        if self._progress:
            self._progress(self._packed, self._total)
        return content


def _add(archive: tarfile.TarFile, path: str, member: SourceFile, counter: _PackedBytes) -> None:
    """Add a file to an archive, in pieces; raise SpecError if it cannot be read whole."""
    header = tarfile.TarInfo(path)  # owner and time are zero by default
    header.mode = _EXECUTABLE if member.executable else _PLAIN
    try:
        with member.origin.open("rb") as content:
            header.size = os.fstat(content.fileno()).st_size
            counter.file = content
            archive.addfile(header, cast(IO[bytes], counter))
    except OSError as error:
        if error.filename != str(member.origin) and error.errno is not None:
            raise  # of the disk that the archive is written to
        raise SpecError([_unreadable(member.origin, error)]) from error


def _unreadable(origin: Path, error: OSError) -> Problem:
    return Problem(
        what=f"a source file cannot be read ({error.strerror or error})",
        where=str(origin),
        fix="make it readable, or name it in .launcherignore",
    )


def _size_warning(user: tuple[SourceFile, ...]) -> Iterator[str]:
    total = sum(file.size for file in user)
    if total <= LARGE_SOURCE:
        return
    biggest = sorted(user, key=lambda file: (-file.size, file.path))[:_NAMED_FILES]
    listed = "\n".join(f"  {file.size / 2**20:8.1f} MiB  {file.path}" for file in biggest)
    yield (
        f"the source folder has {total / 2**20:.1f} MiB; the biggest files are\n{listed}\n"
        "  name what the job does not need in .launcherignore"
    )


def content_hash(content: bytes | Path) -> str:
    """Return the SHA-256 of bytes, or of a file that is read in pieces, in hexadecimal."""
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    found = hashlib.sha256()
    with content.open("rb") as file:
        while piece := file.read(_PIECE):
            found.update(piece)
    return found.hexdigest()
