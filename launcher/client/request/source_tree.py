"""The user's source: the files that are sent with a job."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path

from launcher import shared
from launcher.client.request.ignore import INCLUDING_FILE, IgnoreRules, is_credential
from launcher.client.spec import JobSpec
from launcher.errors import Problem, SpecError


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """A file to pack: its path in the bundle (posix, relative) and its origin on disk."""

    path: str
    origin: Path
    size: int
    executable: bool


_SPECIAL = "a pipe, a socket or a device cannot be sent"
#: Credentials that a warning names.
_NAMED_CREDENTIALS = 10
#: Files and folders in a source folder; one with more has been chosen by mistake.
_MOST_ENTRIES = 250_000
#: Files among which the name of a missing one is looked for.
_SUGGESTED = 2_000
#: Bytes of source that are sent without a question.
LARGE_UPLOAD = 10**9
_REPOSITORIES = frozenset({".git", ".hg", ".svn"})


@dataclass(frozen=True)
class _Findings:
    """The result of a walk beside its files.

    withheld: credentials, as (folder, path in it). repositories: below a folder that is in none.
    """

    problems: list[Problem] = field(default_factory=list)
    withheld: list[tuple[Path, str]] = field(default_factory=list)
    repositories: list[Path] = field(default_factory=list)


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
        """Return whether a file, given relative to the tree, is sent with the job.

        The tree is walked only for a file that is on the disk.
        """
        path = os.path.normpath(path)
        is_readable = self.folder is None or os.access(self.folder, os.R_OK | os.X_OK)
        if is_readable and self.remote is None and not self._is_on_disk(path):
            return False
        return path in self._by_path

    def _is_on_disk(self, path: str) -> bool:
        top = path.partition("/")[0]
        places = [each.parent / path for each in self.dependencies if each.name == top]
        places.append(self.folder / path if self.folder else self.script.parent / path)
        return any(place.is_file() for place in places)

    @property
    def paths(self) -> Iterator[str]:
        """The paths of some files that are sent, for the fix of a wrong name."""
        if self.folder is not None and self.remote is None:
            with contextlib.suppress(SpecError):
                yield from (f.path for f in islice(_walk(self.folder, "", _Findings()), _SUGGESTED))

    def read_text(self, path: str) -> str:
        """Return the text of a file that exists; undecodable bytes are replaced."""
        origin = self._by_path[os.path.normpath(path)].origin
        return origin.read_text(encoding="utf-8", errors="replace")

    @property
    def files(self) -> tuple[SourceFile, ...]:
        """Every file that is sent, sorted by path.

        Raises SpecError listing all links that leave the folder and all unusable dependencies, and
        for a source in S3 that nobody has fetched.
        """
        return self._walked[0]

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warning about credentials that are left out, if there are any."""
        return tuple(_withheld_warning(self._walked[1].withheld))

    @property
    def doubts(self) -> tuple[str, ...]:
        """The reasons why the source may have been chosen by mistake, to be asked about."""
        files, findings = self._walked
        folders = [each for each in (self.folder, *self.dependencies) if each is not None]
        found = [f"{each} is a home folder, or around one" for each in folders if _is_home(each)]
        if repositories := findings.repositories:
            found.append(f"{repositories[0]} is a repository in a source folder that is in none")
        if (size := sum(file.size for file in files)) > LARGE_UPLOAD:
            found.append(f"the source has {size / 1e9:.1f} GB")
        return tuple(found)

    @cached_property
    def _walked(self) -> tuple[tuple[SourceFile, ...], _Findings]:
        if self.remote is not None:
            raise SpecError([_not_fetched(self.remote)])
        findings = _Findings()
        found = list(_walk(self.folder, "", findings) if self.folder else _single(self.script))
        for dependency in self.dependencies:
            taken = {file.path.partition("/")[0] for file in found}
            if problem := _dependency_problem(dependency, taken):
                findings.problems.append(problem)
            elif dependency.is_dir():
                found += _walk(dependency, dependency.name + "/", findings)
            else:
                found += _single(dependency)
        if findings.problems:
            raise SpecError(findings.problems)
        return tuple(sorted(found, key=lambda file: file.path)), findings

    @cached_property
    def partition(self) -> shared.PartitionFile | None:
        """The content of the job's partition_file, if it has one; it is sent beside the tree.

        Raises ParallelError.
        """
        return shared.PartitionFile.read(Path(self.partition_file)) if self.partition_file else None

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


