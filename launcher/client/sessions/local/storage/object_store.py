"""Object stores of a job: files kept by name, below a local folder or below a prefix in S3.

S3 has no links: a store there keeps them in one object, `.launcher-links.json`, by name.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

from launcher.client.sessions.local.storage.file_uris import path_of, uri_of
from launcher.client.sessions.local.storage.kept_links import stays_below
from launcher.errors import PlatformError

if TYPE_CHECKING:
    from launcher.client.sessions.local.storage.s3_process import S3Process

#: Prefix of a file's name until the file is complete.
PARTIAL = ".launcher-partial-"
_LINKS = ".launcher-links.json"


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

    @property
    def has_links(self) -> bool:
        """True if other programs see the store's links as links."""

    def uri_of(self, name: str) -> str:
        """Return the URI of one file."""

    def fetch_all(self, folder: Path) -> None:
        """Copy every file and link into an existing folder. Raises OSError or S3Failed."""

    def writing(self, name: str, *, wait_for_s3: bool = True) -> AbstractContextManager[Path]:
        """Yield a draft that becomes the file if the block succeeds, and is discarded if not.

        wait_for_s3: retry while S3 is unreachable. Raises OSError or S3Failed at the block's end if
        the file cannot be stored.
        """

    def writing_folder(
        self, name: str, *, wait_for_s3: bool = True
    ) -> AbstractContextManager[Path]:
        """Yield a draft, which replaces the folder of that name and all that is in it."""

    def link(self, name: str, text: str, *, wait_for_s3: bool = True) -> None:
        """Store a link to `text`, relative to the link's folder; it replaces what has its name."""


class FolderStore:
    """Files below a folder of this machine."""

    has_links = True

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._root = path_of(uri)

    def uri_of(self, name: str) -> str:
        """Return the URI of one file."""
        return f"{uri_of(self._root)}/{quote(name)}"

    def fetch_all(self, folder: Path) -> None:
        """Copy every file into an existing folder; links that leave the store as what they show."""
        for path in entries_below(self._root):
            name = path.relative_to(self._root)
            if self._has_link(name) or path.is_file():
                copy_into(folder, name, path, is_link=self._has_link(name))
            elif path.is_dir():
                shutil.copytree(path, folder / name)

    @contextmanager
    def writing_folder(self, name: str, *, wait_for_s3: bool = True) -> Iterator[Path]:
        """Yield a draft beside the folder, which replaces the folder if the block succeeds."""
        target = self._place(name)
        with _draft_folder(target.parent) as draft:
            yield draft
            _replace_any(target, draft)

    def link(self, name: str, text: str, *, wait_for_s3: bool = True) -> None:
        """Make a link, which replaces what has its name."""
        target = self._place(name)
        draft = target.with_name(f"{PARTIAL}{uuid.uuid4().hex}")
        draft.symlink_to(text)
        try:
            _replace_any(target, draft)
        finally:
            draft.unlink(missing_ok=True)

    def _place(self, name: str) -> Path:
        """Return the path of a name, whose folders are real ones: links were written by a job."""
        for above in reversed(PurePosixPath(name).parents):
            if self._has_link(above):
                (self._root / above).unlink()
        target = self._root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        return target

    def _has_link(self, name: PurePath) -> bool:
        path = self._root / name
        return path != self._root and path.is_symlink() and stays_below(name, str(path.readlink()))

    @contextmanager
    def writing(self, name: str, *, wait_for_s3: bool = True) -> Iterator[Path]:
        """Yield a draft beside the file, which replaces the file if the block succeeds."""
        target = self._place(name)
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

    has_links = False

    def __init__(self, uri: str, s3_process: S3Process, drafts: Path) -> None:
        self.uri = uri
        self._s3_process = s3_process
        self._drafts = drafts
        self._links: dict[str, str] = {}

    def uri_of(self, name: str) -> str:
        """Return the URI of one file."""
        return f"{self.uri.rstrip('/')}/{name}"

    def fetch_all(self, folder: Path) -> None:
        """Download every file into an existing folder. Raises OSError or S3Failed."""
        prefix = self.uri_of("")
        uris = [uri for uri, _ in self._s3_process.list(prefix) if not uri.endswith("/")]
        if self.uri_of(_LINKS) in uris:
            self._links = _read_links(self._s3_process.read(self.uri_of(_LINKS)), prefix)
        names = {uri: safe_name(uri.removeprefix(prefix)) for uri in uris}
        self._s3_process.fetch(
            {
                uri: folder / name
                for uri, name in names.items()
                if name != _LINKS and not self._links_above(name)
            }
        )
        for name, text in self._links.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).symlink_to(text)

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
        self._discard_links(name, wait_for_s3=wait_for_s3)
        self._upload({name: complete}, wait_for_s3=wait_for_s3)

    @contextmanager
    def writing_folder(self, name: str, *, wait_for_s3: bool = True) -> Iterator[Path]:
        """Yield a draft that is uploaded, once the objects below its name are removed."""
        complete = self._drafts / name
        complete.parent.mkdir(parents=True, exist_ok=True)
        with _draft_folder(complete.parent) as draft:
            yield draft
            _replace_any(complete, draft)
        self._discard_links(name, wait_for_s3=wait_for_s3)
        self._remove(name, wait_for_s3=wait_for_s3)
        files = entries_below(complete)
        self._upload(
            {path.relative_to(self._drafts).as_posix(): path for path in files},
            wait_for_s3=wait_for_s3,
        )
        shutil.rmtree(complete)

    def link(self, name: str, text: str, *, wait_for_s3: bool = True) -> None:
        """Add a link to those of the store; objects of its name are removed."""
        self._remove(name, wait_for_s3=wait_for_s3)
        self._write_links({**self._links, name: text}, wait_for_s3=wait_for_s3)

    def _upload(self, files: Mapping[str, Path], *, wait_for_s3: bool) -> None:
        """Store files, and remove them here; raise S3Failed, with the first one's path."""
        uris = {self.uri_of(name): path for name, path in files.items()}
        try:
            self._s3_process.store(uris, wait_for_s3=wait_for_s3)
        except S3Failed as error:
            message = f"{error}; the file is kept at {next(iter(files.values()))}"
            raise S3Failed(message, error.code) from error
        for path in files.values():
            path.unlink()

    def _remove(self, name: str, *, wait_for_s3: bool) -> None:
        """Remove the object of a name, and those below it."""
        uri = self.uri_of(name)
        found = [each for each, _ in self._s3_process.list(uri, wait_for_s3=wait_for_s3)]
        found = [each for each in found if each == uri or each.startswith(f"{uri}/")]
        if found:
            self._s3_process.delete(found, wait_for_s3=wait_for_s3)

    def _discard_links(self, name: str, *, wait_for_s3: bool) -> None:
        """Remove the link of a name, and those in place of its folders."""
        if old := self._links_above(name):
            kept = {each: text for each, text in self._links.items() if each not in old}
            self._write_links(kept, wait_for_s3=wait_for_s3)

    def _write_links(self, links: dict[str, str], *, wait_for_s3: bool) -> None:
        with self.writing(_LINKS, wait_for_s3=wait_for_s3) as draft:
            draft.write_text(json.dumps(links, indent=1, sort_keys=True))
        self._links = links

    def _links_above(self, name: str) -> list[str]:
        path = PurePosixPath(name)
        return [str(each) for each in (path, *path.parents) if str(each) in self._links]


