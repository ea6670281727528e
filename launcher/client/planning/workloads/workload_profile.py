"""The measured figures of a workload, as the file that `launcher plan` reads and as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from launcher.client.planning.plans.amounts import Measure
from launcher.client.planning.plans.parallel_strategy import ModelFigures
from launcher.client.planning.workloads.this_machine import MachineCpu, MeasuredStepTime
from launcher.client.planning.workloads.workload import Workload
from launcher.client.planning.workloads.workload_file import SETTINGS
from launcher.client.show import Note, note_lines, short_number
from launcher.client.spec import BYTES_PER_WORKER

_DIGITS = 4


@dataclass(frozen=True, kw_only=True)
class WorkloadProfile:
    """Needs of one dataset of a job, and how they were measured.

    cpu_seconds, wait_seconds: of a sample. samples_per_epoch: None if unknown. gpu_seconds: of a
    step, by accelerator: a measure, or a number that the user gave. communication_seconds: that
    several train hosts added to a step; None if unknown. datasets: that the job serves.
    measured: everything else that was found, by name. model: its memory, if a task was measured.
    bytes_per_worker: memory of a process that prepares batches; None if unknown.
    parallel_efficiency: share of a CPU's speed that is left when all are busy; None if unknown.
    """

    dataset: str
    batch_size: int
    cpu_seconds: Measure
    wait_seconds: Measure = field(default_factory=lambda: Measure.exact(0.0))
    bytes_per_batch: float
    cpu: MachineCpu
    bytes_per_worker: int | None = None
    samples_per_epoch: int | None = None
    gpu_seconds: Mapping[str, float | Measure] = field(default_factory=dict)
    communication_seconds: Measure | None = None
    entry_point: str = ""
    datasets: tuple[str, ...] = ()
    measured: Mapping[str, Any] = field(default_factory=dict)
    model: ModelFigures | None = None
    parallel_efficiency: float | None = None

    def with_scaling(self, rates: Mapping[int, float]) -> WorkloadProfile:
        """Return the profile with the samples a second of some numbers of processes."""
        if not rates:
            return self
        most = max(rates)
        efficiency = min(1.0, rates[most] / (most * rates[1]))
        return replace(
            self,
            parallel_efficiency=rounded(efficiency),
            measured={
                **self.measured,
                "samples_per_second": {count: rounded(rate) for count, rate in rates.items()},
            },
        )

    def with_step(self, step: MeasuredStepTime) -> WorkloadProfile:
        """Return the profile with what was measured of a step.

        The seconds are those of the workload if they are of an accelerator of the catalogue, and of
        batches of its size.
        """
        found = {
            "accelerator": step.accelerator,
            "batch_size": step.batch_size,
            "steps": step.steps,
            "seconds": {name: rounded(getattr(step, name)) for name in ("low", "median", "high")},
            "memory_bytes": step.memory_bytes,
        }
        name = step.catalogue_name if step.batch_size == self.batch_size else None
        seconds = Measure(mean=rounded(step.median), low=rounded(step.low), high=rounded(step.high))
        return replace(
            self,
            gpu_seconds={name: seconds} if name else {},
            measured={**self.measured, "step": found},
        )

    def workload(self) -> Workload:
        """Return the workload, as `launcher plan` reads it from the file."""
        return Workload(
            batch_size=self.batch_size,
            cpu_seconds_per_sample=self.cpu_seconds,
            wait_seconds_per_sample=self.wait_seconds,
            bytes_per_worker=self.bytes_per_worker or BYTES_PER_WORKER,
            bytes_per_batch=self.bytes_per_batch,
            gpu_seconds_per_step={
                name: each if isinstance(each, Measure) else Measure.exact(each)
                for name, each in self.gpu_seconds.items()
            },
            communication_seconds_per_step=self.communication_seconds,
            samples_per_epoch=self.samples_per_epoch,
            cpu_speed={self.cpu.family: 1.0} if self.cpu.family else {},
            parallel_efficiency=self.parallel_efficiency or 1.0,
            model=self.model,
            entry_point=self.entry_point or "train.py",
            datasets=self.datasets,
        )

    def to_plain(self) -> dict[str, Any]:
        """Return the fields of the workload's file."""
        cpu = self.cpu_seconds
        fields = {
            "batch_size": self.batch_size,
            "cpu_seconds_per_sample": {**_range(cpu), "deviation": rounded(cpu.deviation)},
            "wait_seconds_per_sample": _range(self.wait_seconds)
            if self.wait_seconds.mean
            else None,
            "bytes_per_worker": self.bytes_per_worker,
            "bytes_per_batch": round(self.bytes_per_batch),
            "gpu_seconds_per_step": {
                name: _range(each) if isinstance(each, Measure) else each
                for name, each in self.gpu_seconds.items()
            }
            or None,
            "communication_seconds_per_step": _range(self.communication_seconds)
            if self.communication_seconds
            else None,
            "samples_per_epoch": self.samples_per_epoch,
            "cpu_speed": {self.cpu.family: 1} if self.cpu.family else {},
            "parallel_efficiency": self.parallel_efficiency,
            "entry_point": self.entry_point or None,
            "datasets": list(self.datasets),
            "model": model_fields(self.model) if self.model else None,
            "measured": {
                "dataset": self.dataset,
                **self.measured,
                "cpu": self.cpu.model,
                "cpus": self.cpu.count,
                "family": self.cpu.family or "unknown",
            },
        }
        return {name: value for name, value in fields.items() if value is not None}

    def to_yaml(self) -> str:
        """Return the workload's file."""
        text: str = yaml.safe_dump(self.to_plain(), sort_keys=False, width=100, allow_unicode=True)
        return "\n".join([*(f"# {line}" for line in self._heading()), text])

    def _heading(self) -> list[str]:
        lines = [
            f"Workload of {self.dataset}, measured by `launcher plan measure`, for `launcher plan`."
        ]
        if self.cpu.family:
            lines.append(f"cpu_speed: relative to {self.cpu.family}, on which it was measured.")
        else:
            lines.append("cpu_speed: relative to this machine, whose EC2 family is unknown.")
        lines.append("Families without a line follow by public benchmarks, with a wider range.")
        if not self.gpu_seconds:
            lines.append("Missing: seconds of a step whose data is there already, by accelerator:")
            lines.append("gpu_seconds_per_step: {NVIDIA A10G: 0.45}")
        return lines


