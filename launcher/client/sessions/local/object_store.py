"""Object stores of a job: files kept by name, below a local folder or below a prefix in S3."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

from launcher.client.sessions.local.file_uris import path_of, uri_of
from launcher.errors import PlatformError

if TYPE_CHECKING:
    from launcher.client.sessions.local.s3_process import S3Process

#: Prefix of a file's name until the file is complete.
PARTIAL = ".launcher-partial-"


class S3Failed(PlatformError):
    """Raised when S3 refused or did not respond; `code` is S3's error code, "" if it gave none."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message, code)  # pickling keeps both, for the pipe between the processes
        self.message, self.code = message, code

    def __str__(self) -> str:
        return self.message


class ObjectStore(Protocol):
    """A store of files by name ("step-1/weights"); a file is visible whole or not at all."""

    @property
    def uri(self) -> str:
        """The URI of the store, as the job's owner gave it."""

    def uri_of(self, name: str) -> str:
        """Return the URI of one file."""

    def fetch_all(self, folder: Path) -> None:
        """Copy every file into an existing folder. Raises OSError or S3Failed."""

    def writing(self, name: str, *, wait_for_s3: bool = True) -> AbstractContextManager[Path]:
        """Yield a draft that becomes the file if the block succeeds, and is discarded if not.

        wait_for_s3: retry while S3 is unreachable. Raises OSError or S3Failed at the block's end if
        the file cannot be stored.
        """


class FolderStore:
    """Files below a folder of this machine."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._root = path_of(uri)

    def uri_of(self, name: str) -> str:
        """Return the URI of one file."""
        return f"{uri_of(self._root)}/{quote(name)}"

    def fetch_all(self, folder: Path) -> None:
        """Copy every file into an existing folder."""
        for path in files_below(self._root):
            if path.is_file():
                copy_into(folder, path.relative_to(self._root), path)

    @contextmanager
    def writing(self, name: str, *, wait_for_s3: bool = True) -> Iterator[Path]:
        """Yield a draft beside the file, which replaces the file if the block succeeds."""
        target = self._root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(dir=target.parent, prefix=PARTIAL)
        os.close(descriptor)
        path = Path(draft)
        try:
            path.chmod(0o644)  # mkstemp's files are readable by the owner only
            yield path
            path.replace(target)
        finally:
            path.unlink(missing_ok=True)


class S3Store:
    """Files below a prefix in S3, transferred by the job's S3 process.

    drafts: a folder of this machine for files that have not been stored in S3 yet.
    """

    def __init__(self, uri: str, s3_process: S3Process, drafts: Path) -> None:
        self.uri = uri
        self._s3_process = s3_process
        self._drafts = drafts

    def uri_of(self, name: str) -> str:
        """Return the URI of one file."""
        return f"{self.uri.rstrip('/')}/{name}"

    def fetch_all(self, folder: Path) -> None:
        """Download every file into an existing folder. Raises OSError or S3Failed."""
        prefix = self.uri_of("")
        uris = [uri for uri, _ in self._s3_process.list(prefix) if not uri.endswith("/")]
        self._s3_process.fetch({uri: folder / safe_name(uri.removeprefix(prefix)) for uri in uris})

    @contextmanager
    def writing(self, name: str, *, wait_for_s3: bool = True) -> Iterator[Path]:
        """Yield a draft that is uploaded if the block succeeds; if S3 fails, keep it locally."""
        complete = self._drafts / name
        draft = complete.with_name(PARTIAL + complete.name)
        draft.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield draft
            draft.replace(complete)
        finally:
            draft.unlink(missing_ok=True)
        try:
            self._s3_process.store({self.uri_of(name): complete}, wait_for_s3=wait_for_s3)
        except S3Failed as error:
            message = f"{error}; the file is kept at {complete}"
            raise S3Failed(message, error.code) from error
        complete.unlink()


def safe_name(name: str) -> str:
    """Return the name if it stays below its folder; otherwise raise PlatformError."""
    if ".." in name.split("/") or name.startswith("/") or "\0" in name:
        raise PlatformError(f"the object name {name!r} is not a valid file name: rename the object")
    return name


def files_below(folder: Path) -> Iterator[Path]:
    """Yield the complete files and links below a folder."""
    for parent, _, names in os.walk(folder):
        for name in sorted(names):
            if not name.startswith(PARTIAL):
                yield Path(parent, name)


def remove_partial(folder: Path) -> None:
    """Remove the partial files that a dead process left below a folder."""
    for draft in list(folder.rglob(f"{PARTIAL}*")):
        draft.unlink(missing_ok=True)


def copy_into(folder: Path, name: Path, source: Path) -> Path:
    """Copy one file to a name below a folder, and return the copy's path."""
    copy = folder / name
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, copy)
    return copy
