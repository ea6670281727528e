"""Definitions that the client and the job share: paths, names, the job document, event lines.

Standard library only: this package ships with every job and is imported on both sides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.shared.bounded_archives import extract_all, open_archive, space_problem
    from launcher.shared.causes.cause import (
        COMPUTING,
        FEW_LATE,
        FEWEST_STEPS,
        LATE,
        Cause,
        Confidence,
        Finding,
        StepLimit,
        WaitKind,
    )
    from launcher.shared.causes.cause_evidence import (
        DataWait,
        Doing,
        Evidence,
        GroupUse,
        HostUse,
        PassTimes,
        RankTimes,
        has_use,
        mean_of,
    )
    from launcher.shared.causes.data_wait import (
        LOCAL_WORKERS,
        explain_wait,
        judge_own_loading,
        judge_wait,
    )
    from launcher.shared.causes.end_cause import (
        EXIT_CODE,
        HOST_DIED,
        HOST_LOST,
        MACHINE_RESTARTED,
        NO_ANSWER,
        NOBODY_ANSWERS,
        NOT_JOINED,
        OUT_OF_CAPACITY,
        PLATFORM_DIED,
        RETRY_CAUSES,
        SILENT,
        SPOT,
        cause_text,
        end_cause,
    )
    from launcher.shared.causes.mends import data_hosts_idle, mends
    from launcher.shared.causes.observed_rates import ObservedRates, observe
    from launcher.shared.causes.phase_causes import loading_kind
    from launcher.shared.causes.step_causes import close_own_loading, judge
    from launcher.shared.complete_files import replacing, write_complete
    from launcher.shared.event_lines import (
        FIELD_ERRORS,
        TEXT_MARK,
        format_event,
        format_text,
        parse_event,
    )
    from launcher.shared.files_beside_code import kept_elsewhere, listed, new_files, size_text
    from launcher.shared.gpus import VISIBLE_GPUS_VARIABLE, gpu_models, visible_gpus
    from launcher.shared.job_document import (
        DEFAULT_ENGINE,
        ENGINE_ENTRY_POINTS,
        PYTHON_WORDS,
        TF_ENGINE,
        CommandPart,
        DataPart,
        JobDocument,
        Lifetime,
        Ready,
        Role,
        ScriptPart,
    )
    from launcher.shared.main_guard import has_main_guard
    from launcher.shared.mpi_options import split_mpi_options
    from launcher.shared.parallel_dims import ParallelDims, RankPlacement, parse_choice
    from launcher.shared.partitions.partition_file import (
        Fingerprint,
        PartitionChoice,
        PartitionFile,
        StagePrediction,
    )
    from launcher.shared.partitions.quantities import (
        bytes_text,
        parse_bandwidth,
        parse_bytes,
        parse_seconds,
        seconds_text,
    )
    from launcher.shared.partitions.schedule_orders import Action, ActionKind, Orders
    from launcher.shared.partitions.shard_costs import RankCosts, Sharing
    from launcher.shared.partitions.stage_costs import Joint, Link, ModuleCost, Tie
    from launcher.shared.partitions.stage_predictions import (
        MESSAGES,
        CostedModel,
        play,
        predict_stages,
        step_spread,
        tie_seconds,
    )
    from launcher.shared.partitions.timeline import (
        OPTIMIZER,
        Event,
        StageSeconds,
        Timeline,
        shares,
        simulate,
    )
    from launcher.shared.paths import (
        BUNDLE_CODE,
        BUNDLE_FILE,
        BUNDLE_LIBRARY,
        CODE_CHANNEL,
        CONTAINER_ENTRYPOINT,
        DEFAULT_ML_ROOT,
        DOCUMENT_FILE,
        JOB_WORLD,
        LAUNCH_SCRIPT,
        ML_ROOT_VARIABLE,
        PARTITION_FILE,
        REQUIREMENTS_FILE,
        MlPaths,
        Ports,
    )
    from launcher.shared.pauses import backoff
    from launcher.shared.prefetch_limits import (
        MAX_WINDOW,
        PREFETCH_SHARE,
        USUAL_WINDOW,
        WINDOW_PER_WORKER,
        slab_bytes,
        window_for,
    )
    from launcher.shared.process_table import (
        descendants,
        living_children,
        process_ids,
        read_process_file,
        signal_all,
        zombies_of,
    )
    from launcher.shared.python_project import (
        BUILD_FILE,
        SETUP_FILE,
        describes_package,
        project_arguments,
    )
    from launcher.shared.rank_memory import (
        Activations,
        Footprint,
        MemorySavings,
        Need,
        StageEnds,
        StageState,
        need,
        of_stage,
        under_way,
    )
    from launcher.shared.readable_files import open_readable
    from launcher.shared.secret_mask import MaskedStream, SecretMask, own_mask
    from launcher.shared.suggestions import choice_fix, did_you_mean, shown
    from launcher.shared.system_entropy import token_hex
    from launcher.shared.terminal_text import printable
    from launcher.shared.traceback_frames import DUMPED_FRAME, FRAME, in_source, is_marks, is_users
    from launcher.shared.trainer_part import (
        COMPRESSIONS,
        DEFAULT_HANG_TIMEOUT,
        OBJECTIVES,
        PLACEMENTS,
        PRECISIONS,
        SCHEDULES,
        Launch,
        Objective,
        ParallelPart,
        Schedule,
        TrainerPart,
    )
    from launcher.shared.training_job_types import (
        ChannelFields,
        CheckpointFields,
        GroupFields,
        LimitFields,
        ModelFields,
        PreferenceFields,
        ResourceFields,
        S3SourceFields,
        TrainingJobCreated,
        TrainingJobDescription,
        TrainingJobList,
        TrainingJobRequest,
        TrainingJobSummary,
    )
    from launcher.shared.users_modules import OTHER_NAME, PACKAGE, enter
    from launcher.shared.variables import (
        ADDRESSES_VARIABLE,
        CHECKPOINT_VARIABLE,
        CPUS_VARIABLE,
        DEBUG_VARIABLE,
        EVENTS_VARIABLE,
        FAILURE_REASON_LIMIT,
        FROM_ENVIRONMENT,
        HOMOGENEOUS_GROUP,
        HOST_ADDRESS_VARIABLE,
        HOST_FAILURE_VARIABLE,
        HOSTS_VARIABLE,
        INSTALL_TIMEOUT_VARIABLE,
        PARALLEL_VARIABLE,
        PORT_BASE_VARIABLE,
        REDACTED,
        REQUIREMENTS_VARIABLE,
        SECRET_ARN,
        SECRET_PREFIX,
        SHORTEST_SECRET,
        STREAM_WORLD_VARIABLE,
        TASK_VARIABLE,
        TOKEN_VARIABLE,
        TOOLKIT_NAMES,
        TOOLKIT_PREFIX,
        WAIT_FOR_TERMINAL,
        HostFailure,
        install_timeout,
        is_of_toolkit,
        is_set_by_jobs,
        secret_sources,
        secret_variables_of,
    )
    from launcher.shared.wait_metric import WAIT_METRIC, WAIT_PATTERN, is_wait_metric, wait_share

__getattr__ = open_door(__name__)
