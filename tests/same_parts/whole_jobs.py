"""Whole jobs on this machine: `-o json`, exit codes, losses and digests of batches.

The project beside this file runs with 1, 2 and unset threads of BLAS, reading its data in process,
from a data group, and from one whose worker is killed; and on hosts whose Python has numpy and
torch alone. The rest are examples and start scripts of the tests.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import torch
import yaml
from packaging.requirements import Requirement

_ROOT = Path(__file__).parents[2]
_PROJECT = Path(__file__).with_name("project")
#: What the clock, the scheduler or the machine decides; that the field is there is compared.
_VOLATILE = {
    *("billable_seconds", "wait_share", "verdict", "batches_by_host", "record", "cost"),
    "train_loss",
}
_SERVED = {
    "instance_groups": [
        {"instance_group_name": "data", "instance_type": "ml.c5.xlarge", "instance_count": 1},
        {"instance_group_name": "train", "instance_type": "ml.g4dn.xlarge", "instance_count": 1},
    ],
    "data_service": {"datasets": ["pipeline:train_set"], "workers_per_host": 2},
}
_IN_PROCESS = {"instance_type": "ml.c5.xlarge", "instance_count": 1}
#: Lines and metrics that no clock decides; a task's trainer logs its steps by time.
_SEEN = re.compile(r"same:|epoch.*loss|accura|\bsum\b|weights|leaves", re.IGNORECASE)
_NAMED = re.compile(r"epoch|validation|test")
#: Runs of examples, with less work than they have: (folder, job file, options).
_EXAMPLES: Mapping[str, tuple[str, str, Sequence[str]]] = {
    "digits": ("examples/digits", "job.yaml", ["--set", "hyperparameters.epochs=1"]),
    "digits, one host": (
        "examples/digits",
        "job-homogeneous.yaml",
        ["--set", "hyperparameters.epochs=1"],
    ),
    **{
        f"gpt, {name}": ("examples/gpt", f"{name}.yaml", ["--set", "hyperparameters.epochs=1"])
        for name in ("data-parallel", "sharded", "pipeline-simple", "pipeline-interleaved")
    },
    **{
        f"start script, {name}": (f"tests/local/start_scripts/{name}", "job.yaml", [])
        for name in ("parameter_server", "elastic", "shell")
    },
}


def cases() -> Mapping[str, Callable[[Path], Any]]:
    ways = {"in process": _IN_PROCESS, "served": _SERVED, "served, a worker killed": _SERVED}
    threads = {"1 thread": "1", "2 threads": "2", "threads unset": None}
    own = {
        f"project, {way}, {words}": partial(_project, fields, count, kills="killed" in way)
        for way, fields in ways.items()
        for words, count in threads.items()
    }
    alone = {
        f"project, {way}, numpy and torch alone": partial(
            _project, fields, None, kills="killed" in way, alone=True
        )
        for way, fields in ways.items()
    }
    fails = {"project, fails": partial(_project, _SERVED, "1", fails=True)}
    rest = {f"example {name}": partial(_example, *row) for name, row in _EXAMPLES.items()}
    return {**own, **alone, **fails, **rest}


def _project(
    fields: Mapping[str, Any],
    threads: str | None,
    folder: Path,
    *,
    kills: bool = False,
    alone: bool = False,
    fails: bool = False,
) -> Any:
    shutil.copytree(_PROJECT, folder / "project", ignore=shutil.ignore_patterns("__pycache__"))
    variables = {"OMP_NUM_THREADS": threads, "DIES_ONCE": str(folder / "died") if kills else None}
    job = {
        "entry_point": "train.py",
        "source_dir": ".",
        **fields,
        "hyperparameters": {"fails": int(fails)},
        "environment": {name: value for name, value in variables.items() if value},
        "metric_definitions": [{"Name": "epoch", "Regex": "epoch=([0-9]+)"}],
    }
    (folder / "project" / "job.yaml").write_text(yaml.safe_dump(job))
    python = ["--python", str(_bare_environment(folder / "bare"))] if alone else []
    made = _run(folder / "project" / "job.yaml", python)
    return {**made, "killed": (folder / "died").exists()}


def _example(place: str, job_file: str, options: Sequence[str], folder: Path) -> Any:
    source = folder / Path(place).name
    ignored = shutil.ignore_patterns("__pycache__", "*.ipynb", "out")
    shutil.copytree(_ROOT / place, source, ignore=ignored)
    if (prepare := source / "prepare.py").exists():
        subprocess.run([sys.executable, str(prepare)], cwd=source, check=True, capture_output=True)
    return _run(source / job_file, options)


def _run(job_file: Path, options: Sequence[str]) -> Any:
    variables = {**os.environ, "LAUNCHER_HOME": str(job_file.parent.parent / "home")}

    def launcher(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "launcher", *words]
        return subprocess.run(
            command, capture_output=True, text=True, env=variables, cwd=job_file.parent
        )

    how = ["--local", "--isolation", "process", "--name", "job", "-o", "json", *options]
    ran = launcher("run", job_file.name, *how)
    lines = launcher("logs", "job").stdout.splitlines()
    read = map(json.loads, launcher("metrics", "job", "-o", "json").stdout.splitlines())
    series = [each for each in read if _NAMED.match(each["metric_name"])]
    launcher("download", "job", str(job_file.parent.parent / "results"))
    return {
        "exit_code": ran.returncode,
        "answer": _without_volatile(json.loads(ran.stdout)) if ran.stdout else ran.stderr,
        "lines": sorted(_timeless(line) for line in lines if _SEEN.search(line)),
        "metrics": sorted(f"{each['metric_name']} {each['value']}" for each in series),
        "model": _digests(job_file.parent.parent / "results"),
    }


def _digests(folder: Path) -> Any:
    """What a job's model has: digests of tensors, or of other files."""
    found: dict[str, str] = {}
    if not (folder / "model.tar.gz").exists():
        return found
    shutil.unpack_archive(folder / "model.tar.gz", folder)
    for file in sorted(folder.rglob("*")):
        if file.suffix == ".pt":
            state = torch.load(file, weights_only=True)
            values = (state[name].numpy().tobytes() for name in sorted(state))
            found[file.name] = hashlib.sha256(b"".join(values)).hexdigest()
        elif file.is_file() and not file.name.endswith(".tar.gz"):
            found[file.name] = "a file"
    return found


