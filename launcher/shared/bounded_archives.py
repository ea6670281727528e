"""Archives that may be hostile: read in small pieces, and unpacked where there is room for them.

What they unpack stays in its folder, also on Python below 3.10.12 and 3.11.4, whose tarfile has no
filter for that.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

_LARGEST_READ = 16 << 20
#: More files than any source has; each takes a kilobyte of memory before it is unpacked.
_MOST_FILES = 200_000
#: Space that unpacking leaves, for logs and results.
_RESERVE = 1 << 20
#: By the first bytes of a file.
_OPENERS: Mapping[bytes, Callable[[Path], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}


@contextmanager
def open_archive(path: Path) -> Iterator[tarfile.TarFile]:
    """Open a tar archive, compressed or not.

    Raises tarfile.TarError, OSError or EOFError for a file that is none or is damaged, also within
    the block; ReadError for a header of more than 16 MiB, which tarfile would take into memory.
    """
    with path.open("rb") as raw:
        start = raw.read(6)
    opener = next((opener for magic, opener in _OPENERS.items() if start.startswith(magic)), None)
    try:
        with (
            opener(path) if opener else path.open("rb") as stream,
            tarfile.open(fileobj=cast("IO[bytes]", _SmallReads(stream)), mode="r:") as archive,
        ):
            yield archive
    except (lzma.LZMAError, zlib.error, ValueError) as error:  # ValueError: a damaged header
        raise tarfile.ReadError(str(error)) from error


class _SmallReads:
    """A stream that is never read in large pieces."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.seek, self.tell = stream.seek, stream.tell

    def read(self, size: int) -> bytes:
        """Read so many bytes; raise ReadError for more than tarfile needs at once."""
        if not 0 <= size <= _LARGEST_READ:
            raise tarfile.ReadError(f"it has a header of {size} bytes")
        return self._stream.read(size)


def space_problem(archive: tarfile.TarFile, folder: Path) -> str | None:
    """Return the problem if an archive has more than fits on a folder's disk; None if it fits.

    Reads no more of the archive than is needed to say so. Of one that fits, the checksum is
    compared, which follows the last file. Raises what `open_archive` raises in its block.
    """
    free = shutil.disk_usage(folder).free - _RESERVE
    size = 0
    for number, member in enumerate(archive, start=1):
        size += max(member.size, 0)
        if size > free:
            return (
                f"it unpacks to more than the {max(free, 0) // 1_000_000} MB that are free at "
                f"{folder}"
            )
        if number > _MOST_FILES:
            return f"it has more than {_MOST_FILES} files"
    if archive.fileobj is not None:
        archive.fileobj.read(_LARGEST_READ)  # to the end, where the checksum is
    return None


def extract_all(archive: tarfile.TarFile, folder: Path) -> None:
    """Unpack an archive below a folder; raise TarError for a member that would leave it."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, filter="data")
        return
    root = Path(os.path.realpath(folder))
    for member in archive:
        _require_inside(member, root)
        member.mode &= 0o755  # no special bits, and nothing that others may write
        member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
        archive.extract(member, root)


def _require_inside(member: tarfile.TarInfo, root: Path) -> None:
    """Raise ReadError for a member that is, or links to, a place out of a folder, or is a device.

    The links that were unpacked before are followed.
    """
    parent = PurePosixPath(member.name).parent if member.issym() else PurePosixPath()
    targets = [member.linkname] if member.issym() or member.islnk() else []
    if not (targets or member.isfile() or member.isdir()):
        raise tarfile.ReadError(f"{member.name} is neither a file, a folder nor a link")
    for name, text in [
        (PurePosixPath(member.name), ""),
        *((parent / each, each) for each in targets),
    ]:
        if name.is_absolute() or not Path(os.path.realpath(root / name)).is_relative_to(root):
            link = f" links to {text}, which" if text else ""
            raise tarfile.ReadError(f"{member.name}{link} is outside of the archive's folder")
