"""What never travels with a job: .gitignore, .launcherignore, and what is nobody's source.

The files have the meaning that git gives them (gitignore(5)): a deeper file wins over one above
it, a later line over an earlier one, `!` takes a line back, and a folder that is ignored is not
looked into. In one folder, .launcherignore is read after .gitignore and so wins.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from pathspec import GitIgnoreSpec

IGNORE_FILES = (".gitignore", ".launcherignore")

#: Repositories and caches: no pattern of the user's brings them back.
_NEVER_FOLDERS = frozenset(
    {
        ".git",
        ".hg",
        ".svn",
        "__pycache__",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
        ".hypothesis",
        ".ipynb_checkpoints",
        ".tox",
        ".nox",
    }
)
_NEVER_SUFFIXES = frozenset({".pyc", ".pyo"})
_NEVER_FILES = frozenset({".DS_Store", ".git"})
#: A folder with one of these is a Python environment, whatever its name (venv, conda).
_ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta")


class IgnoreRules:
    """Answers, for paths below `root`, whether they stay behind; asked from the top down."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._home = root.resolve()
        self._top = _repository(self._home)
        self._specs: dict[Path, GitIgnoreSpec | None] = {}
        if self._matched(""):
            # Whoever names a folder that the repository ignores as a source folder means it.
            self._top = self._home

    def ignored(self, path: str, *, is_folder: bool) -> bool:
        """Whether `path` (posix, relative to the root, parents not ignored) stays behind."""
        if is_folder:
            return self._is_never_folder(path) or self._matched(path + "/")
        name = PurePosixPath(path)
        never = name.name in _NEVER_FILES or name.suffix in _NEVER_SUFFIXES
        return never or self._matched(path)

    def _is_never_folder(self, path: str) -> bool:
        folder = self._root / path
        return folder.name in _NEVER_FOLDERS or any(
            (folder / mark).exists() for mark in _ENVIRONMENT_MARKS
        )

    def _matched(self, path: str) -> bool:
        """The deepest ignore file that has a word on the path decides."""
        full = self._home / path
        end = "" if path and not path.endswith("/") else "/"
        for folder in full.parents:
            spec = self._spec(folder)
            if spec is not None:
                relative = full.relative_to(folder).as_posix() + end
                decision = spec.check_file(relative).include
                if decision is not None:
                    return decision
            if folder == self._top:
                break
        return False

    def _spec(self, folder: Path) -> GitIgnoreSpec | None:
        if folder not in self._specs:
            lines = [
                line
                for name in IGNORE_FILES
                if (folder / name).is_file()
                for line in (folder / name).read_text("utf-8", "replace").splitlines()
            ]
            self._specs[folder] = GitIgnoreSpec.from_lines(lines) if lines else None
        return self._specs[folder]


def _repository(home: Path) -> Path:
    """The root of the git repository that holds the folder, else the folder itself."""
    for folder in (home, *home.parents):
        if (folder / ".git").exists():
            return folder
    return home
