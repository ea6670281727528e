"""The results of a job: model.tar.gz and output.tar.gz, from the folders of all its hosts."""

from __future__ import annotations

import filecmp
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.sessions.local.cluster import Host
from launcher.sessions.local.opt_ml import HostTree
from launcher.sessions.local.storage import path_of, uri_of

#: Weights hardly get smaller, and the user waits.
_GZIP_LEVEL = 1


@dataclass(frozen=True, kw_only=True)
class Artifacts:
    """model: the URI of model.tar.gz; notes: what the user should know of their making."""

    model: str
    notes: tuple[str, ...]


def pack_artifacts(request: Mapping[str, Any], trees: Mapping[Host, HostTree]) -> Artifacts:
    """Write model.tar.gz, and output.tar.gz when there is output, to <S3OutputPath>/<job>/output.

    A file that several hosts wrote is the first host's. Raises OSError when it cannot be written.
    """
    base = path_of(request["OutputDataConfig"]["S3OutputPath"])
    place = base / request["TrainingJobName"] / "output"
    place.mkdir(parents=True, exist_ok=True)
    model_notes = _pack(place / "model.tar.gz", {h: t.ml.model for h, t in trees.items()})
    output_notes: list[str] = []
    outputs = {host: tree.ml.output_data for host, tree in trees.items()}
    if any(True for folder in outputs.values() for _ in folder.iterdir()):
        output_notes = _pack(place / "output.tar.gz", outputs)
    return Artifacts(model=uri_of(place / "model.tar.gz"), notes=tuple(model_notes + output_notes))


def _pack(archive: Path, folders: Mapping[Host, Path]) -> list[str]:
    """Write one archive of all the folders; a note for each file that lost to another host's."""
    notes: list[str] = []
    taken: dict[str, tuple[Host, Path]] = {}
    partial = archive.with_name(archive.name + ".partial")
    with tarfile.open(partial, "w:gz", compresslevel=_GZIP_LEVEL) as tar:
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
    partial.replace(archive)
    return notes


def _contents(folder: Path) -> Iterator[Path]:
    return iter(sorted(path for path in folder.rglob("*") if _is_packed(path)))


def _is_packed(path: Path) -> bool:
    """Files, folders and links; sockets and pipes mean nothing outside their job."""
    return path.is_symlink() or path.is_file() or path.is_dir()


def _differ(path: Path, other: Path) -> bool:
    if path.is_file() and other.is_file():
        return not filecmp.cmp(path, other, shallow=False)
    return path.is_dir() != other.is_dir()
