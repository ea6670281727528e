"""The data of a report as plain values, for JSON and CSV."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

from launcher.client.planning.recommendation_json import plain_recommendation
from launcher.client.planning.reporting.planned_run import PlannedRun, UnplannedRun
from launcher.client.planning.reporting.report_chart import ChartBar
from launcher.client.planning.reporting.report_facts import ReportFacts

_CLUSTERS = 10


def plain_report(facts: ReportFacts) -> dict[str, Any]:
    """Return what a report shows; times in UTC."""
    priced = facts.priced
    return {
        "job": priced.job_name,
        "written": facts.written,
        "diagnosis": facts.diagnosis.to_plain(),
        "cost": {**asdict(priced), "per_hour": priced.per_hour, "total": priced.total},
        "plan": _plan(facts.plan),
        "states": [_bar("state", each) for each in facts.states],
        "hosts": [{"host": host, **_bar("group", each)} for host, each in facts.hosts.items()],
        "events": [{**asdict(each), "time": _time(each.time)} for each in facts.events],
        "metrics": list(metric_rows(facts)),
    }


def metric_rows(facts: ReportFacts) -> Iterator[dict[str, Any]]:
    """Yield each value that the charts are drawn from."""
    for series in facts.series:
        for time, value in zip(series.times, series.values, strict=True):
            yield {
                "time": _time(time),
                "metric_name": series.metric_name,
                "group": series.group,
                "host": series.host,
                "value": value,
            }


def _plan(plan: PlannedRun | UnplannedRun) -> dict[str, Any]:
    if isinstance(plan, UnplannedRun):
        return {"missing": plan.why}
    return {
        "workload": plan.source,
        "work": plan.scatter.what,
        "run": {
            "cluster": plan.run.name,
            "hours": plan.run.hours,
            "dollars": plan.run.dollars,
            "step_seconds": plan.step,
            "expected_step_seconds": plan.expected,
        },
        **plain_recommendation(plan.recommendation, _CLUSTERS),
    }


def _bar(name: str, bar: ChartBar) -> dict[str, Any]:
    return {name: bar.name, "begin": _time(bar.begin), "end": _time(bar.end)}


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, tz=timezone.utc)
