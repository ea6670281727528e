"""The parts of a job that its author writes: groups, channels, data service, metrics, trackers."""

from __future__ import annotations

import dataclasses
import enum
import itertools
import numbers
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launcher.errors import Problem, SpecError
from launcher.shared import (
    DEFAULT_ENGINE,
    RETRY_CAUSES,
    Lifetime,
    Ready,
    Role,
    choice_fix,
    did_you_mean,
)


def names(given: Any) -> tuple[str, ...]:
    """Return the names in order; an instance group is replaced by its name, and None has none.

    >>> names("data_group")
    ('data_group',)
    """
    if given is None:
        return ()
    if isinstance(given, str) or getattr(given, "instance_group_name", None) is not None:
        given = (given,)
    return tuple(getattr(item, "instance_group_name", item) for item in given)


def plain(value: object) -> Any:
    """Return the value as JSON would read it back, so that round trips change nothing."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(item) for item in value]
    return native_number(value)


def native_number(value: Any) -> Any:
    """Convert a number of another library, as numpy's, to an int or a float.

    A float of fewer bits becomes the number that it is printed as: a float32 of 0.1 is 0.1.
    """
    if hasattr(value, "__index__") and not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:  # an array, or a tensor of a float
            return value
    if isinstance(value, numbers.Real) and not isinstance(value, bool | numbers.Rational):
        return float(value) if isinstance(value, float) else float(str(value))
    return value


#: Instance types that mean this machine.
LOCAL_TYPES = ("local", "local_gpu")


@dataclass(frozen=True)
class InstanceGroup:
    """A named group of `instance_count` instances of one type, as in the SageMaker SDK.

    role: the role of the hosts, also accepted as text ("data"); None lets `infer_roles` decide.
    command: argument list of a program that every host of the group runs, without a shell; the
        group's role is then `command`. "python" is the job's Python; paths are relative to the
        code folder.
    ready: when the program counts as started, which the trainer waits for; None means at once. A
        mapping such as {"port": 50051} is accepted too.
    lifetime: "train": the program is stopped when training ends; "own": it exits by itself, and
        the job waits for it. None means "train" for a command, and "own" for a group that runs the
        script.
    alternatives: instance types to try, in this order, when AWS has no capacity for the first.
    requirements: the file in source_dir with the packages of these hosts, in place of
        requirements.txt.
    pass_hyperparameters: whether the command gets the hyperparameters as arguments, as a script.
    """

    instance_group_name: str
    instance_type: str
    instance_count: int = 1
    role: Role | None = None
    command: Sequence[str] = ()
    ready: Ready | None = None
    lifetime: Lifetime | None = None
    alternatives: Sequence[str] = ()
    requirements: str | None = None
    pass_hyperparameters: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "role", self._choice(Role, self.role))
        object.__setattr__(self, "lifetime", self._choice(Lifetime, self.lifetime))
        object.__setattr__(self, "alternatives", names(self.alternatives))
        if isinstance(self.command, list):
            object.__setattr__(self, "command", tuple(self.command))
        if isinstance(self.ready, Mapping):
            object.__setattr__(self, "ready", self._read_ready(self.ready))

    def _repr_html_(self) -> str:
        from launcher.client.spec.group_html import groups_html  # only notebooks need it

        return groups_html([self])

    def _choice(self, declared: type[enum.Enum], value: object) -> Any:
        """Convert text to an enum member; leave other values for the rules to check."""
        if not isinstance(value, str) or isinstance(value, declared):
            return value
        known = [member.value for member in declared]
        if value in known:
            return declared(value)
        noun = declared.__name__.lower()
        near = did_you_mean(value, known)
        raise self._error(
            noun,
            f'"{value}" is not a {noun}',
            f'write "{near}"' if near else f"write one of {', '.join(known)}",
        )

    def _read_ready(self, fields: Mapping[str, Any]) -> Ready:
        known = [field.name for field in dataclasses.fields(Ready)]
        if unknown := [name for name in fields if name not in known]:
            what = f'"{unknown[0]}" is not a sign of readiness'
            raise self._error("ready", what, choice_fix(unknown[0], known))
        return Ready(**fields)

    def _error(self, field: str, what: str, fix: str) -> SpecError:
        where = f"{field} of group {self.instance_group_name}"
        return SpecError([Problem(what=what, where=where, fix=fix)])

    @property
    def is_local(self) -> bool:
        """True if the group's hosts run on this machine."""
        return self.instance_type in LOCAL_TYPES


@dataclass(frozen=True, kw_only=True)
class Retry:
    """The policy by which a job is restarted from its last checkpoint, as a job of its own.

    attempts: in total; each tries every group's type and its alternatives.
    on: the causes: `host_lost`, `out_of_capacity`, `spot`, and `{exit: [CODE, ...]}` of the script.
    backoff: seconds before the second attempt, twice as many before each further one, but at most
        an hour.
    """

    attempts: int = 3
    on: Sequence[str | Mapping[str, Sequence[int]]] = RETRY_CAUSES
    backoff: int = 60

    def __post_init__(self) -> None:
        given = (self.on,) if isinstance(self.on, str | Mapping) else self.on
        object.__setattr__(self, "on", tuple(plain(list(given))))

    @property
    def exit_codes(self) -> tuple[int, ...]:
        """The exit codes of the script after which it is restarted."""
        codes = (each["exit"] for each in self.on if isinstance(each, Mapping))
        return tuple(itertools.chain.from_iterable(codes))

    def covers(self, cause: str | int | None) -> bool:
        """Return whether a job that ended by a cause is restarted; a number is an exit code."""
        return cause in self.on or cause in self.exit_codes

    def pause(self, attempt: int) -> int:
        """Return the seconds before an attempt; 2 is the second one."""
        return min(self.backoff << min(attempt - 2, 12), 3600)


