"""Summarize a job from its description, job document and event lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from launcher.client.jobs.event_sentences import WARNINGS
from launcher.client.jobs.group_hosts import HostGroup, host_groups
from launcher.client.jobs.metric_records import final_metrics
from launcher.errors import JobFailed, JobStopped
from launcher.shared import (
    FIELD_ERRORS,
    LOCAL_WORKERS,
    Cause,
    DataWait,
    JobDocument,
    ObservedRates,
    Role,
    judge_wait,
    observe,
    parse_event,
)

if TYPE_CHECKING:
    from launcher.shared import TrainingJobDescription

#: The command line's exit code for each terminal status.
EXIT_CODES = {"Completed": 0, "Failed": JobFailed.exit_code, "Stopped": JobStopped.exit_code}


def summarise(
    description: TrainingJobDescription, document: JobDocument | None, lines: Iterable[str]
) -> dict[str, object]:
    """Return the outcome as plain values.

    exit_code: None while the job runs. interruptions: how often its spot instances were taken back.
    losses: sentences about files that were not kept.
    billable_seconds: summed over the group's hosts, None until known. data: None when no rank
    reported a data epoch; its metrics and bottleneck verdict are those of the job's end, or else
    the latest.
    """
    status = description["TrainingJobStatus"]
    measure = DataMeasure.of(lines)
    return {
        "name": description["TrainingJobName"],
        "status": status,
        "secondary_status": description["SecondaryStatus"],
        "failure_reason": description.get("FailureReason"),
        "interruptions": sum(
            each.get("Status") == "Interrupted"
            for each in description.get("SecondaryStatusTransitions", ())
        ),
        "exit_code": EXIT_CODES.get(status),
        "losses": [*description.get("LocalLosses", ()), *measure.losses],
        "model_artifacts": model_uri(description),
        "groups": [_group(group, description, document) for group in host_groups(description)],
        "metrics": final_metrics(description),
        "data": measure.summary(data_groups(document), completed=status == "Completed"),
        **_image(description),
    }


def _image(description: TrainingJobDescription) -> dict[str, object]:
    """Return the image that a job in containers of this machine runs, and its digest."""
    image = description.get("LocalImage")
    return {} if image is None else {"image": image}


def model_uri(description: TrainingJobDescription) -> str | None:
    """Return the URI of the model; of a job that runs or has failed, it is that of none."""
    model = description.get("ModelArtifacts", {}).get("S3ModelArtifacts")
    return model if description["TrainingJobStatus"] in ("Completed", "Stopped") else None


def data_groups(document: JobDocument | None) -> str:
    """Return the names of the groups that prepare data, for a sentence."""
    roles = document.roles if document else {}
    names = " and ".join(name for name, role in roles.items() if role is Role.DATA)
    return names or (LOCAL_WORKERS if document else "data hosts")


def _group(
    group: HostGroup, description: TrainingJobDescription, document: JobDocument | None
) -> dict[str, Any]:
    role = document and document.roles.get(group.name)
    seconds = description.get("BillableTimeInSeconds")
    return {
        "name": group.name,
        "role": role.value if role else None,
        "instance_type": group.instance_type,
        "hosts": list(group.hosts),
        "billable_seconds": None if seconds is None else seconds * len(group.hosts),
    }


@dataclass
class DataMeasure:
    """Batches prepared per host and received per rank, and how long the ranks waited.

    skipped: how many times a sample raised and was left out. warnings: possible mistakes, as
    sentences. losses: of files. wait: as the job itself has judged it.
    """

    prepared: Counter[str] = field(default_factory=Counter)
    received: Counter[str] = field(default_factory=Counter)
    epochs: int = 0
    wait_seconds: float = 0.0
    total_seconds: float = 0.0
    skipped: int = 0
    warnings: list[str] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)
    wait: DataWait | None = None

    @classmethod
    def of(cls, lines: Iterable[str]) -> DataMeasure:
        """Return the figures in a job's lines."""
        measure = cls()
        for line in lines:
            event = parse_event(line)
            if event is None:
                continue
            try:
                measure.add(*event)
            except FIELD_ERRORS:
                continue  # a script's own line, or two interleaved lines
        return measure

    def add(self, name: str, fields: Mapping[str, Any]) -> None:
        """Take an event; raises one of FIELD_ERRORS for another version's."""
        if name == "batches_served":
            self.prepared.update(Counter(**fields["by_host"]))
        elif name == "data_epoch":
            # per rank, for comparison with the hosts' prepared counts
            rank, steps = str(int(fields["rank"])), int(fields["steps"])
            waited, took = float(fields["wait_seconds"]), float(fields["total_seconds"])
            skipped = int(fields.get("skipped", 0))
            self.received[rank] += steps
            self.epochs += 1
            self.wait_seconds += waited
            self.total_seconds += took
            self.skipped += skipped
        elif name == "ranks_begin_apart":
            self.warnings.append(f"{fields['stream']}: {fields['why']}")
        elif name == "files_lost":
            self.losses.append(WARNINGS[name].format_map(fields))
        elif name == "data_metrics":
            self.metrics.setdefault(str(fields["of"]), {}).update(**fields["figures"])
        elif name == "data_verdict":
            self.wait = DataWait.of_event(fields)

    def summary(self, groups: str, *, completed: bool) -> dict[str, Any] | None:
        """Return plain values; None if nothing was read with launcher.data."""
        if not self.epochs and not self.prepared:
            return None
        unused = completed and bool(self.prepared) and not self.epochs and not self.prepared.total()
        warning = (
            f"{groups} had nothing to do: the script did not read with launcher.data.DataLoader"
        )
        share = self.wait_seconds / self.total_seconds if self.total_seconds else None
        rates = self.rates
        wait = self.wait if rates is None else judge_wait(rates, groups)
        if wait is not None and wait.bound is not Cause.TOO_SHORT:
            share = wait.share  # one value: of the rank that waited longest
        return {
            "batches_by_host": dict(self.prepared),
            "batches_received": dict(sorted(self.received.items(), key=lambda item: int(item[0]))),
            "wait_share": share and round(share, 4),
            "skipped": self.skipped,
            "warnings": [*self.warnings, warning] if unused else self.warnings,
            "metrics": self.metrics,
            "verdict": wait and wait.fields(),
        }

    @property
    def rates(self) -> ObservedRates | None:
        """The figures that the wait is judged by; None without a data group.

        None also for figures of another version, or without those of all parts.
        """
        try:
            ranks = {name.partition("/")[::2]: each for name, each in self.metrics["ranks"].items()}
            return observe(
                hosts=self.metrics["hosts"], ranks=ranks, receivers=self.metrics["receivers"]
            )
        except FIELD_ERRORS:
            return None
