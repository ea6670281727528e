"""What the SDK world and the job world agree on: places, names, the job document, event lines.

Standard library only: this package travels with every job and is imported on both sides.
"""

from __future__ import annotations

from launcher.contract.document import (
    PYTHON_WORDS,
    CommandPart,
    DataPart,
    JobDocument,
    Lifetime,
    Ready,
    Role,
)
from launcher.contract.events import (
    format_event,
    parse_event,
)
from launcher.contract.parallel import (
    COMPRESSIONS,
    PLACEMENTS,
    PRECISIONS,
    SCHEDULES,
    ParallelPart,
)
from launcher.contract.places import (
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
    MlPaths,
    Ports,
)
from launcher.contract.trainer import DEFAULT_HANG_TIMEOUT, Launch, TrainerPart
from launcher.contract.variables import (
    ADDRESSES_VARIABLE,
    CHECKPOINT_VARIABLE,
    CPUS_VARIABLE,
    FAILURE_REASON_LIMIT,
    HOMOGENEOUS_GROUP,
    HOST_ADDRESS_VARIABLE,
    HOST_FAILURE_VARIABLE,
    HOSTS_VARIABLE,
    PARALLEL_VARIABLE,
    PORT_BASE_VARIABLE,
    REDACTED,
    TASK_VARIABLE,
    TOKEN_VARIABLE,
    TOOLKIT_NAMES,
    TOOLKIT_PREFIX,
    HostFailure,
)

__all__ = [
    "DEFAULT_ML_ROOT",
    "ML_ROOT_VARIABLE",
    "MlPaths",
    "CODE_CHANNEL",
    "LAUNCH_SCRIPT",
    "BUNDLE_FILE",
    "DOCUMENT_FILE",
    "BUNDLE_CODE",
    "BUNDLE_LIBRARY",
    "JOB_WORLD",
    "CONTAINER_ENTRYPOINT",
    "Ports",
    "TOKEN_VARIABLE",
    "ADDRESSES_VARIABLE",
    "PORT_BASE_VARIABLE",
    "CPUS_VARIABLE",
    "CHECKPOINT_VARIABLE",
    "HOST_FAILURE_VARIABLE",
    "HOSTS_VARIABLE",
    "HOST_ADDRESS_VARIABLE",
    "PARALLEL_VARIABLE",
    "TASK_VARIABLE",
    "TOOLKIT_PREFIX",
    "TOOLKIT_NAMES",
    "REDACTED",
    "FAILURE_REASON_LIMIT",
    "HOMOGENEOUS_GROUP",
    "HostFailure",
    "Role",
    "Launch",
    "DEFAULT_HANG_TIMEOUT",
    "TrainerPart",
    "ParallelPart",
    "SCHEDULES",
    "PLACEMENTS",
    "PRECISIONS",
    "COMPRESSIONS",
    "DataPart",
    "Lifetime",
    "Ready",
    "PYTHON_WORDS",
    "CommandPart",
    "JobDocument",
    "format_event",
    "parse_event",
]
