"""Created jobs: log, states, outcome, bill and files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.client.jobs.artifacts import ARTIFACTS, download_artifacts
    from launcher.client.jobs.background_log import BackgroundLog
    from launcher.client.jobs.billing import Bill, bill, day_created
    from launcher.client.jobs.event_sentences import WARNINGS, sentence
    from launcher.client.jobs.failure_cause import advice
    from launcher.client.jobs.failure_report import (
        NEEDS_ALL_HOSTS,
        FailureReport,
        failure_of,
        host_of_reason,
        report_failure,
    )
    from launcher.client.jobs.group_hosts import (
        HostGroup,
        group_of_hosts,
        host_groups,
        select_hosts,
    )
    from launcher.client.jobs.job import Job
    from launcher.client.jobs.job_follower import Deadline, JobFollower, StateChange
    from launcher.client.jobs.job_metrics import (
        COLUMNS,
        CollectedSeries,
        JobMetrics,
        MetricSeries,
        group_series,
        import_pandas,
        metric_table,
        row_of,
        sparkline,
    )
    from launcher.client.jobs.job_printing import follow_and_print, print_notice, prints_logs
    from launcher.client.jobs.job_screen import JobScreen, ShownState
    from launcher.client.jobs.listed_jobs import age_text, job_table, last_metric, plain_job
    from launcher.client.jobs.merged_log import LogLine, MergedLog
    from launcher.client.jobs.metric_records import (
        PERIOD_SECONDS,
        MetricReader,
        MetricRecord,
        TimeRange,
        final_metrics,
        records_from_any,
        records_from_cloudwatch,
        records_from_logs,
    )
    from launcher.client.jobs.metric_tracking import MetricTracking
    from launcher.client.jobs.retrying_session import KnownJob, RetryingSession, with_resume_hint
    from launcher.client.jobs.summary import EXIT_CODES, DataMeasure, data_groups, summarise
    from launcher.client.jobs.summary_layout import (
        STATE_COLOURS,
        job_record_text,
        parameter_facts,
        record_facts,
        summary_text,
    )
    from launcher.client.jobs.trackers.mlflow_tracker import MlflowTracker
    from launcher.client.jobs.trackers.tracker_factories import (
        check_trackers,
        load_callback,
        load_trackers,
        tracker_problems,
    )

__getattr__ = open_door(__name__)
