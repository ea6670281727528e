"""The checkpoint folders of the hosts, kept in sync with CheckpointConfig's S3Uri.

As on SageMaker, every host has the folder, and it is filled before the host starts. While the job
runs, the files of all hosts are copied to the one location; if several hosts write the same name,
the last writer wins. Nothing is ever deleted there. A file is copied once it has not changed for
a second, or once its host has ended. A link is stored after all that it names (`kept_links`).
"""

from __future__ import annotations

import contextlib
import shutil
import stat
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath
from types import TracebackType

from launcher.client.sessions.local.host.host_folder import HostFolder
from launcher.client.sessions.local.storage.kept_links import LinkEnd, read_link, shown_files
from launcher.client.sessions.local.storage.object_store import (
    ObjectStore,
    S3Failed,
    copy_into,
    entries_below,
)
from launcher.shared import DEFAULT_ML_ROOT

_PERIOD_SECONDS = 1.0


class _Changed(Exception):
    """Raised when a file was written to while it was copied; a later round copies it again."""


class CheckpointSync:
    """Restores the hosts' checkpoint folders, and copies what they write there while a block runs.

    problem: why the last round of copies failed; None when it did not.
    outside: the names of links out of their host or to a folder around their own; not copied.
    """

    def __init__(self, store: ObjectStore, path_in_host: str, trees: Iterable[HostFolder]) -> None:
        self.problem: str | None = None
        self.outside: set[str] = set()
        self._store = store
        self._path_in_host = PurePosixPath(path_in_host)
        self._trees = {_folder(tree, self._path_in_host): tree for tree in trees}
        self._folders = list(self._trees)
        self._stored: dict[Path, tuple[object, ...]] = {}
        self._seen: dict[Path, tuple[object, ...]] = {}
        self._links: dict[Path, str] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="checkpoints", daemon=True)

    def restore(self) -> None:
        """Copy the stored checkpoints into every host's folder. Raises OSError or S3Failed."""
        for folder in self._folders:
            folder.mkdir(parents=True, exist_ok=True)
        first, *others = self._folders
        self._store.fetch_all(first)
        for path in list(entries_below(first)):
            name, is_link = path.relative_to(first), path.is_symlink()
            copies = (copy_into(folder, name, path, is_link=is_link) for folder in others)
            for copy in (path, *copies):
                if is_link:
                    self._links[copy] = str(copy.readlink())
                else:
                    self._stored[copy] = _version(copy)

    def __enter__(self) -> CheckpointSync:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Copy the last files, after the hosts have ended."""
        self._stop.set()
        self._thread.join()
        self._copy_changed(is_final=True)

    def _run(self) -> None:
        while not self._stop.wait(_PERIOD_SECONDS):
            self._copy_changed()

    def _copy_changed(self, *, is_final: bool = False) -> None:
        """Copy new and changed files, if unchanged since the last round (or `is_final`)."""
        self.problem = None
        self._links = {path: text for path, text in self._links.items() if path.is_symlink()}
        for folder in self._folders:
            try:
                paths = list(entries_below(folder))
            except RecursionError:
                self._fail("folders too deep")
                continue
            links = [path for path in paths if path.is_symlink()]
            for path in paths:
                if not path.is_symlink():
                    self._try(self._copy_file, path, path, folder, is_final)
            for link in sorted(links, key=lambda path: -len(path.parts)):
                self._try(self._copy_link, link, folder, is_final)

    def _fail(self, reason: str) -> None:
        self.problem = f"cannot write checkpoints to {self._store.uri}: {reason}"

    def _try(self, copy: Callable[..., None], *arguments: object) -> None:
        """Copy something; a failure is the problem, so that it does not lose the others."""
        try:
            copy(*arguments)
        except FileNotFoundError:  # removed or replaced meanwhile
            pass
        except (OSError, S3Failed) as error:
            self._fail(str(error))

    def _waits(self, is_final: bool) -> bool:
        """Return whether to wait for an unreachable S3: once, not once per file."""
        return is_final and self.problem is None

    def _copy_file(self, path: Path, source: Path, folder: Path, is_final: bool) -> None:
        """Copy the file at a path, which for a link is `source`."""
        name = path.relative_to(folder).as_posix()
        if not self._trees[folder].has(source):
            self.outside.add(name)
            return
        version = _version(source)
        if not self._is_new(path, version, is_final):
            return
        with contextlib.suppress(_Changed):
            with self._store.writing(name, wait_for_s3=self._waits(is_final)) as draft:
                shutil.copy2(source, draft)
                if _version(source) != version:
                    raise _Changed
            self._stored[path] = version

    def _is_new(self, path: Path, version: tuple[object, ...], is_final: bool) -> bool:
        """Return whether a version is not stored, and has stayed for a round (or `is_final`)."""
        is_quiet = is_final or self._seen.get(path) == version
        self._seen[path] = version
        return is_quiet and version != self._stored.get(path)

    def _copy_link(self, link: Path, folder: Path, is_final: bool) -> None:
        found = read_link(link, folder, self._trees[folder])
        if found.end in (LinkEnd.OUTSIDE, LinkEnd.AROUND):
            self.outside.add(link.relative_to(folder).as_posix())
        elif found.end is LinkEnd.KEPT and found.text is not None:
            self._keep_link(link, found.target, found.text, folder, is_final)
        elif found.end is LinkEnd.IN_HOST and found.target.is_dir():
            self._copy_folder(link, found.target, folder, is_final)
        elif found.end is LinkEnd.IN_HOST:
            self._copy_file(link, found.target, folder, is_final)

    def _keep_link(self, link: Path, target: Path, text: str, folder: Path, is_final: bool) -> None:
        """Store a link once all that it names is stored, so that it never names a part."""
        if self._links.get(link) == text or not self._is_stored(target, folder):
            return
        name = link.relative_to(folder).as_posix()
        self._store.link(name, text, wait_for_s3=self._waits(is_final))
        self._links[link] = text
        self._stored = {each: v for each, v in self._stored.items() if link not in each.parents}

    def _is_stored(self, target: Path, folder: Path) -> bool:
        root = self._trees[folder].locate(folder)
        files = entries_below(target) if target.is_dir() else iter((target,))
        return root is not None and all(
            self._stored.get(folder / file.relative_to(root)) == _version(file)
            for file in files
            if file.is_file() and not file.is_symlink()
        )

    def _copy_folder(self, link: Path, shown: Path, folder: Path, is_final: bool) -> None:
        """Copy a folder from elsewhere in the host, in place of what was stored of it before."""
        name = link.relative_to(folder).as_posix()
        files: dict[str, Path] = {}
        for each, file in shown_files(shown, self._trees[folder]):
            if file is None:
                self.outside.add(f"{name}/{each}")
            else:
                files[str(each)] = file
        version = _versions(files)
        if not self._is_new(link, version, is_final):
            return
        with contextlib.suppress(_Changed):
            with self._store.writing_folder(name, wait_for_s3=self._waits(is_final)) as draft:
                for inside, source in files.items():
                    copy_into(draft, Path(inside), source)
                if _versions(files) != version:
                    raise _Changed
            self._stored[link] = version


def _folder(tree: HostFolder, path_in_host: PurePosixPath) -> Path:
    """Return the path on this machine of a host's checkpoint folder."""
    return tree.ml.root / path_in_host.relative_to(DEFAULT_ML_ROOT)


def _versions(files: Mapping[str, Path]) -> tuple[object, ...]:
    return tuple((name, _version(file)) for name, file in sorted(files.items()))


def _version(path: Path) -> tuple[int, ...]:
    """Return a value that changes with the file; raise FileNotFoundError if it is not a file."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise FileNotFoundError(path)
    return (status.st_mtime_ns, status.st_size, status.st_ino)
