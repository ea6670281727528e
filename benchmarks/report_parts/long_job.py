"""A generated job of a day on 64 hosts: use of the machines, steps, losses, stalls, by a seed."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from launcher import Measure, Workload
from launcher.shared import format_event
from report_parts.written_job import WrittenJob, WrittenLine

#: Midnight UTC of a day.
_BEGIN = 1_790_035_200.0
_DATA, _TRAIN = "data_group", "train_group"
_STEP_SECONDS = 0.8
_EPOCH_STEPS, _BATCH_SIZE, _RANKS_PER_HOST = 4500, 40, 4


@dataclass(frozen=True, kw_only=True)
class LongJob:
    """hosts: a quarter prepare data. period: seconds between two values of a host's use.

    A host with Launcher on SageMaker logs its use every 60 s, and one on this machine every 5 s.
    """

    hours: float = 24.0
    hosts: int = 64
    period: float = 60.0
    seed: int = 20261126

    @property
    def seconds(self) -> float:
        """Length of the training."""
        return self.hours * 3600

    @property
    def data_hosts(self) -> int:
        """Hosts of the data group."""
        return self.hosts // 4

    def job(self, name: str) -> WrittenJob:
        """Return its groups and times."""
        return WrittenJob(
            name=name,
            groups=[
                (_DATA, "ml.c5.18xlarge", self.data_hosts),
                (_TRAIN, "ml.g5.12xlarge", self.hosts - self.data_hosts),
            ],
            begin=_BEGIN,
            end=_BEGIN + self.seconds,
        )

    def workload(self) -> Workload:
        """Return the workload for the plan in its report: its steps as they are logged."""
        train_hosts = self.hosts - self.data_hosts
        return Workload(
            batch_size=_BATCH_SIZE,
            cpu_seconds_per_sample=Measure.exact(0.12),
            bytes_per_batch=_BATCH_SIZE * 224 * 224 * 3,
            gpu_seconds_per_step={"NVIDIA A10G": Measure.exact(_STEP_SECONDS)},
            samples_per_epoch=_EPOCH_STEPS * _BATCH_SIZE * _RANKS_PER_HOST * train_hosts,
            epochs=int(self.hours),
        )

    def lines(self) -> dict[str, Iterator[WrittenLine]]:
        """Return the event lines of each host."""
        return {f"algo-{number}": self._host(number) for number in range(1, self.hosts + 1)}

    def _host(self, number: int) -> Iterator[WrittenLine]:
        host, group = f"algo-{number}", _DATA if number <= self.data_hosts else _TRAIN
        role = "data" if group == _DATA else "train"
        begin, end = _BEGIN + number, _BEGIN + self.seconds
        yield WrittenLine(begin, self._event("host_started", number, role=role, pid=2))
        streams = [self._usage(number)]
        if number == self.data_hosts + 1:  # the leader, with rank 0
            streams += [self._training(number), self._evaluations(number)]
        yield from sorted(itertools.chain(*streams), key=lambda line: line.time)
        for rank in range(_RANKS_PER_HOST if number > self.data_hosts else 0):
            yield WrittenLine(end - 2, self._last_epoch(number, rank))
        if number == self.data_hosts + 1:
            yield WrittenLine(end - 1, self._verdict(number))
        yield WrittenLine(end, format_event("host_ended", host=host, group=group, because="done"))

    def _event(self, name: str, number: int, **fields: object) -> str:
        group = _DATA if number <= self.data_hosts else _TRAIN
        return format_event(name, host=f"algo-{number}", group=group, **fields)

    def _usage(self, number: int) -> Iterator[WrittenLine]:
        draw = random.Random(self.seed + number)
        is_data = number <= self.data_hosts
        level = draw.gauss(0.82 if is_data else 0.55, 0.03)
        for place in range(1, int(self.seconds / self.period)):
            at = place * self.period
            wave = 0.05 * math.sin(2 * math.pi * at / 7200 + number)
            stall = 0.4 if draw.random() < 0.005 else 0.0
            cpu = min(1.0, max(0.0, level + wave + draw.gauss(0, 0.03) - stall))
            fields: dict[str, object] = {
                "cpu": round(cpu, 3),
                "cpus": 72 if is_data else 48,
                "memory_bytes": int(4e10 + 5e9 * math.sin(at / 20_000) + draw.gauss(0, 1e9)),
            }
            if not is_data:
                fields["gpu"] = round(min(1.0, max(0.0, 0.91 + draw.gauss(0, 0.03) - stall)), 3)
                fields["gpu_memory_bytes"] = int(2.1e10 + draw.gauss(0, 1e8))
            yield WrittenLine(
                _BEGIN + at + draw.random(), self._event("host_usage", number, **fields)
            )

    def _training(self, number: int) -> Iterator[WrittenLine]:
        """Yield what rank 0's loader reports every 10 s: epochs of an hour."""
        draw = random.Random(self.seed)
        waited = total = 0.0
        step = 0
        for place in range(1, int(self.seconds / 10)):
            epoch, since = divmod(place * 10, 3600)
            if since < 10:
                waited, total, step = 0.0, 0.0, 0
            waited += max(0.0, draw.gauss(0.12, 0.05))
            total += 10
            step += round(10 / _STEP_SECONDS + draw.gauss(0, 0.3))
            text = self._event(
                "data_progress",
                number,
                rank=0,
                stream="pipeline:train_set",
                epoch=epoch,
                step=step,
                steps=4500,
                wait_seconds=round(waited, 4),
                total_seconds=total,
                wait_share=round(waited / total, 4),
            )
            yield WrittenLine(_BEGIN + place * 10, text)
            if place % 6 == 0:
                loss = 0.4 + 6.5 * math.exp(-place / 1500) + draw.gauss(0, 0.05)
                yield WrittenLine(_BEGIN + place * 10 + 0.5, self._step(number, place, loss, draw))

    def _step(self, number: int, place: int, loss: float, draw: random.Random) -> str:
        return self._event(
            "train_step",
            number,
            rank=0,
            epoch=place // 360,
            step=round(place * 10 / _STEP_SECONDS),
            steps=round(self.seconds / _STEP_SECONDS),
            loss=round(loss, 6),
            data_wait=round(max(0.0, draw.gauss(0.008, 0.003)), 6),
            compute=round(draw.gauss(0.68, 0.01), 6),
            communication=round(draw.gauss(0.11, 0.01), 6),
            samples_per_second=round(draw.gauss(9600, 150), 3),
        )

    def _evaluations(self, number: int) -> Iterator[WrittenLine]:
        draw = random.Random(self.seed - 1)
        for hour in range(1, int(self.hours)):
            loss = 0.45 + 6.5 * math.exp(-hour / 4) + draw.gauss(0, 0.03)
            fields = {"rank": 0, "epoch": hour - 1, "step": hour * 4500}
            text = self._event("evaluation", number, **fields, validation_loss=round(loss, 6))
            yield WrittenLine(_BEGIN + hour * 3600 + 1, text)

    def _last_epoch(self, number: int, local_rank: int) -> str:
        rank = (number - self.data_hosts - 1) * _RANKS_PER_HOST + local_rank
        return self._event(
            "data_epoch",
            number,
            rank=rank,
            stream="pipeline:train_set",
            epoch=max(0, int(self.hours) - 1),
            steps=_EPOCH_STEPS,
            samples=_EPOCH_STEPS * _BATCH_SIZE,
            pads=0,
            drops=0,
            wait_seconds=43.2,
            total_seconds=3600.0,
            wait_share=0.012,
        )

    def _verdict(self, number: int) -> str:
        return self._event(
            "data_verdict",
            number,
            bound="nothing",
            wait_share=0.012,
            busy=0.8,
            more=0,
            margin=0.6,
            text="not input-bound (1.2% waiting for data)",
        )
