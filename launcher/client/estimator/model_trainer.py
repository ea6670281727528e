"""The job that a ModelTrainer of SageMaker's SDK v3 describes, read from its attributes.

Its parts have the members of a CreateTrainingJob request in snake case. So they are read by the
installed boto3's model of the request, and what a job has no field for is its `extra_request`.

Source: https://sagemaker.readthedocs.io/en/v3.0.0/api/sagemaker_train.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.client.estimator.from_description import constructor_arguments
from launcher.client.estimator.sdk_v2_types import read_channel
from launcher.client.request import REQUEST_PATHS, input_shape
from launcher.client.spec import DataParallel, FileSystemInput, TrainingInput
from launcher.errors import Problem, SpecError
from launcher.shared import shown

if TYPE_CHECKING:
    from botocore.model import Shape

#: Attributes that are a part of the request, whole.
_PARTS = {
    "_infra_check_config": "InfraCheckConfig",
    "_remote_debug_config": "RemoteDebugConfig",
    "_retry_strategy": "RetryStrategy",
    "_session_chaining_config": "SessionChainingConfig",
    "_tensorboard_output_config": "TensorBoardOutputConfig",
    "checkpoint_config": "CheckpointConfig",
    "environment": "Environment",
    "model_package_config": "ModelPackageConfig",
    "output_data_config": "OutputDataConfig",
    "role": "RoleArn",
    "stopping_condition": "StoppingCondition",
    "tags": "Tags",
}
_OF_ALGORITHM = {
    "_metric_definitions": "MetricDefinitions",
    "algorithm_name": "AlgorithmName",
    "training_image": "TrainingImage",
    "training_image_config": "TrainingImageConfig",
    "training_input_mode": "TrainingInputMode",
}
#: Attributes that say nothing of the job, or are read apart.
_OTHERS = {
    "base_job_name",
    "compute",
    "config_mgr",
    "distributed",
    "hyperparameters",
    "input_data_config",
    "local_container_root",
    "networking",
    "sagemaker_session",
    "source_code",
}
#: Attributes of a ModelTrainer that is made of a recipe, or of JumpStart.
_MADE_OF = ("_temp_recipe_train_dir", "_jumpstart_config")
_FIXES = {
    "command": "write a script that does the same, as entry_script: .py or .sh",
    "ignore_patterns": "write them to .launcherignore in source_dir",
    "training_mode": "leave it out, and run the job with fit(local=True)",
}
_REQUIREMENTS = "requirements.txt"


def arguments_of(trainer: object) -> dict[str, Any]:
    """Return an Estimator's arguments and, as "inputs", the channels of a ModelTrainer.

    Raises SpecError with all of its settings that a job here cannot have.
    """
    if not hasattr(trainer, "source_code") or not hasattr(trainer, "compute"):
        raise SpecError([_problem("", f"{shown(trainer)} is not a ModelTrainer", "give one")])
    problems: list[Problem] = []
    request = _request(trainer, problems)
    arguments = constructor_arguments(request, document=None)
    arguments |= {
        **_code(_set(trainer.source_code), problems),
        "base_job_name": getattr(trainer, "base_job_name", None),
        "distribution": _distribution(getattr(trainer, "distributed", None), problems),
        "extra_request": _rest(request),
        "hyperparameters": _hyperparameters(trainer, problems),
        "sagemaker_session": getattr(trainer, "sagemaker_session", None),
        "inputs": dict(_inputs(getattr(trainer, "input_data_config", None) or (), problems)),
    }
    made_of = [name for name in _MADE_OF if getattr(trainer, name, None)]
    known = {*_PARTS, *_OF_ALGORITHM, *_OTHERS}
    for name in [name for name in _set(trainer) if name not in known] + made_of:
        what = f"{name} is {shown(getattr(trainer, name))}"
        problems.append(_problem(name, what, _FIXES.get(name, "leave it out")))
    if problems:
        raise SpecError(problems)
    return arguments


def _request(trainer: object, problems: list[Problem]) -> dict[str, Any]:
    """Return what the parts of a ModelTrainer say, as a CreateTrainingJob request says it."""
    members = input_shape().members
    request = _members(trainer, _PARTS, members, problems)
    algorithm = members["AlgorithmSpecification"].members
    request["AlgorithmSpecification"] = _members(trainer, _OF_ALGORITHM, algorithm, problems)
    compute = _set(getattr(trainer, "compute", None))
    request["EnableManagedSpotTraining"] = compute.pop("enable_managed_spot_training", None)
    request["ResourceConfig"] = _part(compute, members["ResourceConfig"], "compute", problems)
    networking = _set(getattr(trainer, "networking", None))
    for name in ("enable_network_isolation", "enable_inter_container_traffic_encryption"):
        request[_camel(name)] = networking.pop(name, None)
    request["VpcConfig"] = _part(networking, members["VpcConfig"], "networking", problems)
    return {name: value for name, value in request.items() if value not in (None, {}, [])}


def _members(
    trainer: object,
    named: Mapping[str, str],
    members: Mapping[str, Shape],
    problems: list[Problem],
) -> dict[str, Any]:
    """Return the attributes that are members of a part of the request; named: {attribute: member}.

    A member that the installed boto3 does not know is a problem.
    """
    request = {}
    for name, member in named.items():
        if (value := getattr(trainer, name, None)) is None:
            continue
        if member in members:
            request[member] = _part(value, members[member], name, problems)
        else:
            problems.append(_placeless(name, name))
    return request


def _placeless(where: str, name: str) -> Problem:
    fix = "leave it out, or upgrade boto3 if AWS has it since: pip install -U boto3"
    return _problem(where, f"the request has no place for {name}", fix)


def _part(value: Any, shape: Shape, where: str, problems: list[Problem]) -> Any:
    """Return an object of SDK v3 as the part of a request that has a shape."""
    if shape.type_name == "list" and isinstance(value, Sequence):
        return [
            _part(item, shape.member, f"{where}[{index}]", problems)
            for index, item in enumerate(value)
        ]
    if shape.type_name != "structure":
        return dict(value) if isinstance(value, Mapping) else value
    members = {name.lower(): name for name in shape.members}
    made = {}
    for attribute, item in _set(value).items():
        place = f"{where}.{attribute}"
        member = members.get(attribute.replace("_", "").lower())
        if member is None:
            problems.append(_placeless(place, attribute))
        else:
            made[member] = _part(item, shape.members[member], place, problems)
    return made


def _set(value: object) -> dict[str, Any]:
    """Return the attributes of an object of SDK v3 that are not what its class sets."""
    if isinstance(value, Mapping):
        return dict(value)
    declared = getattr(type(value), "model_fields", {})
    own = vars(value) if hasattr(value, "__dict__") else {}
    return {
        name: item
        for name, item in own.items()
        if item is not None
        and type(item).__name__ != "Unassigned"
        and (name not in declared or item != declared[name].default)
    }


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _rest(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a request that no field of a job is a copy of."""
    rest = _copied(request)
    for path in REQUEST_PATHS.values():
        *parents, last = path.split(".")
        holder = rest
        for name in parents:
            holder = holder.get(name, {})
        holder.pop(last, None)
    return _copied(rest)


