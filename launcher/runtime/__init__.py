"""Runtime inside a host: read the job's files, run the host's role, end with a clear outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.runtime import handshake, jsonl_socket
    from launcher.runtime.end.coordination_server import VersionSkew, WaitNotice
    from launcher.runtime.end.failure_file import Failure
    from launcher.runtime.end.hang_diagnosis import ANSWER_TIMEOUT, HangDiagnosis, RankActivity
    from launcher.runtime.end.hang_watchdog import HangWatchdog
    from launcher.runtime.end.host_silence import (
        ENDED_AFTER,
        HEARTBEAT_INTERVAL,
        NAMED_AFTER,
        HostSilence,
        cause_of,
    )
    from launcher.runtime.end.job_coordination import JobCoordination
    from launcher.runtime.end.outcome_decider import SETTLE, JobOutcome, OutcomeDecider
    from launcher.runtime.end.peer_loss import is_peer_loss
    from launcher.runtime.end.services import CRASH_WINDOW, GAVE_UP, recent_crashes
    from launcher.runtime.end.wait_marks import wait_for_data, wait_for_first_contact
    from launcher.runtime.host import hyperparameters
    from launcher.runtime.host.cluster import Cluster, in_numeric_order
    from launcher.runtime.host.environment import (
        ENGINE_VARIABLE,
        RECEIVER_VARIABLE,
        TF_SERVICE_VARIABLE,
        Environment,
        paths_here,
    )
    from launcher.runtime.host.event_log import emit, emit_text, log_event
    from launcher.runtime.host.host_usage import GpuUsage, network_fields, open_nvml, traffic_in
    from launcher.runtime.host.job_host import JobHost
    from launcher.runtime.host.log_lines import LogLines
    from launcher.runtime.host.output import Output, drain_all, print_whole_lines
    from launcher.runtime.host.package_versions import find_versions
    from launcher.runtime.host.processes import (
        CLOSE_SIGNAL,
        describe_exit,
        handle_signals_here,
        use_batch_scheduling,
    )
    from launcher.runtime.host.report_files import REPORTS_VARIABLE
    from launcher.runtime.host.secret_reading import (
        RELATIVE_URI,
        AwsCredentials,
        container_credentials,
        read_secrets,
        signed_headers,
    )
    from launcher.runtime.host.sm_variables import (
        EFA_TYPES,
        RDMA_TYPES,
        address_variables,
        compatibility_variables,
        network_variables,
        toolkit_variables,
    )
    from launcher.runtime.host.stopped_processes import KILLED_AFTER, StoppedProcesses
    from launcher.runtime.jsonl_socket import from_json
    from launcher.runtime.launch import gloo_threads, rank
    from launcher.runtime.launch.data_role import CRASH_LIMIT, serve_until_end, supervise_workers
    from launcher.runtime.launch.engine_interface import DataServices
    from launcher.runtime.launch.gloo_threads import wait_for_gloo_threads
    from launcher.runtime.launch.rank import report_cause
    from launcher.runtime.launch.starters.base import Starter
    from launcher.runtime.launch.starters.registry import starter_for
    from launcher.runtime.main import run
    from launcher.runtime.mpi.mpirun_of_group import mpirun_command
    from launcher.runtime.tensorflow.tf_config import (
        SERVER_MODULE,
        chief_config,
        server_config,
        worker_config,
    )

__getattr__ = open_door(__name__)
