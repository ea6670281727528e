"""file:// URIs: conversion to and from paths, and upload and download of single files."""

from __future__ import annotations

import shutil
from pathlib import Path
from urllib.parse import quote, unquote

from launcher.client.sessions.base import Progress
from launcher.client.sessions.local.storage.atomic_files import write_atomically
from launcher.client.sessions.local.storage.file_access import translate_write_errors
from launcher.errors import PlatformError
from launcher.shared import replacing

_SCHEME = "file://"


def path_of(uri: str) -> Path:
    """Return the path that a file:// URI names; raise PlatformError for any other URI.

    >>> path_of("file:///data/my%20digits")
    PosixPath('/data/my digits')
    """
    path = unquote(uri.removeprefix(_SCHEME))
    if not uri.startswith(_SCHEME) or not path.startswith("/"):
        raise PlatformError(
            f"{uri!r} is not on this machine: use file:///absolute/path for a local job"
        )
    return Path(path)


def uri_of(path: Path) -> str:
    """Return the file:// URI of an absolute path."""
    return _SCHEME + quote(str(path))


def upload(content: bytes | Path, uri: str) -> None:
    """Store one object atomically. Raises PlatformError when it cannot be written."""
    path = path_of(uri)
    with translate_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            write_atomically(path, content)
        else:
            with replacing(path) as draft:
                shutil.copyfile(content, draft)


def download(uri: str, path: Path, progress: Progress | None = None) -> None:
    """Copy one object into a file, which appears when it is whole.

    Raises PlatformError when there is no such object, and OSError.
    """
    source = path_of(uri)
    if not source.is_file():
        raise PlatformError(f"the object {uri} does not exist: {source} is not a file")
    with replacing(path) as draft:
        shutil.copyfile(source, draft)
    if progress:
        size = source.stat().st_size
        progress(size, size)