def _copied(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy, without empty parts."""
    copies = {
        name: _copied(value) if isinstance(value, Mapping) else value
        for name, value in part.items()
    }
    return {name: value for name, value in copies.items() if value != {}}


def _code(source: dict[str, Any], problems: list[Problem]) -> dict[str, Any]:
    """Return the script and its folder; SDK v3's commands and ignored files have other ways."""
    requirements = source.pop("requirements", _REQUIREMENTS)
    if requirements not in (_REQUIREMENTS, "auto"):
        what = f"requirements is {shown(requirements)}"
        fix = f"name it {_REQUIREMENTS} in source_dir, which is installed"
        problems.append(_problem("source_code.requirements", what, fix))
    made = {
        "entry_point": source.pop("entry_script", ""),
        "source_dir": source.pop("source_dir", None),
        "dependencies": source.pop("dependencies", ()),
    }
    for name, value in source.items():
        what, fix = f"{name} is {shown(value)}", _FIXES.get(name, "leave it out")
        problems.append(_problem(f"source_code.{name}", what, fix))
    return made


def _distribution(runner: object, problems: list[Problem]) -> object:
    """Return the distribution that a Torchrun or an MPI of SDK v3 is."""
    kind, given = type(runner).__name__, _set(runner)
    count = given.pop("process_count_per_node", None)
    options = given.pop("mpi_additional_options", None)
    for name, value in given.items():
        what = f"{name} of {kind} is {shown(value)}"
        problems.append(_problem(f"distributed.{name}", what, "leave it out"))
    if runner is None:
        return None
    if kind == "Torchrun":
        return DataParallel(processes_per_host=count)
    if kind == "MPI":
        mpi = {"enabled": True, "processes_per_host": count}
        extra = {} if options is None else {"custom_mpi_options": " ".join(options)}
        return {"mpi": {name: value for name, value in {**mpi, **extra}.items() if value}}
    what, fix = f"distributed is {shown(runner)}", "use Torchrun or MPI"
    problems.append(_problem("distributed", what, fix))
    return None


def _inputs(
    channels: Sequence[object], problems: list[Problem]
) -> Iterator[tuple[str, TrainingInput | FileSystemInput]]:
    """Yield the name of each InputData or Channel, and what it is here."""
    shape = input_shape().members["InputDataConfig"].member
    for index, channel in enumerate(channels):
        where, given = f"input_data_config[{index}]", _set(channel)
        name, source = str(given.get("channel_name", "")), given.get("data_source")
        if isinstance(source, str):
            place = source if "://" in source else Path(source).absolute().as_uri()
            content_type = given.get("content_type")
            yield name, TrainingInput(place, content_type=content_type, input_mode="File")
            continue
        kinds = {"s3_uri": "S3DataSource", "file_system_id": "FileSystemDataSource"}
        inner = [kind for attribute, kind in kinds.items() if hasattr(source, attribute)]
        whole = {**given, "data_source": {inner[0]: source}} if inner else given
        read = _part(whole, shape, where, problems)
        if {"S3DataSource", "FileSystemDataSource"} & set(read.get("DataSource", ())):
            yield name, read_channel(read)
        else:
            fix = "write it in extra_request.InputDataConfig"
            problems.append(_problem(where, f"{shown(source)} is no S3 or file system", fix))


def _problem(where: str, what: str, fix: str) -> Problem:
    return Problem(where=f"ModelTrainer.{where}".rstrip("."), what=what, fix=fix)


def _hyperparameters(trainer: object, problems: list[Problem]) -> dict[str, Any]:
    given = getattr(trainer, "hyperparameters", None) or {}
    if isinstance(given, Mapping):
        return dict(given)
    fix = "read it, and give the mapping"
    problems.append(_problem("hyperparameters", f"{shown(given)} is the name of a file", fix))
    return {}
