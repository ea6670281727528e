"""Profiles of a job's datasets, measured on this machine by processes that read them.

So is the rate of several processes at the same time, one for each CPU at most.
"""

from __future__ import annotations

import json
import math
import os
import re
import statistics
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from launcher.client.doctor import (
    DatasetCopy,
    NamedDataset,
    ReadLimits,
    at_home,
    dataset_copy,
    named_datasets,
)
from launcher.client.planning.plans.amounts import Measure
from launcher.client.planning.plans.parallel_strategy import ModelFigures
from launcher.client.planning.workloads.this_machine import (
    MachineCpu,
    MeasuredStepTime,
    measure_model_memory,
    measure_step_time,
    this_cpu,
)
from launcher.client.planning.workloads.workload_profile import WorkloadProfile, rounded
from launcher.client.request import SourceTree
from launcher.client.spec import JobSpec
from launcher.errors import PlatformError
from launcher.shared import visible_gpus

_REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*(\(.*\))?")
_BATCH_SIZES = ("batch_size", "batch-size")
_JOB_FILE = Path("job.yaml")
#: Least relative difference between two runs on one machine.
_RUN_TO_RUN_NOISE = 0.02
#: Standard errors that the range of a mean covers on either side: 95 % of means.
_STANDARD_ERRORS = 2.0
#: Share of a sample's seconds below which what is no CPU time is not taken for waiting.
_NO_WAIT = 0.05


class _Batch(NamedTuple):
    """Samples that were read together, and what they took.

    cpu: seconds of it. passed: seconds, less those without a CPU that was wanted. content: bytes.
    """

    samples: int
    cpu: float
    passed: float
    content: int


@dataclass(frozen=True, kw_only=True)
class ProfileRequest:
    """Choices of a measurement.

    batch_size: None for that of the script or of the hyperparameters. changes: to the job file.
    cpu_family: EC2's family of this machine; None to ask EC2's firmware. gpu_seconds: of a step.
    task: "module:function", whose model's memory is measured, and its steps on this machine's GPU;
        None for the job's.
    """

    batch_size: int | None = None
    limits: ReadLimits
    changes: Sequence[str] = ()
    cpu_family: str | None = None
    gpu_seconds: Mapping[str, float] = field(default_factory=dict)
    task: str | None = None


def profile_datasets(target: str | None, request: ProfileRequest) -> Iterator[WorkloadProfile]:
    """Measure a dataset, such as "pipeline:train_set", or those of a job file, one by one.

    target: None for job.yaml of this folder. The inputs of a dataset are those of that file. Raises
    SpecError for a job file that is wrong, and PlatformError for what cannot be read.
    """
    if target is not None and _REFERENCE.fullmatch(target):
        has_job = _JOB_FILE.exists() or request.changes
        job = JobSpec.from_yaml(_JOB_FILE, request.changes) if has_job else JobSpec(source_dir=".")
        chosen = target
    else:
        job, chosen = JobSpec.from_yaml(_job_file(target), request.changes), None
    if job.has_remote_source:
        raise PlatformError(f"the code is in {job.source_dir}: profile a copy on this machine")
    tree = SourceTree(job)
    datasets, served = _datasets(job, tree, chosen)
    sizes = [_batch_size(each, job, request) for each in datasets]  # before anything is measured
    model = _model(job, tree, request)
    cpu = this_cpu(request.cpu_family)
    with dataset_copy(job, tree.files) as copy:
        step = _step(job, tree, sizes[0], request)
        for dataset, size in zip(datasets, sizes, strict=True):
            answer = _answer(copy, dataset, size, request.limits, served, tree)
            asked = replace(dataset, loader=_read_with(dataset))
            rates = measure_scaling(copy, asked, request.limits, served, cpu.count)
            found = _profile(dataset, size, answer, cpu).with_scaling(rates)
            if step is not None:
                found = found.with_step(step)
            yield replace(
                found,
                gpu_seconds={**found.gpu_seconds, **request.gpu_seconds},
                entry_point=job.entry_point,
                datasets=tuple(served),
                model=model,
            )


def _model(job: JobSpec, tree: SourceTree, request: ProfileRequest) -> ModelFigures | None:
    """Measure the memory of the task's model, if there is a task."""
    task = request.task or job.task
    return None if task is None else measure_model_memory(task, job, tree.folder or Path())


def _step(
    job: JobSpec, tree: SourceTree, size: int, request: ProfileRequest
) -> MeasuredStepTime | None:
    """Measure steps of the task, if there is one, and a GPU."""
    task = request.task or job.task
    if task is None or not visible_gpus(os.environ):
        return None
    folder = tree.folder or Path()
    return measure_step_time(task, job, folder, batch_size=size, seconds=request.limits.seconds)


def _job_file(target: str | None) -> Path:
    path = Path(target or ".")
    if path.is_dir():
        path /= _JOB_FILE
    if not path.exists():
        raise PlatformError(
            f"there is no file {path}: name a dataset, such as pipeline:train_set, or a job file"
        )
    return path