def model_fields(figures: ModelFigures) -> dict[str, Any]:
    """Return the fields of a model's figures, as the file has them; unknown ones are absent."""
    model = figures.footprint
    names = {setting: name for name, setting in SETTINGS.items()}
    fields = {
        "parameters": model.parameters,
        "gradients": model.gradients,
        "optimizer": model.states,
        "largest_block": model.largest,
        "outside_blocks": model.rest,
        "activations": {
            names[setting]: {"sample": each.sample, "fixed": max(0, each.fixed)}
            for setting, each in sorted(model.activations.items())
        },
        "stage_output": figures.stage_output,
        "blocks": figures.blocks,
        "batch_norm": figures.batch_norm,
        "precision": figures.precision,
        "is_recomputed": figures.recomputed or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _range(seconds: Measure) -> dict[str, float]:
    return {name: rounded(getattr(seconds, name)) for name in ("mean", "low", "high")}


def rounded(value: float) -> float:
    """Return a number with the digits that a measurement has."""
    return float(f"{value:.{_DIGITS}g}")


#: Share of a sample's time that it waits without a CPU, above which that is said.
_WAITING = 0.2
#: Share of the time that it wants a CPU and has none, above which that is said.
_BUSY = 0.05
_NOTE_COLUMN = 17


def profile_text(profile: WorkloadProfile) -> str:
    """Return what was measured, a line for each figure."""
    lines = note_lines(_notes(profile), _NOTE_COLUMN)
    return "\n".join([profile.dataset, *(f"  {line}" for line in lines)])


def _notes(profile: WorkloadProfile) -> Iterator[Note]:
    cpu, found = profile.cpu_seconds, profile.measured
    range_ = f"{_ms(cpu.mean)} ({_ms(cpu.low)} to {_ms(cpu.high)})"
    yield "CPU per sample", f"{range_}, of {found['samples']:,} samples"
    if spread := found.get("cpu_seconds"):
        yield "", ", ".join(f"{name} {_ms(value)}" for name, value in spread.items())
    if job := found.get("job"):
        yield "", f"from job {job}, of {', '.join(found['streams'])} together"
    yield f"batch of {profile.batch_size}", f"{profile.bytes_per_batch:,.0f} bytes"
    if first := found.get("seconds_until_first_sample"):
        yield "first sample", f"after {first:.3g} s, imports included"
    if memory := found.get("memory_bytes_per_worker"):
        yield "memory", f"{memory / 1e6:,.0f} MB per worker"
    if rates := found.get("samples_per_second"):
        each = ", ".join(f"{count}: {short_number(rate)}" for count, rate in rates.items())
        yield "processes", f"{each} samples/s; {profile.parallel_efficiency:.0%} of a CPU is left"
    if step := found.get("step"):
        seconds = step["seconds"]
        range_ = f"{_ms(seconds['median'])} ({_ms(seconds['low'])} to {_ms(seconds['high'])})"
        yield "step", f"{range_}, {step['memory_bytes'] / 1e9:,.3g} GB"
        yield "", f"{step['steps']} steps on {step['accelerator']}{_unused(profile, step)}"
    if (wait := profile.wait_seconds).mean:
        yield "waiting", f"{_ms(wait.mean)} ({_ms(wait.low)} to {_ms(wait.high)}) of a sample"
        share = wait.mean / (wait.mean + cpu.mean)
        if share > _WAITING:
            yield "", f"{share:.0%} of its time it computes nothing: use more workers than vCPUs"
    if (share := found.get("busy_machine_share", 0)) > _BUSY:
        yield "busy machine", f"no CPU for {share:.0%} of the time: the range is wider for it"
    if why := found.get("not_collated"):
        yield "no batch", f"samples make none without a collate_fn: {why}"
    if verdict := found.get("verdict"):
        yield "the job was", verdict
    family = profile.cpu.family
    speed = f"speed 1 is that of {family}" if family else "EC2 family unknown: say --cpu-family"
    yield "measured on", f"{profile.cpu.model}, {profile.cpu.count} CPUs; {speed}"


def _unused(profile: WorkloadProfile, step: Mapping[str, Any]) -> str:
    """Return why a measured step is no figure of the plan; nothing if it is one."""
    if profile.gpu_seconds:
        return ""
    if step["batch_size"] != profile.batch_size:
        size = step["batch_size"]
        return f", of {size} samples: not for the plan, whose batches have {profile.batch_size}"
    return ", which is in no instance type of the catalogue: not for the plan"


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms"
