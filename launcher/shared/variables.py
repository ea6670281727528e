"""Names and limits: environment variables, secrets, the toolkit's hyperparameters, text lengths.

Secrets are environment variables whose values are in no request, file or log. A request names the
source of each in a variable of its own: LAUNCHER_SECRET_<NAME> is "env" (the environment of the
user who sends the job, which only jobs on that machine can have), or the ARN of a secret of AWS
Secrets Manager, which each host reads when it starts.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Mapping

#: The job's secret, created once per job and redacted in everything that is printed.
TOKEN_VARIABLE = "LAUNCHER_TOKEN"
#: The file to which the processes of a host append their events. Set by a platform that reads it
#: itself; elsewhere the host's first process writes the events to the log.
EVENTS_VARIABLE = "LAUNCHER_EVENTS"
#: JSON {"algo-1": "127.0.1.1", ...}: set by a platform whose host names do not resolve.
ADDRESSES_VARIABLE = "LAUNCHER_HOST_ADDRESSES"
#: First of the job's ports: set by a platform whose hosts share one network stack.
PORT_BASE_VARIABLE = "LAUNCHER_PORT_BASE"
#: CPUs that this host may use: set by a platform whose hosts share one machine.
CPUS_VARIABLE = "LAUNCHER_HOST_CPUS"
#: The folder that survives an interruption: set by the runtime for scripts, in jobs that have one.
CHECKPOINT_VARIABLE = "LAUNCHER_CHECKPOINT_DIR"
#: The effect of losing a host (HostFailure): set by a platform that does not fail the job for it.
HOST_FAILURE_VARIABLE = "LAUNCHER_HOST_FAILURE"
#: Set by a platform that has installed the packages of requirements.txt, or was told not to
#: ("installed", "not-installed"); hosts then leave that to it.
REQUIREMENTS_VARIABLE = "LAUNCHER_REQUIREMENTS"
#: Seconds that the installation of requirements.txt may take: set by the user.
INSTALL_TIMEOUT_VARIABLE = "LAUNCHER_INSTALL_TIMEOUT"
_DEFAULT_INSTALL_TIMEOUT = 1800.0

#: For every process of a job: JSON {"group": ["address", ...]}, the addresses to connect to.
#: LAUNCHER_HOSTS_<GROUP> has those of one group, separated by commas. The group's name is in
#: capitals, with "_" for all but letters and digits.
HOSTS_VARIABLE = "LAUNCHER_HOSTS"
#: For every process of a job: the address that a server on this host binds. It is the host's own
#: if hosts share one network stack, else 0.0.0.0.
HOST_ADDRESS_VARIABLE = "LAUNCHER_HOST_ADDRESS"

#: For each rank under torchrun: JSON of a ParallelPart, which defines how ranks share a model.
PARALLEL_VARIABLE = "LAUNCHER_PARALLEL"
#: For each rank of a job that has a task: "module:function", which makes the Task.
TASK_VARIABLE = "LAUNCHER_TASK"

#: The debugger of a job of one rank, which runs in the terminal of `launcher run --debug`: "pdb",
#: or "debugpy:PORT".
DEBUG_VARIABLE = "LAUNCHER_DEBUG"
#: The ranks that share a loader's stream, if they are more than run, as in such a job.
STREAM_WORLD_VARIABLE = "LAUNCHER_STREAM_WORLD"
#: The program (python -c) in whose place such a rank is started, with its arguments and its
#: environment: `launcher run --debug` finds it on the host by this text.
WAIT_FOR_TERMINAL = "import signal; signal.pause()  # for the terminal of launcher run --debug"

#: Hyperparameters that SageMaker's SDKs and its tuner add. They configure the training toolkit and
#: never reach a script. Source: SAGEMAKER_HYPERPARAMETERS in params.py of sagemaker-training 5.1.4.
TOOLKIT_PREFIX = "sagemaker_"
TOOLKIT_NAMES = frozenset({"default_user_module_name", "_tuning_objective_metric"})

#: Variables that a job sets on every host, as sagemaker-training does.
_OF_HOSTS = re.compile(
    r"""CURRENT_HOST | SAGEMAKER_(JOB_NAME|REGION) | MASTER_(ADDR|PORT)
    | SM_(CHANNEL|HP)_.* | SM_(CHANNELS|HPS|USER_ARGS|HOSTS|IS_HETERO|INSTANCE_GROUPS(_DICT)?)
    | SM_CURRENT_(HOST|INSTANCE_(TYPE|GROUP|GROUP_HOSTS)) | SM_DISTRIBUTION_INSTANCE_GROUPS
    | SM_(MODEL|MODULE|INPUT|INPUT_CONFIG|OUTPUT|OUTPUT_DATA|OUTPUT_INTERMEDIATE)_DIR
    | SM_(INPUT_DATA_CONFIG|NETWORK_INTERFACE_NAME|NUM_(CPUS|GPUS|NEURONS)|LOG_LEVEL|MODULE_NAME)
    | SM_(USER_ENTRY_POINT|FRAMEWORK_(MODULE|PARAMS)|RESOURCE_CONFIG|TRAINING_ENV)""",
    re.VERBOSE,
)
_OF_RANKS = re.compile("((LOCAL|GROUP|ROLE)_)?(RANK|WORLD_SIZE)")
_OF_LAUNCHER = frozenset(
    {
        EVENTS_VARIABLE,
        ADDRESSES_VARIABLE,
        PORT_BASE_VARIABLE,
        CPUS_VARIABLE,
        CHECKPOINT_VARIABLE,
        HOST_FAILURE_VARIABLE,
        REQUIREMENTS_VARIABLE,
        HOSTS_VARIABLE,
        HOST_ADDRESS_VARIABLE,
    }
)

REDACTED = "<redacted>"

#: FailureReason is truncated to this many characters (DescribeTrainingJob).
FAILURE_REASON_LIMIT = 1024

#: The group name that SageMaker gives to the hosts of a job without instance groups.
HOMOGENEOUS_GROUP = "homogeneousCluster"


class HostFailure(str, enum.Enum):
    """The effect on a job of a host whose first process failed or died.

    FAIL: the job has failed. TOLERATE: the others continue while its group has a host left.
    """

    FAIL = "fail"
    TOLERATE = "tolerate"


def is_of_toolkit(hyperparameter: str) -> bool:
    """Return whether SageMaker's toolkit keeps hyperparameters of this name for itself."""
    return hyperparameter.startswith(TOOLKIT_PREFIX) or hyperparameter in TOOLKIT_NAMES


