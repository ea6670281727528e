"""Checks of a job's datasets: each is read here, by a process as data hosts have."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from launcher.client.doctor.check_result import CheckResult, CheckSection, Level
from launcher.client.doctor.dataset_names import NamedDataset, named_datasets, unnamed_datasets
from launcher.client.doctor.dataset_process import ReadLimits, at_home, dataset_copy
from launcher.client.request import SourceTree
from launcher.client.sessions import PlatformSession, with_source
from launcher.client.spec import JobSpec
from launcher.errors import CloudError, PlatformError, SpecError
from launcher.shared import has_main_guard

_finding = CheckSection.DATA.finding

_HOW_TO_REPEAT = (
    "let samples follow from their index and seeded generators alone, not from the clock, the "
    "process, threads or samples before: docs/reference/repeatability.md"
)


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
    script = posixpath.normpath(script)
    source = tree.read_text(script) if tree.exists(script) else ""
    module = script.removesuffix(".py").replace("/", ".")
    datasets = named_datasets(source, served, module)
    trains = bool(spec.entry_point) and not has_main_guard(source)  # a task's module never does
    yield from _left_out(source, served, script, module)
    if not datasets:
        yield _finding(
            "datasets",
            Level.WARNING,
            f"none is read: the job lists none, and {script} names none as text",
            fix='list them: data_service: {datasets: ["pipeline:train_set"]}',
        )
        return
    with dataset_copy(spec, files) as copy:
        for dataset in datasets:
            if trains and _needs_the_script(dataset, served, module):
                yield _unguarded(dataset.reference, script)
                continue
            answer = copy.ask(dataset, limits, served)
            if dataset.lacks_arguments and _is_not_built(answer):
                yield _not_read(dataset.reference, script)
            else:
                yield from _findings(dataset.reference, answer, copy.elsewhere, tree)


def _left_out(
    source: str, served: Sequence[str], script: str, module: str
) -> Iterator[CheckResult]:
    """Yield a warning for each dataset of the script that is not read."""
    others = [each for each in named_datasets(source, (), module) if each.name not in served]
    for name in dict.fromkeys(each.name for each in others if served):
        yield _finding(
            name,
            Level.WARNING,
            f"not read: {script} names it, but data_service.datasets lists others only, so data "
            "hosts refuse it",
            fix=f'add "{name}" to data_service.datasets',
        )
    for line in unnamed_datasets(source, module):
        yield _finding(
            f"{script}:{line}",
            Level.WARNING,
            "not read: the dataset of this DataLoader is known only when the script runs",
            fix='name it: DataLoader("module:function"), or a function or class of the script',
        )


def _needs_the_script(dataset: NamedDataset, served: Sequence[str], module: str) -> bool:
    return dataset.name.startswith(f"{module}:") and dataset.name not in served


def _unguarded(dataset: str, script: str) -> CheckResult:
    return _finding(
        dataset,
        Level.WARNING,
        f"not read: {script} has no main guard, so importing it would run the training",
        fix='put what it runs below `if __name__ == "__main__":`, as data hosts need it too',
    )


def _is_not_built(answer: Mapping[str, Any]) -> bool:
    return "could not be built: " in str(answer.get("problem", ""))


def _not_read(dataset: str, script: str) -> CheckResult:
    return _finding(
        dataset,
        Level.WARNING,
        f"not read: {script} gives it dataset_args that are known only when the script runs",
        fix="to check it, give its arguments defaults, or write dataset_args as literals, "
        "channel(...) and EPOCH",
    )


def _findings(
    dataset: str, answer: Mapping[str, Any], elsewhere: Sequence[str], tree: SourceTree
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


def _problem(dataset: str, problem: str, elsewhere: Sequence[str], tree: SourceTree) -> CheckResult:
    channel = next((name for name in elsewhere if f"no channel {name!r}" in problem), None)
    if channel is None:
        code = "" if tree.folder is None else f"{tree.folder}/"
        return _finding(dataset, Level.PROBLEM, at_home(problem, code))
    return _finding(
        dataset,
        Level.WARNING,
        f"not read: its channel {channel} is not on this machine",
        fix=f"check it with a part of the data: --set inputs.{channel}=file:///folder",
    )
