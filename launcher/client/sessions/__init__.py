"""Platforms that run jobs: the interface, and its implementations for AWS and this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.client.sessions.aws.aws_session import AwsSession
    from launcher.client.sessions.aws.call_limits import guard_calls
    from launcher.client.sessions.aws.caller_identity import assumed_role
    from launcher.client.sessions.aws.clients import Clients, configured_endpoint
    from launcher.client.sessions.aws.cloudwatch_logs import GROUP
    from launcher.client.sessions.aws.cloudwatch_metrics import NAMESPACE, averages, host_averages
    from launcher.client.sessions.aws.error_translation import (
        BUCKET_DENIED,
        NO_BUCKET,
        translate_errors,
    )
    from launcher.client.sessions.aws.response_check import foreign_response
    from launcher.client.sessions.aws.sagemaker_jobs import Creation, matches_request
    from launcher.client.sessions.aws.sagemaker_platform import SAGEMAKER
    from launcher.client.sessions.aws.sdk_v2_session import Session, get_execution_role
    from launcher.client.sessions.aws.transient_errors import (
        is_propagating,
        is_throttled,
        is_transient,
        retry,
    )
    from launcher.client.sessions.base import (
        TERMINAL_STATUSES,
        CanUpdateJobs,
        HasHostAverages,
        HasMetricAverages,
        KeepsJobFiles,
        LogEvent,
        LogStream,
        MetricPoint,
        Platform,
        PlatformSession,
        Progress,
        RestartsJobs,
        is_session,
        violations_without_aws,
    )
    from launcher.client.sessions.completed_spec import (
        applied_defaults,
        completed,
        default_sources,
        value_sources,
        with_defaults,
        with_platform_defaults,
        with_source,
    )
    from launcher.client.sessions.conformance import (
        CLAUSES,
        FAIL,
        LINES,
        TASK_VARIABLE,
        WAIT,
        ClauseBroken,
        SessionUnderTest,
        check_session,
        clause_5_unknown_names,
        clause_6_logs,
        clause_9_lists,
    )
    from launcher.client.sessions.default_values import (
        DEFAULT_FIELDS,
        defaults_files,
        read_defaults,
    )
    from launcher.client.sessions.job_list import newest_jobs
    from launcher.client.sessions.job_names import (
        check_name,
        job_name,
        new_job_name,
        numbered_names,
    )
    from launcher.client.sessions.job_record import (
        JobOrigin,
        JobRecord,
        SourceCommit,
        job_file,
        new_record,
        read_record,
        restore_job,
        write_record,
    )
    from launcher.client.sessions.local.container.container_engine import silent_engines
    from launcher.client.sessions.local.container.container_image import image_of_framework
    from launcher.client.sessions.local.container.image_probe import (
        ImageContents,
        look_into_image,
    )
    from launcher.client.sessions.local.host.host_copy import copy_from_host
    from launcher.client.sessions.local.host.host_exec import WaitingRank
    from launcher.client.sessions.local.host.host_folder import HostFolder
    from launcher.client.sessions.local.host.host_logs import (
        bytes_before,
        log_streams,
        read_log,
        stream_bytes,
    )
    from launcher.client.sessions.local.host.host_python import HostPython, host_python
    from launcher.client.sessions.local.host.line_times import LineTimeRecorder, LineTimes
    from launcher.client.sessions.local.host.module_command import (
        module_command,
        module_environment,
    )
    from launcher.client.sessions.local.host.overlay import UNUSED_SECONDS, Overlay, remove_unused
    from launcher.client.sessions.local.host.process_tree import HOST_VARIABLE, processes_of_host
    from launcher.client.sessions.local.isolation import network_faults
    from launcher.client.sessions.local.isolation.isolation_choice import (
        choose_isolation,
        obstacles,
    )
    from launcher.client.sessions.local.isolation.namespaces import Namespace
    from launcher.client.sessions.local.isolation_level import Isolation
    from launcher.client.sessions.local.job.job_description import (
        JobState,
        RecordedMetric,
        StoredDescription,
        finished,
        job_arn,
        new_description,
        place_note,
    )
    from launcher.client.sessions.local.job.job_folder import JobFolder, Settings
    from launcher.client.sessions.local.job.job_hosts import LocalHost, divide_gpus
    from launcher.client.sessions.local.job.job_root import JobRoot
    from launcher.client.sessions.local.job.log_metrics import append_metrics, read_metrics
    from launcher.client.sessions.local.job.request_checks import check_request, ignored_field_notes
    from launcher.client.sessions.local.job.status_writer import StatusWriter
    from launcher.client.sessions.local.local_session import LOCAL_PLATFORM, LocalSession
    from launcher.client.sessions.local.storage.atomic_files import (
        read_json,
        write_atomically,
        write_json,
    )
    from launcher.client.sessions.local.storage.checkpoint_sync import CheckpointSync
    from launcher.client.sessions.local.storage.file_access import (
        discard_folder,
        nearest_existing,
        translate_write_errors,
        write_obstacle,
    )
    from launcher.client.sessions.local.storage.file_uris import uri_of
    from launcher.client.sessions.local.storage.input_channels import has_objects, objects
    from launcher.client.sessions.local.storage.object_store import FolderStore, S3Failed
    from launcher.client.sessions.local.storage.result_archives import Artifacts, pack_artifacts
    from launcher.client.sessions.local.storage.s3_client import S3Client
    from launcher.client.sessions.local.storage.s3_process import S3Process, TransferStopped
    from launcher.client.sessions.local.storage.source_archive import SourceArchive
    from launcher.client.sessions.local.storage.unkept_files import unkept_notes
    from launcher.client.sessions.memory_session import MEMORY, MemoryRun, MemorySession
    from launcher.client.sessions.metric_match import (
        MATCH_SECONDS,
        MetricMatcher,
        defines_wait,
        metric_patterns,
        metric_values,
    )
    from launcher.client.sessions.placed_job import (
        PlacedJob,
        place,
        place_completed,
        place_job,
        place_offline,
    )
    from launcher.client.sessions.registry import (
        aws_session,
        is_local_mode,
        local_session,
        open_session,
        own_session,
        session_names,
    )
    from launcher.client.sessions.remote_source import unpack_source, with_fetched_source
    from launcher.client.sessions.resolve import is_from_here, named_job, require_own, session_of
    from launcher.client.sessions.retry_policy import RetryPolicy, retry_call
    from launcher.client.sessions.s3_uris import bucket_and_key, is_s3

__getattr__ = open_door(__name__)
