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
from launcher.shared import ParallelDims

FORMAT = 1
NAME = "manifest.json"
_PIECE = 1 << 20  # bytes read at once
#: The key of the hash of all other entries; manifests of before lack it.
_DIGEST = "digest"


class OtherFormatError(ParallelError):
    """A checkpoint was written by a Launcher whose format this one does not read."""


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
    written = {"format": FORMAT, **asdict(manifest)}
    text = json.dumps(written | {_DIGEST: _digest(written)}, indent=1, sort_keys=True)
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


def _digest(manifest: Mapping[str, Any]) -> str:
    text = json.dumps(manifest, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a checkpoint.

    Raises OtherFormatError, and ValueError for a damaged or edited one.
    """
    try:
        raw = json.loads((folder / NAME).read_text())
        if raw["format"] != FORMAT:
            raise OtherFormatError(
                f"{folder / NAME} has format {raw['format']}, but this Launcher reads only "
                f"{FORMAT}: use the version of Launcher that wrote it, or a newer one"
            )
        digest = raw.pop(_DIGEST, None)
        if digest is not None and digest != _digest(raw):
            raise ValueError("its contents differ from its digest")
        return _manifest(raw)
    except (KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"{error!r}") from error
    except OSError as error:
        raise ValueError(str(error)) from error


def _manifest(raw: Mapping[str, Any]) -> Manifest:
    files = {_inside(name): Contents(**each) for name, each in raw["files"].items()}
    if int(raw["degrees"]["data"]) < 1:
        raise ValueError(f"{raw['degrees']['data']} replicas")
    if strange := [
        each for pair in dict(raw["tied"]).items() for each in pair if type(each) is not str
    ]:
        raise ValueError(f"{strange[0]!r} is no name of a parameter")
    return Manifest(
        step=int(raw["step"]), degrees=raw["degrees"], tied=dict(raw["tied"]), files=files
    )


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
    except OtherFormatError as error:
        return str(error)
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
        if size != wanted.size:
            return f"has {size} bytes instead of {wanted.size}"
        if hashes and contents_of(file) != wanted:
            return "is damaged: its hash differs from the manifest's"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read: {error}"
    return None


def is_of_other_format(folder: Path) -> bool:
    """Return whether a checkpoint is of a format that another version of Launcher reads."""
    try:
        read_manifest(folder)
    except OtherFormatError:
        return True
    except ValueError:
        return False
    return False
