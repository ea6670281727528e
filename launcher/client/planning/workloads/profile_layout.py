"""A profile of a workload as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.client.jobs import short_number
from launcher.client.planning.workloads.workload_profile import WorkloadProfile

#: Share of a sample's time that it waits without a CPU, above which that is said.
_WAITING = 0.2
#: Share of the time that it wants a CPU and has none, above which that is said.
_BUSY = 0.05


def profile_text(profile: WorkloadProfile) -> str:
    """Return what was measured, a line for each figure."""
    return "\n".join([profile.dataset, *(f"  {name:<16} {what}" for name, what in _rows(profile))])


def _rows(profile: WorkloadProfile) -> Iterator[tuple[str, str]]:
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