def _walk(root: Path, top: str, findings: _Findings) -> Iterator[SourceFile]:
    """Yield the files of a folder; their paths in the bundle begin with `top`."""
    rules = IgnoreRules(root)
    home = root.resolve()
    entries = 0
    pending: list[tuple[Path, str, tuple[Path, ...], bool]] = [(root, "", (home,), False)]
    while pending:
        folder, prefix, ancestors, is_named = pending.pop()
        for entry in _entries(folder):
            entries += 1
            if entries > _MOST_ENTRIES:
                raise SpecError([_too_many(root)])
            if entry.name in _REPOSITORIES and not rules.is_repository:
                findings.repositories.append(folder)
            path = prefix + entry.name
            target = Path(os.path.realpath(entry))  # entry.resolve() raises for links in a loop
            is_folder = entry.is_dir()
            if rules.ignored(path, is_folder=is_folder):
                continue
            if entry.is_symlink() and (problem := _link_problem(entry, target, home)):
                findings.problems.append(problem)
                continue
            if not (is_folder or entry.is_file()):
                findings.problems.append(_not_a_file(entry))
                continue
            is_secret = is_credential(entry, is_folder=is_folder) or is_credential(
                target, is_folder=is_folder
            )
            if is_secret and not is_named and not rules.names(path, is_folder=is_folder):
                findings.withheld.append((root, path + "/" * is_folder))
            elif is_folder and target not in ancestors:
                # What is in a folder of credentials that a line names is all included.
                pending.append((entry, path + "/", (*ancestors, target), is_named or is_secret))
            elif not is_folder:
                yield _source_file(top + path, entry, entry.stat())


def _is_home(folder: Path) -> bool:
    """Return whether a folder is the user's home folder, or has it below it."""
    home, folder = Path(os.path.expanduser("~")), folder.resolve()  # noqa: PTH111 (raises for none)
    return folder == Path(folder.anchor) or home.resolve().is_relative_to(folder)


def _too_many(root: Path) -> Problem:
    return Problem(
        what=f"the source folder {root} has more than {_MOST_ENTRIES:,} files and folders",
        where=f"source_dir: {root}",
        fix=f"give the folder of the code, or name what the job does not need in {INCLUDING_FILE}",
    )


def _not_a_file(entry: Path) -> Problem:
    return Problem(
        what=f"{entry.name}: {_SPECIAL}",
        where=str(entry),
        fix=f"remove it, or name it in {INCLUDING_FILE}",
    )


def _withheld_warning(withheld: list[tuple[Path, str]]) -> Iterator[str]:
    """Warn of credentials, with the line for each that includes it."""
    roots = dict.fromkeys(root for root, _ in withheld)
    for root in roots:
        paths = sorted(path for each, path in withheld if each == root)
        lines = [f"  !/{_escaped(path)}" for path in paths[:_NAMED_CREDENTIALS]]
        if more := len(paths) - len(lines):
            lines.append(f"  and {more} more")
        yield (
            f"left out of {root}, as they hold credentials:\n" + "\n".join(lines) + "\n"
            f"  such a line in {root / INCLUDING_FILE} includes what it names; a job gets values "
            "that it needs by its `secrets`"
        )


def _escaped(path: str) -> str:
    return re.sub(r"([\\*?\[\]]|\s$)", r"\\\1", path)


def _dependency_problem(dependency: Path, taken: Collection[str]) -> Problem | None:
    """Check that a dependency exists, and that no other file in the bundle has its name."""
    if dependency.name in taken:
        what = f'"{dependency.name}" is in the code already'
        fix = "rename one of them: dependencies are sent under their base names"
    elif not dependency.exists():
        what, fix = "there is no such file or folder", "check the path"
    elif not (dependency.is_dir() or dependency.is_file()):
        what, fix = _SPECIAL, "give a regular file or a folder"
    elif _is_withheld(dependency):
        what = "it holds credentials, which whoever can read the bucket could read"
        fix = (
            f"give their values as the job's `secrets`; or write the line !/{dependency.name} into "
            f"{dependency.parent / INCLUDING_FILE}"
        )
    else:
        return None
    return Problem(what=what, where=f"dependencies: {dependency}", fix=fix)


def _is_withheld(path: Path) -> bool:
    """Return whether a file or folder that was named holds credentials, and no line includes it."""
    is_folder = path.is_dir()
    rules = IgnoreRules(path.parent)
    is_secret = is_credential(path, is_folder=is_folder)
    return is_secret and not rules.names(path.name, is_folder=is_folder)


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