@dataclass(frozen=True)
class MetricDefinition:
    """A metric `name`, read from the log as the first group of `regex`.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_MetricDefinition.html
    """

    name: str
    regex: str


@dataclass(frozen=True)
class ShuffleConfig:
    """The seed with which SageMaker shuffles a channel's objects, as SDK v2 writes it."""

    seed: int


@dataclass(frozen=True)
class TrainingInput:
    """One S3 or local channel, with the arguments of the SageMaker SDK's TrainingInput.

    s3_data: "s3://bucket/prefix", or "file:///folder" for a job on this machine.
    distribution: FullyReplicated (every host gets all) or ShardedByS3Key (one host per object).
    instance_groups: the groups that get the channel, or their names; empty means every group.
    input_mode: File, FastFile or Pipe; None means the job's input mode.
    shuffle_config: the seed with which SageMaker shuffles the channel's objects, or a ShuffleConfig
        of this package or of `sagemaker`; kept as the seed.
    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_Channel.html
    """

    s3_data: str
    distribution: str = "FullyReplicated"
    compression: str | None = None
    content_type: str | None = None
    record_wrapping: str | None = None
    s3_data_type: str = "S3Prefix"
    instance_groups: Sequence[str] = ()
    input_mode: str | None = None
    attribute_names: Sequence[str] = ()
    target_attribute_name: str | None = None
    shuffle_config: int | ShuffleConfig | None = None

    def __post_init__(self) -> None:
        for name in ("distribution", "s3_data_type"):
            if getattr(self, name) is None:  # SDK v2's for the default
                object.__setattr__(self, name, getattr(type(self), name))
        seed = getattr(self.shuffle_config, "seed", self.shuffle_config)
        object.__setattr__(self, "shuffle_config", seed)
        object.__setattr__(self, "instance_groups", names(self.instance_groups))
        object.__setattr__(self, "attribute_names", names(self.attribute_names))


@dataclass(frozen=True)
class FileSystemInput:
    """One channel from a file system in the job's VPC, with the SageMaker SDK's arguments.

    file_system_type: EFS or FSxLustre.
    directory_path: absolute; for FSxLustre it includes the mount name.
    file_system_access_mode: ro or rw.

    The channel cannot be routed to groups: all hosts mount it.
    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_FileSystemDataSource.html
    """

    file_system_id: str
    file_system_type: str
    directory_path: str
    file_system_access_mode: str = "ro"
    content_type: str | None = None


@dataclass(frozen=True, kw_only=True)
class DataService:
    """The datasets that the data group's hosts serve to the training script, and their settings.

    datasets: "module:function" for each dataset, and data hosts import nothing else; by default
        they serve what the script asks for, from the code that is sent with the job.
    workers_per_host: worker processes per data host; None means one per CPU.
    prefetch_bytes: maximum bytes of finished batches that a train host buffers for its ranks.
    start_timeout: seconds that hosts wait for each other at the start of the job (groups start
        minutes apart, and download their channels first). After that, the job fails.
    local_workers: worker processes on each train host, on CPUs that the script leaves idle.
    checksums: whether batches carry checksums, which the train hosts verify.
    metrics_port: port of the Prometheus endpoint on the first train host; None disables it.
    engine: what prepares the batches: Launcher's own service; "tf", tf.data's service, which
        `launcher.data.tf.distribute` reads; or the data engine of a package that the job's hosts
        have, by its name in the entry point group "launcher.data_engines".
    """

    datasets: Sequence[str] = ()
    workers_per_host: int | None = None
    prefetch_bytes: int = 256 * 1024 * 1024
    start_timeout: int = 60 * 60
    local_workers: int = 0
    checksums: bool = False
    metrics_port: int | None = None
    engine: str = DEFAULT_ENGINE

    def __post_init__(self) -> None:
        object.__setattr__(self, "datasets", names(self.datasets))


@dataclass(frozen=True, kw_only=True)
class Tracking:
    """Places for a job's metrics; whoever follows it on the machine that sent it writes there.

    tensorboard: A folder for TensorBoard's event files; each host of each job has its own in it.
    mlflow: MLflow's tracking URI, such as http://localhost:5000 or sqlite:///mlflow.db; or a
        folder.
    mlflow_experiment: The experiment of the runs, "launcher" by default.
    callback: "module:function" or "file.py:function": called with the job's name and each value, a
        MetricRecord.
    """

    tensorboard: str | None = None
    mlflow: str | None = None
    mlflow_experiment: str | None = None
    callback: str | None = None

    def anchored(self, absolute: Callable[[str], str]) -> Tracking:
        """Return a copy whose paths are absolute. absolute: makes one so."""
        folder, mlflow, callback = self.tensorboard, self.mlflow, self.callback
        return dataclasses.replace(
            self,
            tensorboard=absolute(folder) if folder else folder,
            mlflow=absolute(mlflow) if mlflow and is_folder(mlflow) else mlflow,
            callback=absolute(callback) if callback and ".py:" in callback else callback,
        )


def is_folder(uri: str) -> bool:
    """Return whether a tracking URI of MLflow is the path of a folder."""
    return ":" not in uri and uri != "databricks"
