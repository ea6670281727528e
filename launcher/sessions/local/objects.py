"""Where a job keeps files by name: below a folder of this machine, or below a prefix in S3."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

from launcher.errors import PlatformError
from launcher.sessions.local.storage import path_of, uri_of

if TYPE_CHECKING:
    from launcher.sessions.local.courier import Courier

#: What a file is called until it is complete.
PARTIAL = ".launcher-partial-"


class S3Failed(PlatformError):
    """S3 has refused, or has not answered; `code` is its own word for it, where it said one."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message, code)  # both travel with the error from process to process
        self.message, self.code = message, code

    def __str__(self) -> str:
        return self.message


class Place(Protocol):
    """Files by name ("step-1/weights"), seen whole or not at all."""

    @property
    def uri(self) -> str:
        """Where that is, as the job's owner named it."""

    def uri_of(self, name: str) -> str:
        """The URI of one file."""

    def fetch_all(self, folder: Path) -> None:
        """Copy every file into a folder that is there. Raises OSError or S3Failed."""

    def writing(self, name: str, *, patient: bool = True) -> AbstractContextManager[Path]:
        """A draft that becomes the file when the block ends well; else it is as if never written.

        patient: wait for an S3 that is away. Raises OSError or S3Failed at the block's end, when
        the file cannot be kept there.
        """


class FolderPlace:
    """Files below a folder of this machine."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._root = path_of(uri)

    def uri_of(self, name: str) -> str:
        return f"{uri_of(self._root)}/{quote(name)}"

    def fetch_all(self, folder: Path) -> None:
        for path in files_below(self._root):
            if path.is_file():
                copy_into(folder, path.relative_to(self._root), path)

    @contextmanager
    def writing(self, name: str, *, patient: bool = True) -> Iterator[Path]:
        target = self._root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(dir=target.parent, prefix=PARTIAL)
        os.close(descriptor)
        path = Path(draft)
        try:
            path.chmod(0o644)  # mkstemp's are for the owner alone
            yield path
            path.replace(target)
        finally:
            path.unlink(missing_ok=True)


class S3Place:
    """Files below a prefix in S3; the courier takes them there and back.

    drafts: a folder of this machine, where a file waits that S3 has not taken yet.
    """

    def __init__(self, uri: str, courier: Courier, drafts: Path) -> None:
        self.uri = uri
        self._courier = courier
        self._drafts = drafts

    def uri_of(self, name: str) -> str:
        return f"{self.uri.rstrip('/')}/{name}"

    def fetch_all(self, folder: Path) -> None:
        prefix = self.uri_of("")
        uris = [uri for uri, _ in self._courier.list(prefix) if not uri.endswith("/")]
        self._courier.fetch({uri: folder / safe_name(uri.removeprefix(prefix)) for uri in uris})

    @contextmanager
    def writing(self, name: str, *, patient: bool = True) -> Iterator[Path]:
        """As of a place; a file that S3 does not take is left in the folder of drafts."""
        complete = self._drafts / name
        draft = complete.with_name(PARTIAL + complete.name)
        draft.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield draft
            draft.replace(complete)
        finally:
            draft.unlink(missing_ok=True)
        try:
            self._courier.store({self.uri_of(name): complete}, patient=patient)
        except S3Failed as error:
            message = f"{error}; what was to go there is at {complete}"
            raise S3Failed(message, error.code) from error
        complete.unlink()


def safe_name(name: str) -> str:
    """The name, which is that of a file below a folder; PlatformError for one that leads out."""
    if ".." in name.split("/") or name.startswith("/") or "\0" in name:
        raise PlatformError(f"the object {name!r} cannot be a file: rename it")
    return name


def files_below(folder: Path) -> Iterator[Path]:
    """The files and links below a folder that are complete."""
    for parent, _, names in os.walk(folder):
        for name in sorted(names):
            if not name.startswith(PARTIAL):
                yield Path(parent, name)


def remove_partial(folder: Path) -> None:
    """Remove what a process that died was writing below a folder."""
    for draft in list(folder.rglob(f"{PARTIAL}*")):
        draft.unlink(missing_ok=True)


def copy_into(folder: Path, name: Path, source: Path) -> Path:
    """Copy one file to its name below a folder."""
    copy = folder / name
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, copy)
    return copy
