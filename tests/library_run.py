"""Runs the tests of one library in an environment of its own: `make test-full LIB=name`.

`[tool.libraries]` in pyproject.toml names the libraries and what pip installs for each, and
`[tool.library-builds]` has scripts for what pip alone cannot; the tests of a library have the mark
`library("name")`. Its environment, `.venv-name`, is made once, and again when its line in
pyproject.toml or its script changes. What it lacks it takes from the environment that runs this
script, so that neither PyTorch nor pytest is installed again.

    python tests/library_run.py NAME [PYTEST ARGUMENTS...]

Appends a line with the date, the versions and the outcome to tests/LIBRARIES.md, unless pytest's
arguments make it another run.
"""

from __future__ import annotations

import datetime
import json
import platform
import re
import subprocess
import sys
import sysconfig
import time
import venv
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "tests" / "LIBRARIES.md"
_VERSIONS = """
import json, sys
from importlib.metadata import version
print(json.dumps({name: version(name) for name in sys.argv[1:]}))
"""


def main(name: str, *arguments: str) -> int:
    needs = libraries()
    if name not in needs:
        print(f'no library "{name}": there are {", ".join(needs)}', file=sys.stderr)
        return 2
    python = environment(name, needs[name])
    started = time.monotonic()
    code, outcome = run_tests(python, name, arguments)
    seconds = time.monotonic() - started
    if not arguments:
        append_record(f"{name} | {versions(python, needs[name])} | {outcome} | {seconds:.0f}")
    return code


def libraries() -> dict[str, list[str]]:
    """The requirements of each library."""
    found: dict[str, list[str]] = _tables()["libraries"]
    return found


def builds() -> dict[str, str]:
    """The script that installs what pip alone cannot, for libraries that need one."""
    found: dict[str, str] = _tables()["library-builds"]
    return found


def _tables() -> dict[str, Any]:
    tables: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    return tables


def environment(
    name: str, needs: list[str], constraints: tuple[str, ...] = ("-c", "constraints.txt")
) -> Path:
    """The interpreter of a library's environment, which is made if it is not there."""
    home = ROOT / f".venv-{name}"
    python, ready = home / "bin" / "python", home / "ready"
    build = builds().get(name)
    script = (ROOT / build).read_text() if build else ""
    made_from = json.dumps([sys.version, sys.prefix, needs, *([script] if build else [])])
    if not ready.exists() or ready.read_text() != made_from:
        print(f"setting up {home.name} with {', '.join(needs)}: once, minutes", file=sys.stderr)
        venv.create(home, clear=True, symlinks=True, with_pip=True)
        pip = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        if needs:
            subprocess.run([*pip, *constraints, *needs], cwd=ROOT, check=True)
        _take_the_rest_from_here(python)
        if build:
            subprocess.run([ROOT / build, python], check=True)
        ready.write_text(made_from)
    return python


def _take_the_rest_from_here(python: Path) -> None:
    """Append this environment's packages to the search path of another, behind its own."""
    ask = [python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"]
    theirs = subprocess.run(ask, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    ours = sysconfig.get_paths()["purelib"]
    # addsitedir also reads the .pth files there, one of which makes Launcher importable.
    line = f"import site; site.addsitedir({ours!r})\n"
    (Path(theirs) / "zz-launcher.pth").write_text(line)


def run_tests(python: Path, name: str, arguments: tuple[str, ...]) -> tuple[int, str]:
    """pytest's exit code and its last line."""
    options = ["-m", "", "--library", name, *arguments]
    command = [python, "-m", "pytest", *options, *files_of(name)]
    last = ""
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as tests:
        assert tests.stdout is not None
        for line in tests.stdout:
            print(line, end="", flush=True)
            last = line.strip(" =\n") or last
    return tests.returncode, re.sub(r" in [\d.]+s.*", "", last)


def files_of(name: str) -> list[Path]:
    """The test files that have a library's mark, and the folders whose fixtures have it."""
    mark = f'library("{name}")'
    files = [file for file in sorted((ROOT / "tests").rglob("*.py")) if mark in file.read_text()]
    folders = {file.parent for file in files if file.name == "conftest.py"}
    tests = [each for each in files if each.name.startswith("test_") and each.parent not in folders]
    return [path.relative_to(ROOT) for path in [*sorted(folders), *tests]]


def versions(python: Path, needs: list[str]) -> str:
    names = [re.split(r"[^\w.-]", need, maxsplit=1)[0] for need in needs]
    asked = [python, "-c", _VERSIONS, *names]
    found = json.loads(subprocess.run(asked, stdout=subprocess.PIPE, check=True).stdout)
    return ", ".join(f"{name} {version}" for name, version in found.items())


def append_record(line: str) -> None:
    git = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False).stdout
    today = datetime.datetime.now(datetime.timezone.utc).date()
    python = platform.python_version()
    with RECORD.open("a") as record:
        record.write(f"| {today} | {commit.strip()} | {python} | {line} |\n")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