def _read_links(content: bytes, prefix: str) -> dict[str, str]:
    """Return the text of each link by name; raise PlatformError where one leaves the store."""
    try:
        links = {safe_name(str(name)): str(text) for name, text in json.loads(content).items()}
    except (ValueError, AttributeError) as error:
        raise PlatformError(
            f"{prefix}{_LINKS} cannot be read ({error}): remove it, then its links are not restored"
        ) from error
    for name, text in links.items():
        if not stays_below(PurePosixPath(name), text):
            raise PlatformError(f"{prefix}{_LINKS} has a link out of its prefix: {name} -> {text}")
    return links


@contextmanager
def _draft_folder(parent: Path) -> Iterator[Path]:
    """Yield a new folder, which is removed after the block unless it was moved."""
    draft = Path(tempfile.mkdtemp(dir=parent, prefix=PARTIAL))
    try:
        draft.chmod(0o755)  # mkdtemp's folders can be entered by the owner only
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _replace_any(target: Path, draft: Path) -> None:
    """Put a draft in place of a file, a link or a folder with all that is in it."""
    if not _is_folder(target) and not (_is_folder(draft) and os.path.lexists(target)):
        draft.replace(target)
        return
    with _draft_folder(target.parent) as earlier:
        target.rename(earlier / target.name)
        try:
            draft.rename(target)
        except OSError:
            (earlier / target.name).rename(target)
            raise


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def safe_name(name: str) -> str:
    """Return the name if it stays below its folder; otherwise raise PlatformError."""
    if ".." in name.split("/") or name.startswith("/") or "\0" in name:
        raise PlatformError(f"the object name {name!r} is not a valid file name: rename the object")
    return name


def entries_below(folder: Path) -> Iterator[Path]:
    """Yield the complete files and the links below a folder; no link is followed."""
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(PARTIAL)]
        links = [name for name in folders if Path(parent, name).is_symlink()]
        for name in sorted([*files, *links]):
            if not name.startswith(PARTIAL):
                yield Path(parent, name)


def remove_partial(folder: Path) -> None:
    """Remove the partial files that a dead process left below a folder."""
    for draft in list(folder.rglob(f"{PARTIAL}*")):
        if _is_folder(draft):
            shutil.rmtree(draft)
        else:
            draft.unlink(missing_ok=True)


def copy_into(folder: Path, name: Path, source: Path, *, is_link: bool = False) -> Path:
    """Copy a file, or with `is_link` a link, to a name below a folder; return the copy's path."""
    copy = folder / name
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, copy, follow_symlinks=not is_link)
    return copy
