"""The environment of the peers: TensorFlow and its kin, which nothing else here needs."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

_REPOSITORY = Path(__file__).parents[2]


def peers_python() -> str | None:
    """The interpreter of the peers' environment, which is made when it is not there; else None."""
    project = tomllib.loads((_REPOSITORY / "pyproject.toml").read_text())["project"]
    needs = project["optional-dependencies"]["bench"]
    text = " ".join([sys.version, *needs])
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "launcher"
    folder = cache / f"bench-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists() and not _make(folder, python, needs):
        return None
    return str(python)


def _make(folder: Path, python: Path, needs: list[str]) -> bool:
    print(f"setting up the peers' environment in {folder}: once, minutes", file=sys.stderr)
    try:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "-c", str(_REPOSITORY / "constraints.txt"), *needs], check=True)
        _stand_on_this_one(python)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"no peers: {error}", file=sys.stderr)
        return False
    (folder / "ready").touch()
    return True


def _stand_on_this_one(python: Path) -> None:
    """What is not there is looked for here: torch, which is large."""
    script = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    there = subprocess.run([str(python), "-c", script], capture_output=True, text=True, check=True)
    here = sysconfig.get_paths()["purelib"]
    (Path(there.stdout.strip()) / "launcher-bench.pth").write_text(f"{here}\n")
