"""Archives that may be bombs: read in small pieces, and unpacked only if there is room."""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
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