def _timeless(line: str) -> str:
    """A line without times, rates and process numbers."""
    line = re.sub(
        r"\b(data_wait|compute|communication|\w+_per_second|pid)=[\d.e+-]+", r"\1=*", line
    )
    return re.sub(r"\b\d+(\.\d+)? ?(s|ms|seconds)\b", "* s", line)


def _without_volatile(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: "*"
            if name in _VOLATILE
            else _data(each)
            if name == "data"
            else _without_volatile(each)
            for name, each in value.items()
        }
    return [_without_volatile(each) for each in value] if isinstance(value, list) else value


def _data(value: Any) -> Any:
    """The data service's part: its counters depend on what was prepared ahead."""
    return _without_volatile({**value, "metrics": sorted(value["metrics"])}) if value else value


def _bare_environment(folder: Path) -> Path:
    """Make a virtual environment that has numpy and torch, by links, and nothing else."""
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in set(_with_needs("torch")) | set(_with_needs("numpy")):
        found = distribution(name)
        for top in {Path(file).parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            (site / top).symlink_to(Path(str(found.locate_file(top))))
    return folder


def _with_needs(name: str, seen: frozenset[str] = frozenset()) -> Iterator[str]:
    """A package, and those that it needs, as far as they are installed."""
    try:
        needs = distribution(name).requires or []
    except PackageNotFoundError:
        return
    yield name
    for need in map(Requirement, needs):
        if need.name not in seen and (need.marker is None or need.marker.evaluate({"extra": ""})):
            yield from _with_needs(need.name, seen | {name})