def _datasets(
    job: JobSpec, tree: SourceTree, chosen: str | None
) -> tuple[list[NamedDataset], list[str]]:
    """Return the datasets to measure, and those that the job serves."""
    listed = list(job.data_service.datasets) if job.data_service else []
    script = job.entry_point or (job.task or "").partition(":")[0].replace(".", "/") + ".py"
    source = tree.read_text(script) if script != ".py" and tree.exists(script) else ""
    if chosen is None:
        found = named_datasets(source, listed)
        if not found:
            raise PlatformError(
                f"no dataset to measure: the job lists none, and {script} names none as text; name "
                "one: launcher plan measure pipeline:train_set"
            )
        return found, listed or [each.reference.partition("(")[0] for each in found]
    name = chosen.partition("(")[0]
    same = [each for each in named_datasets(source) if each.reference.startswith(name)]
    loader = same[0].loader if same else {}
    return [NamedDataset(reference=chosen, loader=loader)], [*dict.fromkeys([*listed, name])]


def _batch_size(dataset: NamedDataset, job: JobSpec, request: ProfileRequest) -> int:
    given = [job.hyperparameters.get(name) for name in _BATCH_SIZES]
    for size in (request.batch_size, dataset.loader.get("batch_size"), *given):
        if isinstance(size, int) and not isinstance(size, bool) and size > 0:
            return size
    raise PlatformError(
        f"the batch size of {dataset.reference} is not known: neither its loader nor the "
        "hyperparameters have it as a number; give it: --batch-size 256"
    )


def _answer(
    copy: DatasetCopy,
    dataset: NamedDataset,
    batch_size: int,
    limits: ReadLimits,
    served: Sequence[str],
    tree: SourceTree,
) -> Mapping[str, Any]:
    asked = replace(dataset, loader={**_read_with(dataset), "batch_size": batch_size})
    # Samples, then batches, of which the last may take as long again.
    patient = replace(limits, build_seconds=limits.build_seconds + 2 * limits.seconds)
    answer = copy.ask(asked, patient, served, ["costs"])
    problem = str(answer.get("problem") or "")
    missing = next((each for each in copy.elsewhere if f"no channel {each!r}" in problem), None)
    if missing:
        raise PlatformError(
            f"{dataset.reference} was not measured: its channel {missing} is not on this machine; "
            f"give a part of the data: --set inputs.{missing}=file:///folder"
        )
    if problem:
        code = "" if tree.folder is None else f"{tree.folder}/"
        raise PlatformError(f"{dataset.reference} was not measured: {at_home(problem, code)}")
    return answer


def _read_with(dataset: NamedDataset) -> dict[str, Any]:
    """Return the loader's arguments with which samples are read."""
    names = ("collate_fn", "shards")
    return {name: dataset.loader[name] for name in names if name in dataset.loader}


def _profile(
    dataset: NamedDataset, batch_size: int, answer: Mapping[str, Any], cpu: MachineCpu
) -> WorkloadProfile:
    costs = answer["costs"]
    one_by_one: list[float] = costs["cpu"] or [costs["first_seconds"]]
    batches: list[_Batch] = [_Batch(*each) for each in costs["batches"]]
    count = len(one_by_one) + sum(each.samples for each in batches)
    children_cpu_per_sample = costs["children_cpu"] / count
    wall = max(costs["wall"], 1e-9)
    busy = min(1.0, costs["starved"] / wall)
    passed = max(0.0, wall - costs["starved"])
    singles = _Batch(len(costs["cpu"]), sum(costs["cpu"]), passed, costs["bytes"])
    wait, waiting_share = _wait_of(batches or [singles], children_cpu_per_sample)
    return WorkloadProfile(
        dataset=dataset.reference,
        batch_size=batch_size,
        cpu_seconds=_mean_of(one_by_one, batches, children_cpu_per_sample, busy),
        wait_seconds=wait,
        bytes_per_worker=costs["memory"] or None,
        bytes_per_batch=batch_size * _bytes_per_sample(costs),
        cpu=cpu,
        samples_per_epoch=answer["length"],
        measured={
            "date": str(date.today()),
            "samples": count,
            "cpu_seconds": {
                "p50": rounded(_quantile(one_by_one, 0.5) + children_cpu_per_sample),
                "p95": rounded(_quantile(one_by_one, 0.95) + children_cpu_per_sample),
                "max": rounded(max(one_by_one) + children_cpu_per_sample),
            },
            "seconds_until_first_sample": rounded(costs["build_seconds"] + costs["first_seconds"]),
            "memory_bytes_per_worker": costs["memory"],
            "waiting_share": rounded(waiting_share),
            "busy_machine_share": rounded(busy),
            **({"not_collated": answer["not_collated"]} if answer["not_collated"] else {}),
        },
    )


