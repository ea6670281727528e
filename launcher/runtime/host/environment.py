"""Everything a host knows about its job, read once from the platform's files."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from launcher.errors import ContractError
from launcher.runtime.host import hyperparameters
from launcher.runtime.host.cluster import Cluster, Group
from launcher.shared import (
    ADDRESSES_VARIABLE,
    CODE_CHANNEL,
    CPUS_VARIABLE,
    DEFAULT_ML_ROOT,
    DOCUMENT_FILE,
    HOST_FAILURE_VARIABLE,
    ML_ROOT_VARIABLE,
    PORT_BASE_VARIABLE,
    TOKEN_VARIABLE,
    CommandPart,
    HostFailure,
    JobDocument,
    Launch,
    Lifetime,
    MlPaths,
    Ports,
    Role,
    ScriptPart,
)

#: The abstract Unix socket on which a train host's receiver serves its ranks and local workers.
RECEIVER_VARIABLE = "LAUNCHER_RECEIVER"
#: The data engine whose services run on this train host, for its ranks.
ENGINE_VARIABLE = "LAUNCHER_DATA_ENGINE"
#: host:port of tf.data's dispatcher, for the ranks of a job with the engine "tf".
TF_SERVICE_VARIABLE = "LAUNCHER_TF_DATA_SERVICE"


@dataclass(frozen=True, kw_only=True)
class Environment:
    """One host's view of its job; only this class reads `os.environ` and the files."""

    paths: MlPaths
    document: JobDocument
    cluster: Cluster
    ports: Ports
    job_name: str
    region: str
    token: str
    cpus: int
    shares_machine: bool
    resource_config: Mapping[str, Any]
    raw_hyperparameters: Mapping[str, str]
    input_data_config: Mapping[str, Mapping[str, str]]
    host_failure: HostFailure
    checkpoint_folder: Path | None

    @classmethod
    def read(
        cls,
        paths: MlPaths,
        environ: Mapping[str, str] = os.environ,
        document: JobDocument | None = None,
    ) -> Environment:
        """Read /opt/ml/input/config, with SM_* variables as fallback, and the job document.

        document: for a job that brought none.

        Raises ContractError when the resource configuration or the document is missing or damaged.
        """
        document = document or JobDocument.from_json(
            _text(paths.channels / CODE_CHANNEL / DOCUMENT_FILE)
        )
        resource_config = _config(
            paths.config / "resourceconfig.json", environ, "SM_RESOURCE_CONFIG"
        )
        if not resource_config:
            raise ContractError(
                f"{paths.config / 'resourceconfig.json'} does not exist and SM_RESOURCE_CONFIG is "
                "not set: this is not the inside of a training job"
            )
        return cls(
            paths=paths,
            document=document,
            cluster=Cluster.from_resource_config(
                resource_config,
                document.roles,
                json.loads(environ.get(ADDRESSES_VARIABLE, "{}")),
                document.trainer.group,
            ),
            ports=Ports(int(environ[PORT_BASE_VARIABLE]))
            if PORT_BASE_VARIABLE in environ
            else Ports(),
            job_name=environ.get("TRAINING_JOB_NAME", ""),
            region=environ.get("AWS_REGION", ""),
            token=environ.get(TOKEN_VARIABLE, ""),
            cpus=int(environ.get(CPUS_VARIABLE, 0)) or len(os.sched_getaffinity(0)),
            shares_machine=CPUS_VARIABLE in environ,
            resource_config=resource_config,
            raw_hyperparameters=_config(
                paths.config / "hyperparameters.json", environ, "SM_RAW_HYPERPARAMETERS"
            ),
            input_data_config=_config(
                paths.config / "inputdataconfig.json", environ, "SM_INPUT_DATA_CONFIG"
            ),
            checkpoint_folder=_checkpoint_folder(paths),
            host_failure=HostFailure(environ.get(HOST_FAILURE_VARIABLE, HostFailure.FAIL)),
        )

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """The typed values meant for the user's script."""
        values = hyperparameters.decode(
            self.raw_hyperparameters, self.document.hyperparameter_types
        )
        return hyperparameters.for_script(values)

    @property
    def command(self) -> CommandPart | None:
        """The program of this host, or None if its group has none."""
        return self.document.commands.get(self.cluster.group.name)

    @property
    def script(self) -> ScriptPart:
        """The settings of this host's script group."""
        return self.document.scripts.get(self.cluster.group.name, ScriptPart())

    @property
    def starts_ranks(self) -> bool:
        """True if the starter runs on this host, so that its processes are ranks."""
        cluster = self.cluster
        has_distribution = self.document.trainer.launch != Launch.PYTHON
        return cluster.is_in_train_group and (cluster.group.role is Role.TRAIN or has_distribution)

    @property
    def distribution_group(self) -> Group | None:
        """The group of the distribution, or None for a job of script groups without one."""
        leading = self.cluster.train_group
        has_none = leading.role is Role.SCRIPT and self.document.trainer.launch == Launch.PYTHON
        return None if has_none else leading

    @property
    def master(self) -> str:
        """The toolkit's master_hostname: the distribution group's first host, else the job's."""
        group = self.distribution_group
        return group.hosts[0] if group else self.cluster.hosts[0]

    @property
    def parameter_servers(self) -> tuple[str, ...]:
        """The hosts of the distribution's server group; none if it has no such group."""
        trainer = self.document.trainer
        named = trainer.settings.get("server_group")
        if trainer.launch != Launch.PARAMETER_SERVER:
            return ()
        return next((group.hosts for group in self.cluster.groups if group.name == named), ())

    @property
    def is_parameter_server(self) -> bool:
        """True if this host is of the distribution's server group."""
        return self.cluster.host in self.parameter_servers

    @property
    def prerequisite_hosts(self) -> frozenset[str]:
        """The hosts whose program must be ready before the train group starts."""
        train = self.cluster.train_group.name
        signalling = {name for name, part in self.document.scripts.items() if part.ready}
        return frozenset(
            host
            for group in self.cluster.groups
            if group.role is Role.COMMAND or group.name in signalling - {train}
            for host in group.hosts
        )

    @property
    def awaited_hosts(self) -> frozenset[str]:
        """The hosts that must be done before the job can end well."""
        document = self.document
        lifetimes = {group: part.lifetime for group, part in document.commands.items()} | {
            group: part.lifetime for group, part in document.scripts.items()
        }
        own = {group for group, lifetime in lifetimes.items() if lifetime is Lifetime.OWN}
        own -= {self.cluster.train_group.name}  # of it, the hosts with ranks
        awaited = (g.hosts for g in self.cluster.groups if g.name in own)
        return frozenset({*self._rank_hosts, *itertools.chain(*awaited)})

    @property
    def _rank_hosts(self) -> tuple[str, ...]:
        """The hosts that run the program of the train group: the chief alone has workers."""
        cluster = self.cluster
        has_chief = self.document.trainer.launch == Launch.PARAMETER_SERVER
        return (cluster.leader,) if has_chief else cluster.train_group.hosts

    @property
    def has_data_service(self) -> bool:
        """True if there are workers: then the loader streams and never falls back."""
        return bool(self.cluster.data_hosts) or self.local_workers > 0

    @property
    def local_workers(self) -> int:
        """The number of workers on each train host."""
        return self.document.data.local_workers if self.document.data else 0


def paths_here() -> MlPaths:
    """Return the job's paths below the ML root that the environment names."""
    return MlPaths(Path(os.environ.get(ML_ROOT_VARIABLE, DEFAULT_ML_ROOT)))


def _checkpoint_folder(paths: MlPaths) -> Path | None:
    """Return the folder that the platform syncs to CheckpointConfig's S3Uri, or None."""
    configured = read_config(paths.config / "checkpointconfig.json").get("LocalPath")
    if configured is None:
        return None
    folder = PurePosixPath(configured)
    is_inside = folder.is_relative_to(DEFAULT_ML_ROOT)
    return paths.root / folder.relative_to(DEFAULT_ML_ROOT) if is_inside else Path(folder)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise ContractError(f"cannot read {path}: {error.strerror}") from error


def read_config(path: Path) -> dict[str, Any]:
    """Read one of the platform's files; {} if it does not exist. Raises ContractError."""
    return _config(path, {}, "")


def _config(path: Path, environ: Mapping[str, str], variable: str) -> dict[str, Any]:
    text = path.read_text() if path.exists() else environ.get(variable, "{}")
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ContractError(f"{path} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ContractError(f"{path} should hold a JSON object, and holds {text[:80]!r}")
    return value
