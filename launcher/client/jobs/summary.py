"""Summary of a job, from its description, its job document and its hosts' event lines."""

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
    Bound,
    JobDocument,
    ObservedRates,
    Role,
    judge,
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
    measure = _DataMeasure.of(lines)
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
    return " and ".join(name for name, role in roles.items() if role is Role.DATA) or "data hosts"


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
class _DataMeasure:
    """Batches prepared per host and received per rank, and how long the ranks waited.

    skipped: how many times a sample raised and was left out. warnings: possible mistakes, as
    sentences. losses: of files.
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
    verdict: dict[str, Any] | None = None

    @classmethod
    def of(cls, lines: Iterable[str]) -> _DataMeasure:
        measure = cls()
        for line in lines:
            event = parse_event(line)
            if event is None:
                continue
            try:
                measure._add(*event)
            except FIELD_ERRORS:
                continue  # a script's own line, or two interleaved lines
        return measure

    def _add(self, name: str, fields: Mapping[str, Any]) -> None:
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
            share = fields["wait_share"]
            self.verdict = {
                **{key: fields[key] for key in ("bound", "busy", "more")},
                "wait_share": None if share is None else float(share),
                "text": str(fields["text"]),
            }
            if fields.get("is_waiting") is not None:
                self.verdict["is_waiting"] = bool(fields["is_waiting"])

    def summary(self, groups: str, *, completed: bool) -> dict[str, Any] | None:
        if not self.epochs and not self.prepared:
            return None
        unused = completed and bool(self.prepared) and not self.epochs and not self.prepared.total()
        warning = (
            f"{groups} had nothing to do: the script did not read with launcher.data.DataLoader"
        )
        share = self.wait_seconds / self.total_seconds if self.total_seconds else None
        verdict = self._judge(groups)
        if verdict is not None and verdict["bound"] != Bound.TOO_SHORT:
            share = verdict["wait_share"]  # one value: of the rank that waited longest
        return {
            "batches_by_host": dict(self.prepared),
            "batches_received": dict(sorted(self.received.items(), key=lambda item: int(item[0]))),
            "wait_share": share and round(share, 4),
            "skipped": self.skipped,
            "warnings": [*self.warnings, warning] if unused else self.warnings,
            "metrics": self.metrics,
            "verdict": verdict,
        }

    def _judge(self, groups: str) -> dict[str, Any] | None:
        """Judge by the figures; without those of all parts, return the verdict of the job."""
        rates = rates_of(self.metrics)
        if rates is None:
            return self.verdict
        verdict = judge(rates, groups)
        return None if verdict is None else verdict.fields()


def rates_of(metrics: Mapping[str, Any]) -> ObservedRates | None:
    """Return the inputs of the verdict from the figures of data_metrics events, by their `of`.

    None without a data group, or for figures of another version.
    """
    try:
        return observe(
            hosts=metrics["hosts"],
            ranks={_rank_and_stream(name): each for name, each in metrics["ranks"].items()},
            receivers=metrics["receivers"],
        )
    except FIELD_ERRORS:
        return None


def _rank_and_stream(name: str) -> tuple[str, str]:
    rank, _, stream = name.partition("/")
    return rank, stream
