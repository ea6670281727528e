"""The manifest of a finished checkpoint, which is written last and lists its files."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from launcher.errors import ParallelError
from launcher.shared.parallel_dims import ParallelDims

FORMAT = 1
NAME = "manifest.json"
_PIECE = 1 << 20  # bytes read at once


@dataclass(frozen=True, kw_only=True)
class Contents:
    """Size in bytes and hash of a file."""

    size: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """A complete checkpoint. degrees: of the job that saved it. files: by name.

    tied: names of tied parameters, each with the one that it is saved under.
    """

    step: int
    degrees: Mapping[str, Any]
    tied: Mapping[str, str]
    files: Mapping[str, Contents]


def dims_fields(degrees: ParallelDims) -> dict[str, Any]:
    """Return the degrees as a manifest holds them."""
    return {
        "world": degrees.world,
        "pipeline": degrees.pipeline,
        "data": degrees.data,
        "placement": degrees.placement.value,
    }


def contents_of(file: Path) -> Contents:
    """Return the size and hash of a file."""
    digest, size = hashlib.sha256(), 0
    with file.open("rb") as stream:
        while piece := stream.read(_PIECE):
            digest.update(piece)
            size += len(piece)
    return Contents(size=size, sha256=digest.hexdigest())


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest atomically; it is on disk when this returns."""
    text = json.dumps({"format": FORMAT, **asdict(manifest)}, indent=1, sort_keys=True)
    part = folder / f"{NAME}.part"
    with part.open("w") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(folder / NAME)
    at = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(at)
    finally:
        os.close(at)


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a checkpoint.

    Raises ParallelError for one of a newer Launcher, and ValueError for a damaged one.
    """
    try:
        raw = json.loads((folder / NAME).read_text())
        if raw["format"] != FORMAT:
            raise ParallelError(
                f"{folder / NAME} has format {raw['format']}, but this Launcher reads only "
                f"{FORMAT}: use the version of Launcher that wrote it, or a newer one"
            )
        files = {_inside(name): Contents(**each) for name, each in raw["files"].items()}
        return Manifest(
            step=int(raw["step"]), degrees=raw["degrees"], tied=dict(raw["tied"]), files=files
        )
    except (KeyError, TypeError, AttributeError, UnicodeDecodeError) as error:
        raise ValueError(f"{error!r}") from error


def _inside(name: str) -> str:
    """Return the name of a file if it stays below its folder; otherwise raise ValueError."""
    if name.startswith("/") or "\0" in name or not {"", ".", ".."}.isdisjoint(name.split("/")):
        raise ValueError(f"{name!r} is no name of a file below the checkpoint's folder")
    return name


def find_problem(folder: Path, *, hashes: bool = True) -> str | None:
    """Return the problem of a checkpoint as text, or None if it is complete.

    hashes: if true, also read the files and compare their hashes.
    """
    if not (folder / NAME).exists():
        return f"has no {NAME}"
    try:
        manifest = read_manifest(folder)
    except ValueError as error:
        return f"{NAME} is damaged: {error}"
    if folder.name != f"step-{manifest.step}":
        return f"{NAME} is damaged: it belongs to step {manifest.step}"
    for name, wanted in sorted(manifest.files.items()):
        if problem := _find_file_problem(folder / name, wanted, hashes=hashes):
            return f"{name} {problem}"
    return None


def _find_file_problem(file: Path, wanted: Contents, *, hashes: bool) -> str | None:
    try:
        size = file.stat().st_size
    except FileNotFoundError:
        return "is missing"
    if size != wanted.size:
        return f"has {size} bytes instead of {wanted.size}"
    if hashes and contents_of(file) != wanted:
        return "is damaged: its hash differs from the manifest's"
    return None