def _mean_of(
    one_by_one: Sequence[float],
    batches: Sequence[_Batch],
    children_cpu_per_sample: float,
    busy: float,
) -> Measure:
    """Return the CPU seconds of a sample in whole batches, or else of single ones.

    The range covers the standard error of the mean, the difference between the first half of the
    measurement and the second, the noise between runs, and on a busy machine, whose processes
    slow each other down, the share of the time without a CPU.
    """
    deviation = statistics.stdev(one_by_one) if len(one_by_one) > 1 else 0.0
    each = [batch.cpu / batch.samples for batch in batches] or list(one_by_one)
    count = sum(batch.samples for batch in batches) or len(one_by_one)
    half = len(each) // 2
    drift = abs(statistics.fmean(each[:half]) - statistics.fmean(each[half:])) / 2 if half else 0.0
    mean = statistics.fmean(each) + children_cpu_per_sample
    error = max(
        _STANDARD_ERRORS * deviation / math.sqrt(count), drift, max(_RUN_TO_RUN_NOISE, busy) * mean
    )
    return Measure(mean=mean, low=max(0.0, mean - error), high=mean + error, deviation=deviation)


def _wait_of(read: Sequence[_Batch], children_cpu_per_sample: float) -> tuple[Measure, float]:
    """Return the seconds of a sample in which nothing computes, and their share of its seconds.

    A share that the clocks' noise may be counts as none. The range covers the standard error, and
    the noise.
    """
    each = [batch for batch in read if batch.samples and batch.passed]
    if not each:
        return Measure.exact(0.0), 0.0
    waits = [(batch.passed - batch.cpu) / batch.samples - children_cpu_per_sample for batch in each]
    mean = max(0.0, statistics.fmean(waits))
    share = mean / statistics.fmean(batch.passed / batch.samples for batch in each)
    if share < _NO_WAIT:
        return Measure.exact(0.0), share
    deviation = statistics.stdev(waits) if len(waits) > 1 else 0.0
    error = max(_STANDARD_ERRORS * deviation / math.sqrt(len(waits)), _RUN_TO_RUN_NOISE * mean)
    return Measure(mean=mean, low=max(0.0, mean - error), high=mean + error), share


def _bytes_per_sample(costs: Mapping[str, Any]) -> float:
    batches = [_Batch(*each) for each in costs["batches"]]
    if batches:
        return sum(each.content for each in batches) / sum(each.samples for each in batches)
    return float(costs["bytes"] / (len(costs["cpu"]) + 1))


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


#: Part of the limits' seconds that each number of processes is measured for.
_SHARE = 0.1
_POLL_SECONDS = 0.01


def measure_scaling(
    copy: DatasetCopy,
    dataset: NamedDataset,
    limits: ReadLimits,
    served: Sequence[str],
    cpus: int,
) -> Mapping[int, float]:
    """Return the samples a second of 1, 2, 4, ... and as many processes as there are CPUs.

    All prepare the same samples, as a host's workers do. Empty on a machine with one CPU, and for a
    dataset that several processes cannot read at once.
    """
    rounds = worker_counts(cpus)
    if len(rounds) < 2:
        return {}
    folder = copy.paths.root / "rates"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    outputs = [folder / f"worker-{number}" for number in range(cpus)]
    taken = [[count for count in rounds if count > number] for number in range(cpus)]
    each = replace(limits, seconds=limits.seconds * _SHARE)
    with ExitStack() as stack:
        processes = [
            stack.enter_context(copy.started(dataset, each, served, output, "rates", rounds=own))
            for output, own in zip(outputs, taken, strict=True)
        ]
        return _rates(processes, outputs, rounds, limits.patience)


def worker_counts(cpus: int) -> list[int]:
    """Return the numbers of processes to measure.

    >>> worker_counts(12)
    [1, 2, 4, 8, 12]
    """
    return [*(2**power for power in range(cpus.bit_length()) if 2**power < cpus), cpus]


def _rates(
    processes: Sequence[subprocess.Popen[str]],
    outputs: Sequence[Path],
    rounds: Sequence[int],
    patience: float,
) -> dict[int, float]:
    """Begin each round when all are ready, and return the sums of their rates."""
    if not _have_come([Path(f"{output}.ready") for output in outputs], processes, patience):
        return {}
    found = {}
    for count in rounds:
        (outputs[0].parent / f"round-{count}").touch()
        files = [Path(f"{output}.round-{count}") for output in outputs[:count]]
        if not _have_come(files, processes, patience):
            return {}
        found[count] = sum(float(json.loads(file.read_text())) for file in files)
    return found


def _have_come(
    files: Sequence[Path], processes: Sequence[subprocess.Popen[str]], seconds: float
) -> bool:
    """Return whether each of the first processes wrote its file before it or the time ended."""
    until = time.monotonic() + seconds
    for file, process in zip(files, processes, strict=False):
        has_ended = False
        while not file.exists():
            if has_ended or time.monotonic() > until:
                return False
            has_ended = process.poll() is not None  # it may have written the file at its end
            time.sleep(_POLL_SECONDS)
    return True
