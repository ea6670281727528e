"""The job document, launcher.json: the roles of the groups and what they run."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from launcher.contract.places import DOCUMENT_FILE
from launcher.contract.trainer import TrainerPart
from launcher.errors import ContractError


class Role(str, enum.Enum):
    """What a group's hosts do."""

    TRAIN = "train"
    DATA = "data"
    COMMAND = "command"


@dataclass(frozen=True, kw_only=True)
class DataPart:
    """What the data group serves; a dataset that is not listed here is never imported.

    workers_per_host: processes per data host, None for one per CPU.
    prefetch_bytes: bytes of finished batches a train host holds ahead of its ranks, at most.
    local_workers: processes on each train host that prepare batches too.
    checksums: whether batches carry checksums, which the receiving side verifies.
    metrics_port: where the leader serves the numbers of the data service, None for nowhere.
    """

    datasets: tuple[str, ...]
    workers_per_host: int | None = None
    prefetch_bytes: int = 256 * 1024 * 1024
    local_workers: int = 0
    checksums: bool = False
    metrics_port: int | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it says nothing that the first runtimes did not know."""
        return not (self.local_workers or self.checksums or self.metrics_port)

    def to_fields(self) -> dict[str, Any]:
        """As JSON holds it."""
        newer = {
            "local_workers": self.local_workers,
            "checksums": self.checksums,
            "metrics_port": self.metrics_port,
        }
        return {
            "datasets": list(self.datasets),
            "workers_per_host": self.workers_per_host,
            "prefetch_bytes": self.prefetch_bytes,
            **({} if self.is_plain else newer),
        }

    @classmethod
    def from_fields(cls, raw: Mapping[str, Any]) -> DataPart:
        return cls(
            datasets=tuple(raw["datasets"]),
            workers_per_host=raw["workers_per_host"],
            prefetch_bytes=raw["prefetch_bytes"],
            local_workers=raw.get("local_workers", 0),
            checksums=raw.get("checksums", False),
            metrics_port=raw.get("metrics_port"),
        )


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

    A document says the lowest version that has what it says: commands came with version 2, MPI
    with version 3, a data service's local workers, checksums and metrics with version 4, tasks and
    what the ranks share with version 5, cuts by measure with version 6.
    """

    VERSION = 6

    roles: Mapping[str, Role]
    trainer: TrainerPart
    data: DataPart | None = None
    #: What the hosts of each command group run, by the group's name.
    commands: Mapping[str, CommandPart] = field(default_factory=dict)
    hyperparameter_types: Mapping[str, str] = field(default_factory=dict)
    #: How long a host waits for the others before first contact, in seconds.
    start_timeout: float = 3600.0

    def to_json(self) -> str:
        commands = {group: part.to_fields() for group, part in self.commands.items()}
        return json.dumps(
            {
                "version": self._lowest_version(),
                **({"commands": commands} if commands else {}),
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
        of_data = 1 if self.data is None or self.data.is_plain else 4
        of_commands = 2 if self.commands else 1
        return max(of_data, of_commands, self.trainer.lowest_version)

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
        return cls(
            roles={group: Role(role) for group, role in raw["roles"].items()},
            trainer=TrainerPart.from_fields(raw["trainer"]),
            data=raw["data"] and DataPart.from_fields(raw["data"]),
            commands={
                group: CommandPart.from_fields(part)
                for group, part in raw.get("commands", {}).items()
            },
            hyperparameter_types=raw["hyperparameter_types"],
            start_timeout=raw["start_timeout"],
        )
