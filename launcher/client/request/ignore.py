"""Files that are never sent: matches of .gitignore and .launcherignore, caches, and credentials.

Both files follow gitignore(5): a deeper file overrides one above it, a later line overrides an
earlier one, `!` negates a pattern, and ignored folders are not entered. In one folder,
.launcherignore is read after .gitignore and so overrides it.

Credentials are left out unless a line of .launcherignore names them: `!/.env`, `!*.pem`. A line
that includes all files, or a folder around them, does not.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from launcher.errors import Problem, SpecError

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


INCLUDING_FILE = ".launcherignore"
IGNORE_FILES = (".gitignore", INCLUDING_FILE)

#: Repositories and caches, which no `!` pattern includes again.
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
#: Characters of the longest path, and stars of a pattern: each multiplies the time of a match.
_LONGEST_PATTERN, _MOST_STARS = 4096, 6
#: Stars in a row that are one to git, and to pathspec as many.
_STARS = re.compile(r"(?<!\\)\*{3,}")
#: A folder with one of these is a Python environment, whatever its name (venv, conda).
_ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta")


_FOLDERS = frozenset(
    {
        ".aws",
        ".azure",
        ".docker",
        ".gcloud",
        ".gnupg",
        ".huggingface",
        ".kaggle",
        ".kube",
        ".oci",
        ".password-store",
        ".ssh",
    }
)
#: Folders and files of tools that keep their state in folders of all tools.
_BELOW = frozenset(
    {
        (".config", "gcloud"),
        (".config", "gh"),
        (".config", "hub"),
        (".config", "op"),
        (".config", "rclone"),
        (".duckdb", "stored_secrets"),
        (".fly", "config.yml"),
        (".m2", "settings.xml"),
        (".mc", "config.json"),
        (".ngc", "config"),
        (".snowflake", "connections.toml"),
        ("huggingface", "stored_tokens"),
        ("huggingface", "token"),
    }
)
_FILES = re.compile(
    r"""(?!(.*[._-])?(example|sample|template|dist|baseline)(\.(csv|env|ini|json|toml|ya?ml))?$)
      ( .*\.env | \.env\..+ | .+\.tfvars(\.json)?
      | \.?(credentials|secrets?)(\.(csv|db|ini|json|tfrc\.json|toml|xml|ya?ml))? )
      | \.envrc | [._]netrc | \.git-credentials | \.pypirc | \.pgpass | \.my(login)?\.cnf
      | \.boto | \.s3cfg | \.dockercfg | \.vault-token | \.vault_pass(word)?(\..+)? | \.htpasswd
      | \.databrickscfg | \.terraformrc | \.comet\.config | \.modal\.toml | \.renviron | hf_token
      | \.(bash|mysql|psql|python|sh|zsh)_history | history\.sqlite | token\.pickle | rootkey\.csv
      | id_(rsa|dsa|ecdsa|ed25519)(_sk)? | kaggle\.json | (.+[._-])?kubeconfig([._-].+)?
      | \.?rclone\.conf | application_default_credentials\.json | .+\.tfstate(\..+)?
      | .+\.(ppk|p12|pfx|jks|keystore|kdb|kdbx)""",
    re.VERBOSE | re.IGNORECASE,
)
#: What may hold a key; a certificate without one is public. "": a name without an ending.
_MAY_HOLD_KEY = frozenset({".pem", ".key", ".json", ".crt", ".cer", ".p8", ".asc", ".ovpn"})
_MAY_BE_SHORT_KEY = frozenset({"", ".txt"})
_KEY = re.compile(rb"BEGIN [A-Z0-9 ]*PRIVATE KEY|AGE-SECRET-KEY-1")
_JSON_KEY = re.compile(
    rb"""BEGIN\ [A-Z0-9 ]*PRIVATE\ KEY
      | "type"\s*:\s*"(service_account|authorized_user)"
      | "(private_key|client_?secret|(aws_?)?secret_?access_?key|refresh_?token)"\s*:\s*"[^"]
      | "(auths|http-basic)"\s*:\s*\{\s*"|AccountKey=""",
    re.VERBOSE | re.IGNORECASE,
)
#: Configuration of package managers, which may have a token or an address with a password.
_MAY_HOLD_TOKEN = frozenset({".npmrc", ".yarnrc.yml", "pip.conf", "pip.ini", ".condarc"})
_TOKEN = re.compile(rb"_auth|_password|npmAuthToken|://[^/\s:@]+:[^/\s@]+@")
#: Bytes that are searched, and of a bare file that is; a key has a few thousand.
_SEARCHED, _LARGEST_BARE = 1 << 20, 1 << 16


