"""What two trees make of the same inputs: `make same OLD=commit`.

    python tests/same.py COMMIT [--parts bad,requests] [--rows REGEX]
    python tests/same.py --tree FOLDER ...

A worktree of the commit (or FOLDER) and today's tree get the inputs of today's `tests/same_parts`,
each in a process of its own with PYTHONPATH at that tree, this environment, and a work folder of
the same path. Their differences are printed: nothing and 0 when there are none, else 1. The
inputs enter by public doors alone (the command line, public names), so code may move.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
#: The parts, and their modules in `same_parts`: each has `cases()`, functions of a folder by name.
PARTS = {
    "bad": "refusals",
    "requests": "sdk_requests",
    "diagnosis": "recorded_jobs",
    "jobs": "whole_jobs",
    "models": "cut_models",
}
_ABSENT = "(absent)"


@contextmanager
def worktree(commit: str, folder: Path) -> Iterator[Path]:
    """A tree of the commit, as long as it is needed."""
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(folder), commit], check=True)
    try:
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def rows_of(tree: Path, part: str, pattern: str, work: Path) -> dict[str, Any]:
    """What a tree makes of a part's inputs, by their names."""
    shutil.rmtree(work, ignore_errors=True)
    home = work / "home"
    home.mkdir(parents=True)
    own = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "LAUNCHER_", "OMP_"))}
    own |= {"PYTHONPATH": str(tree), "HOME": str(home), "LAUNCHER_HOME": str(home / ".launcher")}
    own |= {"AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true", "NO_COLOR": "1"}
    out = work / "rows.json"
    command = [sys.executable, __file__, "--side", part, "--rows", pattern, "--out", str(out)]
    subprocess.run(command, check=True, env=own, cwd=work)
    return json.loads(out.read_text())  # type: ignore[no-any-return]


def play_side(part: str, pattern: str, out: Path) -> None:
    """In the process of one tree: make each input's row."""
    tree = Path(os.environ["PYTHONPATH"])
    launcher = import_module("launcher")
    assert Path(str(launcher.__file__)).is_relative_to(tree), "another tree was imported"
    rows: dict[str, Any] = {}
    for number, (name, make) in enumerate(
        import_module(f"same_parts.{PARTS[part]}").cases().items()
    ):
        if re.search(pattern, name):
            folder = out.parent / f"case-{number}"
            folder.mkdir()
            rows[name] = _row(make, folder)
            os.chdir(out.parent)
            shutil.rmtree(folder, ignore_errors=True)  # processes of a job outlive it for a moment
    text = json.dumps(rows).replace(str(tree), "{tree}")
    out.write_text(text.replace(str(out.parent), "{work}"))


def _row(make: Callable[[Path], Any], folder: Path) -> Any:
    """Return what a case makes; what one tree cannot do is a row, too."""
    try:
        return make(folder)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - of whatever kind
        return {"raised": f"{type(error).__name__}: {error}"}


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Each leaf of a JSON value with its path."""
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from flat(each, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value:
        for number, each in enumerate(value):
            yield from flat(each, f"{path}[{number}]")
    else:
        yield path, value


def differences(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    """A line for each leaf of a row that is not the same."""
    for name in [*old, *(each for each in new if each not in old)]:
        before, after = (dict(flat(rows.get(name, _ABSENT))) for rows in (old, new))
        for path in [*before, *(each for each in after if each not in before)]:
            was, now = before.get(path, _ABSENT), after.get(path, _ABSENT)
            if was != now:
                yield f"{name}: {path}\n    - {was}\n    + {now}"


def compare(tree: Path, parts: list[str], pattern: str, work: Path) -> int:
    """Print what differs, by part; the number of differences."""
    count = 0
    for part in parts:
        old, new = (rows_of(each, part, pattern, work) for each in (tree, ROOT))
        found = list(differences(old, new))
        failed = sum("raised" in each for each in new.values() if isinstance(each, dict))
        told = f"{part}: {len(new)} inputs, {len(found)} differences"
        print(f"{told}, {failed} inputs could not be put" if failed else told, file=sys.stderr)
        for line in found:
            print(f"{part} / {line}", flush=True)
        count += len(found)
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("commit", nargs="?")
    parser.add_argument("--tree", type=Path)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--rows", default="")
    parser.add_argument("--side", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.side:
        play_side(asked.side, asked.rows, asked.out)
        return 0
    parts = asked.parts.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    if bool(asked.commit) == bool(asked.tree):
        parser.error("name a commit (make same OLD=commit), or --tree FOLDER")
    with tempfile.TemporaryDirectory(prefix="launcher-same-", ignore_cleanup_errors=True) as folder:
        work = Path(folder).resolve() / "work"
        if asked.tree:
            return min(compare(asked.tree.resolve(), parts, asked.rows, work), 1)
        with worktree(asked.commit, work.with_name("old")) as tree:
            return min(compare(tree, parts, asked.rows, work), 1)


if __name__ == "__main__":
    sys.exit(main())
