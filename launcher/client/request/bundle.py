"""The code bundle: a reproducible archive of the user's source and Launcher's job-side code.

The same files give the same bytes on every machine: names are sorted, times and owners are zero,
and a file's mode is 0644 or 0755. The archive's SHA-256 therefore identifies its content.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """An archive (tar.gz) that is ready for upload.

    sha256: the hash of `content`, in hexadecimal. files: the archive's paths, sorted.
    warnings: messages for the user, each one sentence or one list.
    """

    content: bytes
    sha256: str
    files: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def build_bundle(spec: JobSpec) -> Bundle:
    """Pack the source folder and the job-side code; raise SpecError for links that leave it."""
    tree = SourceTree(spec)
    members = sorted(
        [(f"{BUNDLE_CODE}/{file.path}", file) for file in tree.files]
        + [(f"{BUNDLE_LIBRARY}/{file.path}", file) for file in job_world()]
    )
    return _bundle(members, tree)


def build_source(spec: JobSpec) -> Bundle:
    """Pack the source folder alone, flat, for AWS's toolkit; raise SpecError as `build_bundle`."""
    tree = SourceTree(spec)
    return _bundle([(file.path, file) for file in tree.files], tree)


def _bundle(members: list[tuple[str, SourceFile]], tree: SourceTree) -> Bundle:
    content = _pack(members)
    return Bundle(
        content=content,
        sha256=hashlib.sha256(content).hexdigest(),
        files=tuple(path for path, _ in members),
        warnings=(*tree.warnings, *_size_warning(tree.files)),
    )


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


def _pack(members: Iterable[tuple[str, SourceFile]]) -> bytes:
    packed = io.BytesIO()
    # An empty name and mtime 0 make the gzip header the same everywhere.
    with (
        gzip.GzipFile(
            filename="", fileobj=packed, mode="wb", compresslevel=_LEVEL, mtime=0
        ) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path, file in members:
            content = _read(file.origin)
            archive.addfile(_header(path, len(content), file), io.BytesIO(content))
    return packed.getvalue()


def _header(path: str, size: int, file: SourceFile) -> tarfile.TarInfo:
    header = tarfile.TarInfo(path)  # owner and time are zero by default
    header.size = size
    header.mode = _EXECUTABLE if file.executable else _PLAIN
    return header


def _read(origin: Path) -> bytes:
    try:
        return origin.read_bytes()
    except OSError as error:
        raise SpecError(
            [
                Problem(
                    what=f"a source file cannot be read ({error.strerror})",
                    where=str(origin),
                    fix="make it readable, or name it in .launcherignore",
                )
            ]
        ) from error


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
