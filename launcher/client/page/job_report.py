"""The report on a job, as one HTML file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from html import escape
from pathlib import Path
from typing import Any

from launcher.client.home import writing
from launcher.client.jobs import Job
from launcher.client.page.job_page import job_page
from launcher.client.page.planned_run import PlannedRun, UnplannedRun
from launcher.client.page.report_facts import ReportFacts, read_report_facts
from launcher.client.planning import Workload, plain_recommendation
from launcher.client.sessions import session_of
from launcher.client.show import PageBar, page_html
from launcher.shared import write_complete

#: Height of a report in a notebook, in which it scrolls.
_FRAME_PIXELS = 720


@dataclass(frozen=True, kw_only=True)
class JobReport:
    """A report on a job so far.

    html: the whole document, which loads nothing from a network. facts: what it shows.
    """

    job_name: str
    html: str = field(repr=False)
    facts: ReportFacts = field(repr=False)

    def _repr_html_(self) -> str:
        """Return a frame with the document: its style must not change that of the notebook."""
        return (
            f'<iframe title="report on {escape(self.job_name)}" srcdoc="{escape(self.html)}" '
            f'style="width:100%;height:{_FRAME_PIXELS}px;border:0"></iframe>'
        )

    def to_plain(self) -> dict[str, Any]:
        """Return plain values, as `launcher report -o json` prints them; times in UTC."""
        facts, priced = self.facts, self.facts.priced
        hosts = facts.hosts.items()
        return {
            "job": priced.job_name,
            "written": facts.written,
            "diagnosis": facts.diagnosis.to_plain(),
            "cost": {
                **asdict(replace(priced, metrics={})),
                "per_hour": priced.per_hour,
                "total": priced.total,
            },
            "plan": _plan(facts.plan),
            "states": [_bar("state", each) for each in facts.states],
            "hosts": [{"host": host, **_bar("group", each)} for host, each in hosts],
            "events": [{**asdict(each), "time": _time(each.time)} for each in facts.events],
            "metrics": list(self.metric_rows()),
        }

    def metric_rows(self) -> Iterator[dict[str, Any]]:
        """Yield the values of its charts, as `launcher report -o csv` prints them."""
        for series in self.facts.series:
            for time, value in zip(series.times, series.values, strict=True):
                yield {
                    "time": _time(time),
                    "metric_name": series.metric_name,
                    "group": series.group,
                    "host": series.host,
                    "value": value,
                }

    def write(self, path: str | Path) -> Path:
        """Write the report, replacing an earlier one; raises PlatformError if that cannot be."""
        file = Path(path)
        with writing(file):
            write_complete(file, self.html)
        return file


def report(job: Job | str, *, workload: Workload | None = None) -> JobReport:
    """Return a report on a job that runs or ran.

    It has the states and hosts over time, the parts of a step, the use of the machines, metrics,
    cost and idle machines by group, the diagnosis, events, and the plan for its workload with the
    job marked on it.

    job: a job or the name of one, which is looked for on this machine, then on SageMaker.
    workload: of the plan; by default what the job itself shows of it.

    Raises JobNotFound, and the platform's error if the job cannot be described.
    """
    known = Job(job, session_of(job)) if isinstance(job, str) else job
    facts = read_report_facts(known, workload)
    return JobReport(job_name=known.name, html=page_html(job_page(facts)), facts=facts)


_CLUSTERS = 10


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


def _bar(name: str, bar: PageBar) -> dict[str, Any]:
    return {name: bar.name, "begin": _time(bar.begin), "end": _time(bar.end)}


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, tz=timezone.utc)
