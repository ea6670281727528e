"""What the SDK world and the job world agree on: paths, names, ports, job document, event lines.

Standard library only: this file travels with every job and is imported on both sides.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from launcher.errors import ContractError

# Paths under the ML root -----------------------------------------------------------------------

DEFAULT_ML_ROOT = Path("/opt/ml")
#: Where the ML root is, when it is not /opt/ml (the training toolkit's own variable).
ML_ROOT_VARIABLE = "SAGEMAKER_BASE_DIR"


@dataclass(frozen=True)
class MlPaths:
    """The folders SageMaker documents for a training container, below one root."""

    root: Path = DEFAULT_ML_ROOT

    @property
    def code(self) -> Path:
        """The user's code, unpacked from the bundle."""
        return self.root / "code"

    @property
    def library(self) -> Path:
        """The job world of Launcher, unpacked from the bundle; goes on PYTHONPATH."""
        return self.root / "lib"

    @property
    def input(self) -> Path:
        return self.root / "input"

    @property
    def config(self) -> Path:
        return self.root / "input" / "config"

    @property
    def channels(self) -> Path:
        """The folder that has one folder per channel."""
        return self.root / "input" / "data"

    @property
    def model(self) -> Path:
        return self.root / "model"

    @property
    def output(self) -> Path:
        return self.root / "output"

    @property
    def output_data(self) -> Path:
        return self.root / "output" / "data"

    @property
    def output_intermediate(self) -> Path:
        return self.root / "output" / "intermediate"

    @property
    def failure(self) -> Path:
        """The file whose first 1,024 characters become the job's FailureReason."""
        return self.root / "output" / "failure"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"


# The code channel ------------------------------------------------------------------------------

CODE_CHANNEL = "code"
LAUNCH_SCRIPT = "launch.py"
BUNDLE_FILE = "bundle.tar.gz"
DOCUMENT_FILE = "launcher.json"
#: The two top folders of the bundle, unpacked into the ML root: the user's code and our job world.
BUNDLE_CODE = "code"
BUNDLE_LIBRARY = "lib"
#: What of the package travels with a job (paths below launcher/).
JOB_WORLD = ("__init__.py", "errors.py", "contract.py", "runtime", "data", "parallel", "trainers")

#: Start of the container: no shell, no toolkit, and SIGTERM reaches us.
CONTAINER_ENTRYPOINT = ("python3", f"/opt/ml/input/data/{CODE_CHANNEL}/{LAUNCH_SCRIPT}")

# Environment variables -------------------------------------------------------------------------

#: The job's secret, made once per job; redacted in everything that is printed.
TOKEN_VARIABLE = "LAUNCHER_TOKEN"
#: JSON {"algo-1": "127.0.1.1", ...}: set by a platform where host names do not resolve.
ADDRESSES_VARIABLE = "LAUNCHER_HOST_ADDRESSES"
#: First of the job's ports: set by a platform whose hosts share one network stack.
PORT_BASE_VARIABLE = "LAUNCHER_PORT_BASE"
#: CPUs that this host may use: set by a platform whose hosts share one machine.
CPUS_VARIABLE = "LAUNCHER_HOST_CPUS"

#: For every process of a job: JSON {"group": ["address", ...]}, what to connect to. The same of one
#: group, with commas: LAUNCHER_HOSTS_<GROUP>, in capitals, "_" for all but letters and digits.
HOSTS_VARIABLE = "LAUNCHER_HOSTS"
#: For every process of a job: what a server on this host binds. Its own address where hosts share
#: one network stack, else all of the host's (0.0.0.0).
HOST_ADDRESS_VARIABLE = "LAUNCHER_HOST_ADDRESS"

REDACTED = "<redacted>"

#: FailureReason is cut at this many characters (DescribeTrainingJob).
FAILURE_REASON_LIMIT = 1024

#: The group name that SageMaker gives to the hosts of a job without instance groups.
HOMOGENEOUS_GROUP = "homogeneousCluster"