def is_set_by_jobs(variable: str, *, has_ranks: bool) -> bool:
    """Return whether a job sets this variable for its programs, whatever value it had before.

    has_ranks: whether it starts the processes of a group as ranks.
    """
    if has_ranks and _OF_RANKS.fullmatch(variable):
        return True
    is_address = variable.startswith(f"{HOSTS_VARIABLE}_")
    return is_address or variable in _OF_LAUNCHER or _OF_HOSTS.fullmatch(variable) is not None


def install_timeout(variables: Mapping[str, str]) -> float:
    """Return the seconds that the installation of requirements.txt may take.

    Raises ValueError, with words, for a variable that holds no number of seconds.
    """
    text = variables.get(INSTALL_TIMEOUT_VARIABLE)
    if text is None:
        return _DEFAULT_INSTALL_TIMEOUT
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ValueError(f"{INSTALL_TIMEOUT_VARIABLE} is {text!r}, and must be a number of seconds")
    return seconds


SECRET_PREFIX = "LAUNCHER_SECRET_"
#: The source of a value that the user's environment has.
FROM_ENVIRONMENT = "env"
#: A shorter value cannot be told from other text, and so not be kept out of a log.
SHORTEST_SECRET = 4
#: Source: https://docs.aws.amazon.com/secretsmanager/latest/userguide/reference_iam-permissions.html
SECRET_ARN = re.compile(
    r"arn:(?P<partition>aws[a-z-]*):secretsmanager:(?P<region>[a-z0-9-]+):\d{12}:secret:[\w/+=.@-]+",
    re.ASCII,
)


def secret_variables_of(sources: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that name the source of each secret."""
    return {f"{SECRET_PREFIX}{name}": source for name, source in sources.items()}


def secret_sources(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the source of each secret of a request or a process, by the variable that gets it."""
    return {
        name.removeprefix(SECRET_PREFIX): source
        for name, source in environment.items()
        if name.startswith(SECRET_PREFIX)
    }
