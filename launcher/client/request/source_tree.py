"""The user's source: the files that are sent with a job."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from launcher.client.request.ignore import IgnoreRules
from launcher.client.spec import JobSpec
from launcher.errors import Problem, SpecError
from launcher.shared.partitions import PartitionFile


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """A file to pack: its path in the bundle (posix, relative) and its origin on disk."""

    path: str
    origin: Path
    size: int
    executable: bool


class SourceTree:
    """The files that are sent with a spec, without ignored ones; the `Source` of the spec's rules.

    They are the content of `source_dir`, or the entry point's script alone without one, and each
    of the `dependencies` beside it under its base name, as in SDK v2.
    """

    def __init__(self, spec: JobSpec) -> None:
        self.remote = spec.source_dir if spec.has_remote_source else None
        self.folder = None if spec.source_dir is None else Path(spec.source_dir)
        self.script = Path(spec.entry_point)
        self.dependencies = tuple(map(Path, spec.dependencies))
        self.partition_file = getattr(spec.distribution, "partition_file", None)

    def exists(self, path: str) -> bool:
        """Return whether a file, given relative to the tree, is sent with the job."""
        return os.path.normpath(path) in self._by_path

    @property
    def paths(self) -> Iterable[str]:
        """The paths of the files that are sent."""
        return self._by_path

    def read_text(self, path: str) -> str:
        """Return the text of a file that exists; undecodable bytes are replaced."""
        origin = self._by_path[os.path.normpath(path)].origin
        return origin.read_text(encoding="utf-8", errors="replace")

    @cached_property
    def files(self) -> tuple[SourceFile, ...]:
        """Every file that is sent, sorted by path.

        Raises SpecError listing all links that leave the folder and all unusable dependencies, and
        for a source in S3 that nobody has fetched.
        """
        if self.remote is not None:
            raise SpecError([_not_fetched(self.remote)])
        problems: list[Problem] = []
        found = list(_walk(self.folder, "", problems) if self.folder else _single(self.script))
        for dependency in self.dependencies:
            taken = {file.path.partition("/")[0] for file in found}
            if problem := _dependency_problem(dependency, taken):
                problems.append(problem)
            elif dependency.is_dir():
                found += _walk(dependency, dependency.name + "/", problems)
            else:
                found += _single(dependency)
        if problems:
            raise SpecError(problems)
        return tuple(sorted(found, key=lambda file: file.path))

    @cached_property
    def partition(self) -> PartitionFile | None:
        """The content of the job's partition_file, if it has one; it is sent beside the tree.

        Raises ParallelError.
        """
        return PartitionFile.read(Path(self.partition_file)) if self.partition_file else None

    @cached_property
    def _by_path(self) -> dict[str, SourceFile]:
        return {file.path: file for file in self.files}


def _not_fetched(uri: str) -> Problem:
    return Problem(
        what=f"the source {uri} is in S3, and was not fetched to be packed with Launcher",
        where="source_dir",
        fix="let AWS be asked for it: --resolve, in Python resolve=True; or give a folder",
    )


def _single(file: Path) -> Iterator[SourceFile]:
    if file.is_file():
        yield _source_file(file.name, file, file.stat())


def _walk(root: Path, top: str, problems: list[Problem]) -> Iterator[SourceFile]:
    """Yield the files of a folder; their paths in the bundle begin with `top`."""
    rules = IgnoreRules(root)
    home = root.resolve()
    pending: list[tuple[Path, str, tuple[Path, ...]]] = [(root, "", (home,))]
    while pending:
        folder, prefix, ancestors = pending.pop()
        for entry in _entries(folder):
            path = prefix + entry.name
            target = Path(os.path.realpath(entry))  # entry.resolve() raises for links in a loop
            if rules.ignored(path, is_folder=entry.is_dir()):
                continue
            if entry.is_symlink() and (problem := _link_problem(entry, target, home)):
                problems.append(problem)
            elif entry.is_dir() and target not in ancestors:
                pending.append((entry, path + "/", (*ancestors, target)))
            elif entry.is_file():
                yield _source_file(top + path, entry, entry.stat())


def _dependency_problem(dependency: Path, taken: Collection[str]) -> Problem | None:
    """Check that a dependency exists, and that no other file in the bundle has its name."""
    if dependency.name in taken:
        what = f'"{dependency.name}" is in the code already'
        fix = "rename one of them: dependencies are sent under their base names"
    elif not dependency.exists():
        what, fix = "there is no such file or folder", "check the path"
    else:
        return None
    return Problem(what=what, where=f"dependencies: {dependency}", fix=fix)


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise SpecError(
            [
                Problem(
                    what=f"the source folder cannot be read ({error.strerror})",
                    where=f"source_dir: {folder}",
                    fix="give an existing, readable folder as source_dir",
                )
            ]
        ) from error


def _link_problem(link: Path, target: Path, home: Path) -> Problem | None:
    if target.exists() and target.is_relative_to(home):
        return None
    why = "leaves the source folder" if target.exists() else "points at nothing"
    return Problem(
        what=f"the link {link.name} -> {target} {why}",
        where=str(link),
        fix="copy the file into the source folder, or name the link in .launcherignore",
    )


def _source_file(path: str, origin: Path, status: os.stat_result) -> SourceFile:
    return SourceFile(
        path=path,
        origin=origin,
        size=status.st_size,
        executable=bool(status.st_mode & stat.S_IXUSR),
    )
