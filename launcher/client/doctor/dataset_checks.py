"""Checks of a job's datasets: each is read here, by a process as data hosts have."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from launcher.client.doctor.check_result import CheckResult, CheckSection, Level
from launcher.client.doctor.named_datasets import named_datasets
from launcher.client.request.source_tree import SourceTree
from launcher.client.sessions.base import PlatformSession
from launcher.client.sessions.completed_spec import with_source
from launcher.client.sessions.local.module_command import module_command, module_environment
from launcher.client.spec import JobSpec
from launcher.errors import CloudError, PlatformError, SpecError
from launcher.shared.paths import ML_ROOT_VARIABLE, MlPaths

_PROGRAM = "launcher.data.dataset_check"
_FILE_SCHEME = "file://"
_HOW_TO_REPEAT = (
    "let samples follow from their index and seeded generators alone, not from the clock, the "
    "process, threads or samples before: docs/data-loader.md, What does not repeat itself"
)


@dataclass(frozen=True, kw_only=True)
class ReadLimits:
    """The bounds of what is read: samples of each dataset, and seconds for them.

    build_seconds: for a dataset's imports and until its first sample, beside `seconds`.
    """

    samples: int
    seconds: float
    build_seconds: float = 120.0

    @property
    def patience(self) -> float:
        """Seconds after which a dataset has hung."""
        return 2 * self.seconds + self.build_seconds


def check(
    spec: JobSpec, limits: ReadLimits, session: PlatformSession, *, offline: bool = False
) -> Iterator[CheckResult]:
    """Read each dataset that the job lists or its script names, and report what it gives.

    session: from which a source in S3 is fetched, unless it is offline.
    """
    try:
        tree = SourceTree(spec if offline else with_source(spec, session))
        files = tree.files
    except (SpecError, PlatformError, CloudError) as error:
        yield _finding("datasets", Level.PROBLEM, f"not read: {error}")
        return
    served = list(spec.data_service.datasets) if spec.data_service else []
    script = spec.entry_point or (spec.task or "").partition(":")[0].replace(".", "/") + ".py"
    source = tree.read_text(script) if tree.exists(script) else ""
    datasets = named_datasets(source, served)
    if not datasets:
        yield _finding(
            "datasets",
            Level.WARNING,
            f"none is read: the job lists none, and {script} names none as text",
            fix='list them: data_service: {datasets: ["pipeline:train_set"]}',
        )
        return
    with TemporaryDirectory(prefix="launcher-check-") as folder:
        paths = MlPaths(Path(folder))
        for file in files:
            target = paths.code / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file.origin, target)
        elsewhere = list(_link_channels(spec, paths))
        for dataset in datasets:
            request = {
                "dataset": dataset.reference,
                "loader": dataset.loader,
                "samples": limits.samples,
                "seconds": limits.seconds,
                "patience": limits.patience,
                "served": served,
                "entry_point": spec.entry_point,
                "output": str(paths.root / "answer.json"),
            }
            yield from _findings(dataset.reference, _ask(request, spec, paths), elsewhere, tree)


def _link_channels(spec: JobSpec, paths: MlPaths) -> Iterator[str]:
    """Make the channels of this machine's folders; yield the names of those that are elsewhere."""
    paths.channels.mkdir(parents=True)
    for name, channel in spec.inputs.items():
        uri = getattr(channel, "s3_data", "")
        if uri.startswith(_FILE_SCHEME):
            (paths.channels / name).symlink_to(Path(uri.removeprefix(_FILE_SCHEME)).absolute())
        else:
            yield name


