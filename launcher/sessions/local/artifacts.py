"""The results of a job: model.tar.gz and output.tar.gz, from the folders of all its hosts."""

from __future__ import annotations

import filecmp
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.sessions.local.cluster import Host
from launcher.sessions.local.files import open_up
from launcher.sessions.local.opt_ml import HostTree
from launcher.sessions.local.storage import path_of, uri_of

#: Weights hardly get smaller, and the user waits.
_GZIP_LEVEL = 1
_DRAFT_SUFFIX = ".partial"


@dataclass(frozen=True, kw_only=True)
class Artifacts:
    """What a job left.

    model: the URI of model.tar.gz, None when the hosts left no model; notes: what the user should
        know of the making.
    """

    model: str | None
    notes: tuple[str, ...]


def pack_artifacts(request: Mapping[str, Any], trees: Mapping[Host, HostTree]) -> Artifacts:
    """Write model.tar.gz and output.tar.gz, of what there is, to <S3OutputPath>/<job>/output.

    A file that several hosts wrote is the first host's. Raises OSError when it cannot be written.
    """
    for tree in trees.values():
        open_up(tree.ml.model)
        open_up(tree.ml.output_data)
    place = _place(request)
    place.mkdir(parents=True, exist_ok=True)
    model, output = place / "model.tar.gz", place / "output.tar.gz"
    notes = _pack(model, {host: tree.ml.model for host, tree in trees.items()})
    notes += _pack(output, {host: tree.ml.output_data for host, tree in trees.items()})
    return Artifacts(model=uri_of(model) if model.exists() else None, notes=tuple(notes))


def discard_drafts(request: Mapping[str, Any]) -> None:
    """Remove what a platform process that died was writing; the hosts' folders are still there."""
    for draft in _place(request).glob(f"*{_DRAFT_SUFFIX}"):
        draft.unlink(missing_ok=True)


def _place(request: Mapping[str, Any]) -> Path:
    base = path_of(request["OutputDataConfig"]["S3OutputPath"])
    return Path(base, request["TrainingJobName"], "output")


def _pack(archive: Path, folders: Mapping[Host, Path]) -> list[str]:
    """Write one archive of all the folders, unless they are empty.

    Returns a note for each file that lost to another host's.
    """
    notes: list[str] = []
    if not any(True for folder in folders.values() for _ in folder.iterdir()):
        return notes
    taken: dict[str, tuple[Host, Path]] = {}
    with _draft_of(archive) as draft, tarfile.open(draft, "w:gz", compresslevel=_GZIP_LEVEL) as tar:
        for host, folder in folders.items():
            for path in _contents(folder):
                name = path.relative_to(folder).as_posix()
                if name not in taken:
                    taken[name] = (host, path)
                    tar.add(path, arcname=name, recursive=False)
                elif _differ(path, taken[name][1]):
                    notes.append(
                        f"{archive.name} has {name} of {taken[name][0].name}; "
                        f"that of {host.name} differs and was left out"
                    )
    return notes


@contextmanager
def _draft_of(archive: Path) -> Iterator[Path]:
    """A file that becomes the archive when it is complete, and is gone when it cannot be."""
    draft = archive.with_name(archive.name + _DRAFT_SUFFIX)
    try:
        yield draft
        draft.replace(archive)
    finally:
        draft.unlink(missing_ok=True)


def _contents(folder: Path) -> Iterator[Path]:
    return iter(sorted(path for path in folder.rglob("*") if _is_packed(path)))


def _is_packed(path: Path) -> bool:
    """Files, folders and links; sockets and pipes mean nothing outside their job."""
    return path.is_symlink() or path.is_file() or path.is_dir()


def _differ(path: Path, other: Path) -> bool:
    if path.is_file() and other.is_file():
        return not filecmp.cmp(path, other, shallow=False)
    return path.is_dir() != other.is_dir()