class IgnoreRules:
    """The ignore rules for paths below `root`; query them from the top down.

    Raises SpecError for a line that is no pattern.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._home = root.resolve()
        self._top = _repository(self._home)
        #: True if the folder is a repository, or in one.
        self.is_repository = (self._top / ".git").exists() or any(
            (self._home / name).exists() for name in (".hg", ".svn")
        )
        self._specs: dict[Path, GitIgnoreSpec | None] = {}
        if self._matched(""):
            # A source folder that the repository ignores was chosen on purpose.
            self._top = self._home

    def ignored(self, path: str, *, is_folder: bool) -> bool:
        """Return whether `path` (posix, relative to the root, parents not ignored) is ignored."""
        if is_folder:
            return self._is_never_folder(path) or self._matched(path + "/")
        name = PurePosixPath(path)
        never = name.name in _NEVER_FILES or name.suffix in _NEVER_SUFFIXES
        return never or self._matched(path)

    def names(self, path: str, *, is_folder: bool) -> bool:
        """Return whether a line of a .launcherignore includes `path` by its own name.

        path: as for `ignored`.
        """
        full = self._home / path
        for folder in full.parents:
            relative = full.relative_to(folder).as_posix()
            lines = self._including_lines(folder)
            if any(_includes(line, relative, is_folder=is_folder) for line in lines):
                return True
            if folder == self._top:
                break
        return False

    def _including_lines(self, folder: Path) -> list[str]:
        file = folder / INCLUDING_FILE
        return [line[1:] for line in _lines(file) if line[:1] == "!"] if file.is_file() else []

    def _is_never_folder(self, path: str) -> bool:
        folder = self._root / path
        return folder.name in _NEVER_FOLDERS or any(
            (folder / mark).exists() for mark in _ENVIRONMENT_MARKS
        )

    def _matched(self, path: str) -> bool:
        """Return the decision of the deepest ignore file with a pattern that matches the path."""
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
                for line in _lines(folder / name)
            ]
            from pathspec import GitIgnoreSpec  # only packing needs it

            self._specs[folder] = GitIgnoreSpec.from_lines(lines) if lines else None
        return self._specs[folder]


def _lines(file: Path) -> Iterator[str]:
    """Yield the lines of a file; raise SpecError for one that is no pattern."""
    lines = file.read_text("utf-8-sig", "replace").splitlines()  # git skips the mark, too
    for number, line in enumerate(lines, start=1):
        pattern = _STARS.sub("*", line)
        if not _is_pattern(pattern):
            what = f"{line[:60]!r} is no pattern of paths"
            fix = f"correct or remove the line; a pattern has {_MOST_STARS} stars at most"
            raise SpecError([Problem(what=what, where=f"{file}:{number}", fix=fix)])
        yield pattern


def _is_pattern(line: str) -> bool:
    from pathspec import GitIgnoreSpec

    if line.startswith("#"):
        return True
    try:
        GitIgnoreSpec.from_lines([line])
    except (ValueError, re.error):
        return False
    return len(line) <= _LONGEST_PATTERN and line.count("*") - 2 * line.count("**/") <= _MOST_STARS


def _includes(pattern: str, path: str, *, is_folder: bool) -> bool:
    """Return whether the last part of a pattern names a path, and the pattern matches it."""
    from pathspec import GitIgnoreSpec

    last = pattern.strip().rstrip("/").rpartition("/")[2]
    is_named = last.strip("*?") != "" and fnmatch.fnmatchcase(path.rpartition("/")[2], last)
    return is_named and GitIgnoreSpec.from_lines([pattern]).match_file(path + "/" * is_folder)


def _repository(home: Path) -> Path:
    """Return the root of the git repository that contains the folder, or the folder itself."""
    for folder in (home, *home.parents):
        if (folder / ".git").exists():
            return folder
    return home


def is_credential(path: Path, *, is_folder: bool) -> bool:
    """Return whether a folder or a regular file holds credentials."""
    name = path.name.lower()
    if name in _FOLDERS or (path.parent.name.lower(), name) in _BELOW:
        return is_folder or name not in _FOLDERS
    return not is_folder and (_FILES.fullmatch(name) is not None or _holds_secret(path, name))


def _holds_secret(path: Path, name: str) -> bool:
    suffix = Path(name).suffix
    if name in _MAY_HOLD_TOKEN:
        return _finds(_TOKEN, path)
    is_short = suffix in _MAY_BE_SHORT_KEY and path.stat().st_size <= _LARGEST_BARE
    if suffix in _MAY_HOLD_KEY or is_short:
        return _finds(_JSON_KEY if suffix == ".json" else _KEY, path)
    return False


def _finds(pattern: re.Pattern[bytes], path: Path) -> bool:
    try:
        with path.open("rb") as file:
            start = file.read(_SEARCHED)
    except OSError:
        return False  # it cannot be sent, which is a problem of its own
    return pattern.search(start.replace(b"\0", b"")) is not None  # UTF-16 has a zero in each letter