def _ask(request: Mapping[str, Any], spec: JobSpec, paths: MlPaths) -> Mapping[str, Any]:
    """Return the process's answer; whatever ends the wait, Ctrl-C included, ends the process."""
    output, log = Path(request["output"]), paths.root / "log"
    output.unlink(missing_ok=True)
    channels = {f"SM_CHANNEL_{each.name.upper()}": str(each) for each in paths.channels.iterdir()}
    environment = {**spec.environment, **module_environment(), **channels}
    environment |= {ML_ROOT_VARIABLE: str(paths.root), "PYTHONHASHSEED": "0"}
    with log.open("w") as written:
        process = subprocess.Popen(
            module_command(_PROGRAM),
            stdin=subprocess.PIPE,
            stdout=written,
            stderr=subprocess.STDOUT,
            text=True,
            cwd="/",
            env=environment,
            start_new_session=True,
        )
        try:
            # Twice, as a second process reads the samples again; neither hangs for longer.
            process.communicate(json.dumps(request), timeout=2 * request["patience"] + 60)
        except subprocess.TimeoutExpired:
            return {"problem": "the process that reads it did not answer, and was killed"}
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if not output.exists():
        return {"problem": _how_it_ended(process.returncode, log)}
    answer: Mapping[str, Any] = json.loads(output.read_text())
    return answer


def _how_it_ended(code: int, log: Path) -> str:
    how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
    last = log.read_text(errors="replace").strip().splitlines()[-3:]
    return "\n".join([f"the process that reads it ended with {how}", *last])


def _findings(
    dataset: str, answer: Mapping[str, Any], elsewhere: list[str], tree: SourceTree
) -> Iterator[CheckResult]:
    if answer.get("samples"):
        yield _finding(dataset, Level.OK, _length(answer))
    if answer.get("batch"):
        size, parts = answer["batch_size"], ", ".join(answer["batch"])
        by = f" by {answer['collated_by']}" if answer["collated_by"] else ""
        first = f"first batch, of up to {size}" if size > 1 else "first sample"
        what = f"{first}{by}: {parts}"
        yield _finding(dataset, Level.OK, what)
    if why := answer.get("not_collated"):
        yield _finding(
            dataset,
            Level.WARNING,
            f"its samples do not make a batch by themselves: {why}",
            fix="give the loader a collate_fn, or batch_size=None; if it has one, all is well",
        )
    for order in answer.get("orders", ()):
        yield _finding(dataset, Level.OK, order)
    if answer.get("samples"):
        yield _finding(dataset, Level.OK, _speed(answer))
    if problem := answer.get("problem"):
        yield _problem(dataset, str(problem), elsewhere, tree)
    elif differs := answer.get("differs"):
        what = f"not reproducible when another process prepares it: {differs}"
        yield _finding(dataset, Level.PROBLEM, what, fix=_HOW_TO_REPEAT)
    else:
        yield _finding(dataset, Level.OK, _same(answer))


def _length(answer: Mapping[str, Any]) -> str:
    kind = "iterable" if answer["iterable"] else "map-style"
    length = answer["length"]
    shards = f", read in {answer['shards']} shards" if answer["shards"] > 1 else ""
    return f"{kind}, {'of unknown length' if length is None else f'{length:,} samples'}{shards}"


def _same(answer: Mapping[str, Any]) -> str:
    compared = f"{answer['compared']} samples"
    compared += " and the orders" if answer["orders"] else ""
    compared += " and the first batch" if answer["collated_by"] else ""
    return f"{compared} are the same when another process prepares them"


def _speed(answer: Mapping[str, Any]) -> str:
    count, seconds = answer["samples"], max(answer["seconds"], 1e-6)
    rate = count / seconds
    shown = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
    return f"{shown} samples/s of one worker ({count:,} in {seconds:.2g} s)"


def _problem(dataset: str, problem: str, elsewhere: list[str], tree: SourceTree) -> CheckResult:
    channel = next((name for name in elsewhere if f"no channel {name!r}" in problem), None)
    if channel is None:
        code = "" if tree.folder is None else f"{tree.folder}/"
        return _finding(dataset, Level.PROBLEM, _at_home(problem, code))
    return _finding(
        dataset,
        Level.WARNING,
        f"not read: its channel {channel} is not on this machine",
        fix=f"check it with a part of the data: --set inputs.{channel}.s3_data=file:///folder",
    )


def _at_home(problem: str, code: str) -> str:
    """Return a text with the paths of the user's own folder in place of its copy's."""
    return re.sub(r'[^" ]*/launcher-check-\w+/code/', lambda _: code, problem)


def _finding(subject: str, level: Level, what: str, *, fix: str | None = None) -> CheckResult:
    return CheckResult(part=CheckSection.DATA, subject=subject, level=level, what=what, fix=fix)
