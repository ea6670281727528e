"""The examples as jobs on this machine, whose train host has the GPU."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from gpu_parts import gpus
from table.figures import Figure, Target, at_least, at_most
from table.rows import Invalid
from trainers_parts.bench import Bench

_EXAMPLES = Path(__file__).parents[3] / "examples"
_CLIENT_NEEDS = ("boto3", "yaml", "click", "rich", "pathspec", "packaging")
_ONE_HOST = ["--set", "instance_groups.train_group.instance_count=1"]
_PATIENCE = 240


def measure(bench: Bench) -> Iterator[Figure]:
    if absent := _absent(*_CLIENT_NEEDS):
        yield Figure(row="examples", what="jobs on this machine", values=[], note=absent)
        return
    home = bench.folder / "home"
    if absent := _absent("sklearn", "PIL"):
        yield Figure(row="examples", what="digits with a data host", values=[], note=absent)
    else:
        _run([sys.executable, str(_EXAMPLES / "digits" / "prepare.py")], home)
        one = [*_ONE_HOST, "--set", "instance_groups.data_group.instance_count=1"]
        yield from _job(home, "digits/job.yaml", one, "test_accuracy", at_least(0.95))
    one = [*_ONE_HOST, "--set", "distribution.data_parallel.precision=bf16"]
    yield from _job(home, "gpt/data-parallel.yaml", one, "validation_loss", at_most(3.0))
    if absent_figure := gpus.missing("examples", "gpt in two stages, on two hosts", 2):
        yield absent_figure
    else:
        yield from _job(home, "gpt/pipeline-simple.yaml", [], "validation_loss", at_most(3.0))


def _absent(*modules: str) -> str:
    """Return a note of the modules that this interpreter lacks; "" if none."""
    names = [name for name in modules if importlib.util.find_spec(name) is None]
    return f"needs the Python modules {', '.join(names)}" if names else ""


def _job(
    home: Path, file: str, options: list[str], metric: str, target: Target
) -> Iterator[Figure]:
    """Run a job; yield its last metric, its seconds, and the most GPU memory in use."""
    began = time.monotonic()
    name = f"gpu-{file.partition('/')[0]}-{os.getpid()}"
    launch = [sys.executable, "-m", "launcher"]
    command = [*launch, "run", str(_EXAMPLES / file), "--local", "--name", name, *options]
    _run(command, home)
    passed = time.monotonic() - began
    values: defaultdict[str, list[float]] = defaultdict(list)
    for line in _run([*launch, "metrics", name, "-o", "json"], home).splitlines():
        told = json.loads(line)
        values[told["metric_name"]].append(told["value"])

    def figure(what: str, values: list[float], unit: str, target: Target | None = None) -> Figure:
        words = f"{file}: {what}"
        return Figure(
            row="examples", what=words, values=values, unit=unit, target=target, note=gpus.note(1)
        )

    yield figure(metric, values[metric][-1:], "", target)
    used = max(values["host/gpu_memory_bytes"], default=0.0)
    yield figure("GPU memory in use", [used / 1e9], "GB", at_least(0.3))
    yield figure("from command to end", [passed], "s")


def _run(command: list[str], home: Path) -> str:
    environment = {**os.environ, "LAUNCHER_HOME": str(home)}
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(_EXAMPLES.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_PATIENCE
        )
    except subprocess.TimeoutExpired as error:
        raise Invalid(f"{' '.join(command[:4])} took more than {_PATIENCE} s") from error
    if done.returncode:
        raise Invalid(f"{' '.join(command[:4])} failed:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout
