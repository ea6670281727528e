"""The page of jobs: what it shows, written as one file or served to a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.client.page.job_page import job_page
    from launcher.client.page.job_report import JobReport, report
    from launcher.client.page.page_server import PageServer
    from launcher.client.page.planned_run import PlannedRun, UnplannedRun, plan_blocks, plan_of_run
    from launcher.client.page.report_facts import ReportFacts, read_report_facts

__getattr__ = open_door(__name__)
