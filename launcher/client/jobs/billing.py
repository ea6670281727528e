"""Estimate a job's cost from the seconds AWS billed and its instances' prices."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from launcher.client import catalogue
from launcher.client.catalogue import (
    OLD_MARK,
    CostEstimate,
    dollars_text,
    estimate,
    spot_saving,
    volume_gb,
)
from launcher.client.jobs.group_hosts import host_groups

if TYPE_CHECKING:
    from launcher.shared import TrainingJobDescription


@dataclass(frozen=True, kw_only=True)
class Bill:
    """The cost of a job on AWS, without traffic, and without storage whose price is unknown.

    billable_seconds: of each instance, including a warm pool's; None until known. max_seconds: the
    MaxRuntimeInSeconds of the request, then as a warm pool; None if it had none. spot_saving: the
    share of the training time that was not billed; None without spot instances.
    """

    estimate: CostEstimate
    billable_seconds: int | None
    max_seconds: int | None
    spot_saving: float | None

    @property
    def dollars(self) -> float | None:
        """USD; None while the job runs, and when a price is unknown."""
        seconds = self.billable_seconds
        return None if seconds is None else self.estimate.dollars(seconds)

    @property
    def max_dollars(self) -> float | None:
        """USD for max_seconds; None when a price is unknown."""
        return None if self.max_seconds is None else self.estimate.dollars(self.max_seconds)

    @property
    def by_group(self) -> dict[str, float | None]:
        """USD of each group."""
        seconds = self.billable_seconds
        return {
            group.name: None if seconds is None else group.dollars(seconds)
            for group in self.estimate.groups
        }

    @property
    def cost_text(self) -> str:
        """The cost, with a mark where a price is old."""
        return self._marked(self.dollars)

    def __str__(self) -> str:
        return f"{self.cost_text} (max {self._marked(self.max_dollars)})"

    def _marked(self, dollars: float | None) -> str:
        return f"{dollars_text(dollars)}{OLD_MARK if self.estimate.is_old else ''}"

    def summary(self) -> dict[str, Any]:
        """Return plain values, as `-o json` prints them."""
        return {
            "dollars": self.dollars,
            "max_dollars": self.max_dollars,
            "by_group": self.by_group,
            "volumes_per_hour": self.estimate.volumes_per_hour,
            "spot_saving": self.spot_saving,
            "prices": list(self.estimate.sources),
            "prices_are_old": self.estimate.is_old,
            "unknown_prices": list(self.estimate.unknown_types),
        }


def bill(description: TrainingJobDescription) -> Bill | None:
    """Return the cost of a described job.

    Call it only for a platform that bills. None for a serverless job, whose machines AWS does not
    disclose.
    Source of the seconds: the DescribeTrainingJob page of the SageMaker API reference.
    """
    groups = [(each.name, each.instance_type, len(each.hosts)) for each in host_groups(description)]
    if not groups:
        return None
    region = description["TrainingJobArn"].split(":")[3]
    is_spot = description.get("EnableManagedSpotTraining", False)
    billed = description.get("BillableTimeInSeconds")
    kept = description.get("WarmPoolStatus", {}).get("ResourceRetainedBillableTimeInSeconds", 0)
    day = day_created(description)
    size = description["ResourceConfig"].get("VolumeSizeInGB", 0)
    volumes = volume_gb(([(kind, count)] for _, kind, count in groups), size)
    return Bill(
        estimate=estimate(groups, catalogue.price_list(day), region, day, volumes),
        billable_seconds=None if billed is None else billed + kept,
        max_seconds=_max_seconds(description),
        spot_saving=spot_saving(description.get("TrainingTimeInSeconds"), billed)
        if is_spot
        else None,
    )


def _max_seconds(description: TrainingJobDescription) -> int | None:
    """Return the longest time that each instance is billed for, as the plan has it."""
    longest = description.get("StoppingCondition", {}).get("MaxRuntimeInSeconds")
    kept = description.get("ResourceConfig", {}).get("KeepAlivePeriodInSeconds", 0)
    return None if longest is None else longest + kept


def day_created(description: TrainingJobDescription) -> date:
    """Return the day on which a job was created, whose prices apply; today at the latest."""
    created = description.get("CreationTime")
    return min(created.date(), catalogue.today()) if created else catalogue.today()
