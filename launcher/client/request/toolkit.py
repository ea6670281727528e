"""Script mode of AWS's toolkit: the hyperparameters of a job that AWS's own image starts.

They equal those of SDK v2; tests/request/toolkit_rows.json records what SDK 2.257.0 sends.
Source: fw_utils.py and estimator.py of sagemaker 2.257.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from launcher.client.spec import JobSpec, infer_roles, job_roles, scope_of
from launcher.errors import Problem, SpecError
from launcher.shared import CODE_CHANNEL, MlPaths, Role

#: The archive of the source, flat at its root; stored below the prefix of the job's code.
SOURCE_FILE = "sourcedir.tar.gz"


def build_hyperparameters(
    spec: JobSpec, *, job_name: str, region: str, code_uri: str, output_uri: str
) -> dict[str, Any]:
    """Build the hyperparameters that only the toolkit reads; empty for a job without it.

    Raises SpecError if the region, from which the toolkit downloads the source, is unknown.
    """
    strategies = spec.toolkit_strategies
    if strategies is None:
        return {}
    if not region:
        raise SpecError([_NO_REGION])
    return {
        "sagemaker_submit_directory": _submit_directory(spec, code_uri),
        "sagemaker_program": spec.script,
        "sagemaker_container_log_level": spec.container_log_level,
        "sagemaker_job_name": job_name,
        "sagemaker_region": region,
        **_scope(spec),
        **_mpi(strategies),
        **_smdistributed(spec, strategies),
        **_flags(strategies),
        **_model_dir(spec, strategies, f"{output_uri.rstrip('/')}/{job_name}/model"),
    }


def describe_script(spec: JobSpec, *, job_name: str) -> dict[str, Any]:
    """Build what the toolkit's Environment() reads of a job of several groups.

    Launcher starts such a job, and its code may use the toolkit's module on any host. Without the
    distribution's group, the toolkit takes the first host of all for the master.
    """
    if not spec.starts_launcher or len(spec.groups) < 2:
        return {}
    roles, _ = job_roles(spec)
    named = scope_of(spec) or [name for name, role in roles.items() if role is Role.TRAIN]
    return {
        **({"sagemaker_program": spec.script} if spec.task is None else {}),
        "sagemaker_job_name": job_name,
        **({"sagemaker_distribution_instance_groups": list(named)} if named else {}),
    }


_NO_REGION = Problem(
    what="AWS's toolkit needs the region, which the image's name does not contain",
    where="image_uri",
    fix="name an image of ECR: ACCOUNT.dkr.ecr.REGION.amazonaws.com/NAME:TAG",
)


def _submit_directory(spec: JobSpec, code_uri: str) -> str:
    """Return the location of the source: a channel for isolated hosts, which cannot download it."""
    if spec.enable_network_isolation:
        return str(MlPaths().channels / CODE_CHANNEL / SOURCE_FILE)
    return source_uri(spec, code_uri)


def source_uri(spec: JobSpec, code_uri: str) -> str:
    """Return the URI of the source's archive, which may have been in S3 before."""
    return str(spec.source_dir) if spec.has_remote_source else code_uri + SOURCE_FILE


def _scope(spec: JobSpec) -> dict[str, Any]:
    if not spec.instance_groups:
        return {}
    roles = infer_roles(spec.groups, runs_script=False)
    trainers = [name for name, role in roles.items() if role is Role.TRAIN]
    return {"sagemaker_distribution_instance_groups": trainers}


def _mpi(strategies: Mapping[str, Any]) -> dict[str, Any]:
    options = strategies.get("mpi")
    if options is None:
        return {}
    processes = options.get("processes_per_host")
    return {
        "sagemaker_mpi_enabled": True,
        **({"sagemaker_mpi_num_of_processes_per_host": processes} if processes else {}),
        "sagemaker_mpi_custom_mpi_options": options.get("custom_mpi_options", ""),
    }


def _smdistributed(spec: JobSpec, strategies: Mapping[str, Any]) -> dict[str, Any]:
    libraries = strategies.get("smdistributed")
    if libraries is None:
        return {}
    data, model = libraries.get("dataparallel"), libraries.get("modelparallel")
    common = {
        "sagemaker_distributed_dataparallel_enabled": data is not None,
        "sagemaker_instance_type": spec.instance_type,  # null with groups, as in SDK v2
    }
    if data is None:
        return {"mp_parameters": model.get("parameters", {}), **common}
    options = data.get("custom_mpi_options", "")
    return {**common, "sagemaker_distributed_dataparallel_custom_mpi_options": options}


def _flags(strategies: Mapping[str, object]) -> dict[str, bool]:
    """Build the flags of the strategies that have no other options."""
    names = {
        "torch_distributed": "sagemaker_torch_distributed_enabled",
        "parameter_server": "sagemaker_parameter_server_enabled",
        "multi_worker_mirrored_strategy": "sagemaker_multi_worker_mirrored_strategy_enabled",
        "pytorchxla": "sagemaker_pytorch_xla_multi_worker_enabled",
    }
    return {key: True for name, key in names.items() if name in strategies}


def _model_dir(spec: JobSpec, strategies: Mapping[str, object], uri: str) -> dict[str, str]:
    """Return where a TensorFlow script saves its model, unless the user sets `model_dir`."""
    if spec.framework != "tensorflow" or "model_dir" in spec.hyperparameters:
        return {}
    return {"model_dir": str(MlPaths().model) if "mpi" in strategies else uri}
