"""The job document, launcher.json: the roles of the groups and what they run."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from launcher.errors import ContractError
from launcher.shared.paths import DOCUMENT_FILE
from launcher.shared.trainer_part import TrainerPart


class Role(str, enum.Enum):
    """The role of a group's hosts: train, prepare data, run a command, or run the script."""

    TRAIN = "train"
    DATA = "data"
    COMMAND = "command"
    SCRIPT = "script"


#: The data engine of Launcher itself.
DEFAULT_ENGINE = "launcher"
#: tf.data's own service, started and supervised by Launcher.
TF_ENGINE = "tf"
#: Entry point group of other packages' data engines: `name = "module:Class"`.
ENGINE_ENTRY_POINTS = "launcher.data_engines"


@dataclass(frozen=True, kw_only=True)
class DataPart:
    """The data group's settings.

    datasets: those that may be imported; () for all that the job's own code defines.
    workers_per_host: processes per data host, None for one per CPU.
    prefetch_bytes: maximum bytes of finished batches that a train host holds ahead of its ranks.
    local_workers: processes on each train host that also prepare batches.
    checksums: if true, batches carry checksums that the receiver verifies.
    metrics_port: the port on which the leader serves the data service's metrics, None for none.
    engine: the data engine that prepares the batches, by its name in the registry.
    """

    datasets: tuple[str, ...]
    workers_per_host: int | None = None
    prefetch_bytes: int = 256 * 1024 * 1024
    local_workers: int = 0
    checksums: bool = False
    metrics_port: int | None = None
    engine: str = DEFAULT_ENGINE

    @property
    def is_plain(self) -> bool:
        """True if the first runtimes can read every setting that differs from its default."""
        return self.lowest_version == 1

    @property
    def lowest_version(self) -> int:
        """The lowest version of a document that supports these settings."""
        if self.engine != DEFAULT_ENGINE:
            return 7
        return 4 if self.local_workers or self.checksums or self.metrics_port else 1

    def to_fields(self) -> dict[str, Any]:
        """Return the fields as JSON holds them."""
        newer: dict[str, Any] = {
            "local_workers": self.local_workers,
            "checksums": self.checksums,
            "metrics_port": self.metrics_port,
        }
        if self.engine != DEFAULT_ENGINE:
            newer["engine"] = self.engine
        return {
            "datasets": list(self.datasets),
            "workers_per_host": self.workers_per_host,
            "prefetch_bytes": self.prefetch_bytes,
            **({} if self.is_plain else newer),
        }

    @classmethod
    def from_fields(cls, raw: Mapping[str, Any]) -> DataPart:
        """Read the fields of a job document."""
        return cls(
            datasets=tuple(raw["datasets"]),
            workers_per_host=raw["workers_per_host"],
            prefetch_bytes=raw["prefetch_bytes"],
            local_workers=raw.get("local_workers", 0),
            checksums=raw.get("checksums", False),
            metrics_port=raw.get("metrics_port"),
            engine=raw.get("engine", DEFAULT_ENGINE),
        )


class Lifetime(str, enum.Enum):
    """The lifetime of the program on a command or script group's hosts.

    TRAIN: until training has ended; it may exit with code 0 earlier, once it is ready.
    OWN: until it exits by itself with code 0; the job waits for that.
    """

    TRAIN = "train"
    OWN = "own"


@dataclass(frozen=True, kw_only=True)
class Ready:
    """The signal by which a program shows that it is ready; give one of port, file and seconds.

    port: the program listens on it.
    file: the program has written it; a relative path starts at the code folder.
    seconds: the program has run that long.
    timeout: seconds from the program's start until the job fails for lack of the signal.
    """

    port: int | None = None
    file: str | None = None
    seconds: int | None = None
    timeout: int = 600


#: First words of a command that mean the job's Python, wherever the image has it.
PYTHON_WORDS = ("python", "python3")


@dataclass(frozen=True, kw_only=True)
class CommandPart:
    """The program that each host of a command group runs.

    command: the program and its arguments; no shell is used.
    ready: None for a program that is ready as soon as it runs.
    pass_hyperparameters: if true, the hyperparameters follow as arguments, as for a script.
    """

    command: tuple[str, ...]
    ready: Ready | None = None
    lifetime: Lifetime = Lifetime.TRAIN
    pass_hyperparameters: bool = False

    def to_fields(self) -> dict[str, Any]:
        """Return the fields as JSON holds them."""
        return {
            "command": list(self.command),
            "ready": self.ready and asdict(self.ready),
            "lifetime": self.lifetime.value,
            **({"pass_hyperparameters": True} if self.pass_hyperparameters else {}),
        }

    @classmethod
    def from_fields(cls, raw: Mapping[str, Any]) -> CommandPart:
        """Read the fields of a job document."""
        return cls(
            command=tuple(raw["command"]),
            ready=raw["ready"] and Ready(**raw["ready"]),
            lifetime=Lifetime(raw["lifetime"]),
            pass_hyperparameters=raw.get("pass_hyperparameters", False),
        )


