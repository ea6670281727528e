"""The user's source folder: which of its files travel with a job."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from launcher.errors import Problem, SpecError
from launcher.request.ignore import IgnoreRules
from launcher.spec import JobSpec


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """A file that is packed: its path in the bundle (posix, relative) and where it is read."""

    path: str
    origin: Path
    size: int
    executable: bool


class SourceTree:
    """What a spec's `source_dir` holds, without what is ignored; answers the rules of the spec.

    Without a `source_dir` the tree is the entry point's script alone, as in SDK v2.
    """

    def __init__(self, spec: JobSpec) -> None:
        script = Path(spec.entry_point)
        self.root = Path(spec.source_dir) if spec.source_dir is not None else script.parent
        self.only = None if spec.source_dir is not None else script.name

    def exists(self, path: str) -> bool:
        """Whether a file, given relative to the tree, travels with the job."""
        return os.path.normpath(path) in self._by_path

    def read_text(self, path: str) -> str:
        """The text of a file that exists; undecodable bytes are replaced."""
        origin = self._by_path[os.path.normpath(path)].origin
        return origin.read_text(encoding="utf-8", errors="replace")

    @cached_property
    def files(self) -> tuple[SourceFile, ...]:
        """Every file that travels, sorted by path; SpecError names all links that must not."""
        problems: list[Problem] = []
        found = list(self._single() if self.only else self._walk(problems))
        if problems:
            raise SpecError(problems)
        return tuple(sorted(found, key=lambda file: file.path))

    @cached_property
    def _by_path(self) -> dict[str, SourceFile]:
        return {file.path: file for file in self.files}

    def _single(self) -> Iterator[SourceFile]:
        script = self.root / str(self.only)
        if script.is_file():
            yield _source_file(script.name, script, script.stat())

    def _walk(self, problems: list[Problem]) -> Iterator[SourceFile]:
        rules = IgnoreRules(self.root)
        home = self.root.resolve()
        pending: list[tuple[Path, str, tuple[Path, ...]]] = [(self.root, "", (home,))]
        while pending:
            folder, prefix, ancestors = pending.pop()
            for entry in _entries(folder):
                path = prefix + entry.name
                target = entry.resolve()
                if rules.ignored(path, is_folder=entry.is_dir()):
                    continue
                if entry.is_symlink() and (problem := _link_problem(entry, target, home)):
                    problems.append(problem)
                elif entry.is_dir() and target not in ancestors:
                    pending.append((entry, path + "/", (*ancestors, target)))
                elif entry.is_file():
                    yield _source_file(path, entry, entry.stat())


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