@dataclass(frozen=True)
class Ports:
    """The TCP ports of a job; one host listens on each at most once."""

    base: int = 7770

    @property
    def dispatcher(self) -> int:
        """Control of the data service, on the leader."""
        return self.base

    @property
    def receiver(self) -> int:
        """Bulk data, on every train host."""
        return self.base + 1

    @property
    def board(self) -> int:
        """The failure board, on the leader."""
        return self.base + 2

    @property
    def rendezvous(self) -> int:
        """torchrun's store, on the leader (7777 is what SageMaker's own images use)."""
        return self.base + 7


# The job document ------------------------------------------------------------------------------


class Role(str, enum.Enum):
    """What a group's hosts do."""

    TRAIN = "train"
    DATA = "data"
    COMMAND = "command"


class Launch(str, enum.Enum):
    """How a train host starts the user's script."""

    PYTHON = "python"
    TORCHRUN = "torchrun"


@dataclass(frozen=True, kw_only=True)
class TrainerPart:
    """What the train group runs: a script below the code folder, and how."""

    entry_point: str
    launch: Launch = Launch.PYTHON
    processes_per_host: int = 1


@dataclass(frozen=True, kw_only=True)
class DataPart:
    """What the data group serves; a dataset that is not listed here is never imported.

    workers_per_host: processes per data host, None for one per CPU.
    prefetch_bytes: bytes of finished batches a train host holds ahead of its ranks, at most.
    """

    datasets: tuple[str, ...]
    workers_per_host: int | None = None
    prefetch_bytes: int = 256 * 1024 * 1024


class Lifetime(str, enum.Enum):
    """How long the program of a command group lives.

    TRAIN: until training has ended; leaving before that is a failure, whatever the exit code.
    OWN: until it leaves by itself with exit code 0; the job waits for that.
    """

    TRAIN = "train"
    OWN = "own"


@dataclass(frozen=True, kw_only=True)
class Ready:
    """The sign by which a program shows that it is ready; give one of port, file and seconds.

    port: the program listens on it. file: the program has written it; a relative path counts from
    the code folder. seconds: it has run so long. timeout: seconds from its start within which the
    sign must come, or the job fails.
    """

    port: int | None = None
    file: str | None = None
    seconds: int | None = None
    timeout: int = 600


#: First words of a command that mean the Python of the job, wherever the image keeps it.
PYTHON_WORDS = ("python", "python3")


@dataclass(frozen=True, kw_only=True)
class CommandPart:
    """The program that each host of a command group runs.

    command: its words, without a shell.
    ready: None for a program that is ready as soon as it runs.
    """

    command: tuple[str, ...]
    ready: Ready | None = None
    lifetime: Lifetime = Lifetime.TRAIN

    def to_fields(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "command": list(self.command),
            "ready": self.ready and asdict(self.ready),
            "lifetime": self.lifetime.value,
        }

    @classmethod
    def from_fields(cls, raw: Mapping[str, Any]) -> CommandPart:
        return cls(
            command=tuple(raw["command"]),
            ready=raw["ready"] and Ready(**raw["ready"]),
            lifetime=Lifetime(raw["lifetime"]),
        )