@dataclass(frozen=True, kw_only=True)
class ScriptPart:
    """The settings of a script group, whose hosts all run the entry point.

    ready: None for a script that is ready as soon as it runs.
    dollars_per_hour: the price of one host on demand; None if it is unknown.
    """

    ready: Ready | None = None
    lifetime: Lifetime = Lifetime.OWN
    dollars_per_hour: float | None = None

    def to_fields(self) -> dict[str, Any]:
        """Return the fields as JSON holds them."""
        return {
            "ready": self.ready and asdict(self.ready),
            "lifetime": self.lifetime.value,
            "dollars_per_hour": self.dollars_per_hour,
        }

    @classmethod
    def from_fields(cls, raw: Mapping[str, Any]) -> ScriptPart:
        """Read the fields of a job document."""
        return cls(
            ready=raw["ready"] and Ready(**raw["ready"]),
            lifetime=Lifetime(raw["lifetime"]),
            dollars_per_hour=raw["dollars_per_hour"],
        )


@dataclass(frozen=True, kw_only=True)
class JobDocument:
    """launcher.json: the roles of the groups and what they run.

    It carries the *types* of the hyperparameters (bool, int, float, str, json). Their values are
    read from hyperparameters.json alone, so editing the request is enough to change them.

    A document states the lowest version that supports its content. Version 2 added commands;
    version 3 MPI; version 4 a data service's local workers, checksums and metrics; version 5 tasks
    and parallel settings; version 6 cuts from measurements; version 7 starters of other packages
    with their settings, and data engines by name; version 8 requirements of a group's own, script
    groups, and commands that get the hyperparameters; version 9 stages that replicas share.
    """

    VERSION = 9

    roles: Mapping[str, Role]
    trainer: TrainerPart
    data: DataPart | None = None
    #: The program of each command group's hosts, by the group's name.
    commands: Mapping[str, CommandPart] = field(default_factory=dict)
    #: The settings of each script group, by its name.
    scripts: Mapping[str, ScriptPart] = field(default_factory=dict)
    hyperparameter_types: Mapping[str, str] = field(default_factory=dict)
    #: The file that a group has in place of requirements.txt, by the group's name.
    requirements: Mapping[str, str] = field(default_factory=dict)
    #: Seconds that a host waits for first contact with the others.
    start_timeout: float = 3600.0

    def to_json(self) -> str:
        """Return the document as JSON, with the lowest version that supports it."""
        commands = {group: part.to_fields() for group, part in self.commands.items()}
        scripts = {group: part.to_fields() for group, part in self.scripts.items()}
        return json.dumps(
            {
                "version": self._lowest_version(),
                **({"commands": commands} if commands else {}),
                **({"requirements": dict(self.requirements)} if self.requirements else {}),
                **({"scripts": scripts} if scripts else {}),
                "roles": {group: role.value for group, role in self.roles.items()},
                "trainer": self.trainer.to_fields(),
                "data": self.data and self.data.to_fields(),
                "hyperparameter_types": dict(self.hyperparameter_types),
                "start_timeout": self.start_timeout,
            },
            indent=2,
            sort_keys=True,
        )

    def _lowest_version(self) -> int:
        of_data = 1 if self.data is None else self.data.lowest_version
        of_commands = 2 if self.commands else 1
        of_requirements = 8 if self.requirements else 1
        passes = any(part.pass_hyperparameters for part in self.commands.values())
        of_scripts = 8 if passes or Role.SCRIPT in self.roles.values() else 1
        versions = (of_data, of_commands, of_requirements, of_scripts)
        return max(*versions, self.trainer.lowest_version)

    @classmethod
    def from_json(cls, text: str) -> JobDocument:
        """Read a document; raise ContractError when it is invalid or newer than this runtime."""
        try:
            raw = json.loads(text)
            version = int(raw["version"])
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise ContractError(f"{DOCUMENT_FILE} is not a job document: {error!r}") from error
        if version > cls.VERSION:
            raise ContractError(
                f"{DOCUMENT_FILE} has version {version}, and this runtime knows versions up to "
                f"{cls.VERSION}: submit the job with the Launcher that wrote the document"
            )
        try:
            return cls._from_fields(raw)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ContractError(f"{DOCUMENT_FILE} is damaged: {error!r}") from error

    @classmethod
    def _from_fields(cls, raw: Mapping[str, Any]) -> JobDocument:
        return cls(
            roles={group: Role(role) for group, role in raw["roles"].items()},
            trainer=TrainerPart.from_fields(raw["trainer"]),
            data=raw["data"] and DataPart.from_fields(raw["data"]),
            commands={
                group: CommandPart.from_fields(part)
                for group, part in raw.get("commands", {}).items()
            },
            scripts={
                group: ScriptPart.from_fields(part)
                for group, part in raw.get("scripts", {}).items()
            },
            hyperparameter_types=raw["hyperparameter_types"],
            requirements=raw.get("requirements", {}),
            start_timeout=raw["start_timeout"],
        )
