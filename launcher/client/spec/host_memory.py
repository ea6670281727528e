"""Judge whether a job fits its hosts' memory, for the plan and for the check."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from launcher.client.catalogue import find
from launcher.client.spec.job_spec import JobSpec
from launcher.client.spec.roles import job_roles
from launcher.shared import Role, bytes_text

#: Bytes of a worker where they are not measured: Python, numpy and a library for images.
BYTES_PER_WORKER = 2.0**29
_GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class HostMemory:
    """Bytes that the data service holds on a host.

    finished: of batches that are prepared ahead. workers: their number, each of worker_bytes.
    """

    finished: float = 0.0
    workers: int = 0
    worker_bytes: float = BYTES_PER_WORKER

    def shortage(self, memory_gib: float | None) -> str | None:
        """Return what does not fit into a host's memory, with the numbers; None if it fits."""
        needed = self.finished + self.workers * self.worker_bytes
        if memory_gib is None or needed <= memory_gib * _GIB:
            return None
        parts = [f"{bytes_text(round(self.finished))} of finished batches"] if self.finished else []
        if self.workers:
            parts.append(f"{self.workers} workers of {bytes_text(round(self.worker_bytes))}")
        return f"{' and '.join(parts)} do not fit into its {memory_gib:g} GiB"


@dataclass(frozen=True, kw_only=True)
class MemoryShortage:
    """A group whose hosts lack memory. is_certain: whatever a worker needs, which is assumed."""

    what: str
    is_certain: bool


def memory_shortages(
    spec: JobSpec, worker_bytes: float = BYTES_PER_WORKER
) -> Iterator[MemoryShortage]:
    """Yield the types of a job's groups whose memory does not hold what its data service keeps."""
    service = spec.data_service
    roles = job_roles(spec)[0] if service else {}
    for group in spec.groups:
        for name, _ in spec.choices(group):
            instance = find(name)
            if service is None or instance is None:
                continue
            held, role = HostMemory(), roles.get(group.instance_group_name)
            if role is Role.DATA:
                workers = service.workers_per_host or instance.vcpu or 0
                held = HostMemory(workers=workers, worker_bytes=worker_bytes)
            elif role is Role.TRAIN:
                held = HostMemory(
                    finished=service.prefetch_bytes,
                    workers=service.local_workers,
                    worker_bytes=worker_bytes,
                )
            if short := held.shortage(instance.memory_gib):
                finished = HostMemory(finished=held.finished)
                yield MemoryShortage(
                    what=f"{group.instance_group_name}: on {name}, {short}",
                    is_certain=finished.shortage(instance.memory_gib) is not None,
                )