@dataclass(frozen=True, kw_only=True)
class JobDocument:
    """launcher.json: the roles of the groups and what they run.

    It carries the *types* of the hyperparameters (bool, int, float, str, json); their values are
    read from hyperparameters.json alone, so whoever edits the request is obeyed.

    A document says the lowest version that has what it says: commands came with version 2.
    """

    VERSION = 2

    roles: Mapping[str, Role]
    trainer: TrainerPart
    data: DataPart | None = None
    #: What the hosts of each command group run, by the group's name.
    commands: Mapping[str, CommandPart] = field(default_factory=dict)
    hyperparameter_types: Mapping[str, str] = field(default_factory=dict)
    #: How long a host waits for the others before first contact, in seconds.
    start_timeout: float = 3600.0

    def to_json(self) -> str:
        data = self.data
        commands = {group: part.to_fields() for group, part in self.commands.items()}
        return json.dumps(
            {
                "version": 2 if commands else 1,
                **({"commands": commands} if commands else {}),
                "roles": {group: role.value for group, role in self.roles.items()},
                "trainer": {
                    "entry_point": self.trainer.entry_point,
                    "launch": self.trainer.launch.value,
                    "processes_per_host": self.trainer.processes_per_host,
                },
                "data": data
                and {
                    "datasets": list(data.datasets),
                    "workers_per_host": data.workers_per_host,
                    "prefetch_bytes": data.prefetch_bytes,
                },
                "hyperparameter_types": dict(self.hyperparameter_types),
                "start_timeout": self.start_timeout,
            },
            indent=2,
            sort_keys=True,
        )

    @classmethod
    def from_json(cls, text: str) -> JobDocument:
        """Read a document; raise ContractError when it is newer than this runtime, or not one."""
        try:
            raw = json.loads(text)
            version = raw["version"]
        except (ValueError, TypeError, KeyError) as error:
            raise ContractError(f"{DOCUMENT_FILE} is not a job document: {error!r}") from error
        if version > cls.VERSION:
            raise ContractError(
                f"{DOCUMENT_FILE} has version {version}, and this runtime knows versions up to "
                f"{cls.VERSION}: submit the job with the Launcher that wrote the document"
            )
        try:
            return cls._from_fields(raw)
        except (KeyError, TypeError, ValueError) as error:
            raise ContractError(f"{DOCUMENT_FILE} is damaged: {error!r}") from error

    @classmethod
    def _from_fields(cls, raw: Mapping[str, Any]) -> JobDocument:
        trainer, data = raw["trainer"], raw["data"]
        return cls(
            roles={group: Role(role) for group, role in raw["roles"].items()},
            trainer=TrainerPart(
                entry_point=trainer["entry_point"],
                launch=Launch(trainer["launch"]),
                processes_per_host=trainer["processes_per_host"],
            ),
            data=data
            and DataPart(
                datasets=tuple(data["datasets"]),
                workers_per_host=data["workers_per_host"],
                prefetch_bytes=data["prefetch_bytes"],
            ),
            commands={
                group: CommandPart.from_fields(part)
                for group, part in raw.get("commands", {}).items()
            },
            hyperparameter_types=raw["hyperparameter_types"],
            start_timeout=raw["start_timeout"],
        )


# Event lines -----------------------------------------------------------------------------------

_FIELD = r'[a-z_]+=(?:"(?:[^"\\]|\\.)*"|[^\s"]\S*)'
_EVENT = re.compile(rf"^launcher: (?P<name>[a-z_]+)(?P<fields>(?: {_FIELD})*)\s*$")
_BARE = re.compile(r"[A-Za-z_][\w.:/+-]*")
_JSON_WORDS = frozenset({"true", "false", "null", "NaN", "Infinity"})


def format_event(name: str, **fields: object) -> str:
    """One line of the log that people and programs can read.

    >>> format_event("worker_ready", host="algo-1", worker=0, seconds=0.25)
    'launcher: worker_ready host=algo-1 worker=0 seconds=0.25'
    """
    return " ".join(
        ["launcher:", name] + [f"{key}={_field(value)}" for key, value in fields.items()]
    )


def parse_event(line: str) -> tuple[str, dict[str, Any]] | None:
    """The name and fields of an event line, or None when the line is not one."""
    match = _EVENT.match(line)
    if match is None:
        return None
    pairs = (pair.split("=", 1) for pair in re.findall(_FIELD, match["fields"]))
    return match["name"], {key: _value(text) for key, text in pairs}


def _field(value: object) -> str:
    if isinstance(value, str) and _BARE.fullmatch(value) and value not in _JSON_WORDS:
        return value
    text = json.dumps(value, separators=(",", ":"))
    # Blanks stand in quoted strings only, which is what a reader can still take apart.
    return text if isinstance(value, str) else text.replace(" ", "\\u0020")


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
