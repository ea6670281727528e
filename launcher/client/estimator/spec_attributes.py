"""The attributes of an Estimator by SDK v2's names: they read and change its JobSpec.

estimator.instance_count = 2   # estimator.spec.instance_count
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast, overload

from launcher.client.estimator.sdk_v2_types import (
    as_groups,
    as_hook,
    as_own_mapping,
    as_path,
    as_paths,
    as_request_part,
    as_rules,
    as_tags,
)
from launcher.client.spec import NOT_TAKEN, JobSpec, as_distribution, hint_for_name

#: The values that SDK v2 takes in another form than a JobSpec.
CONVERSIONS: Mapping[str, Callable[[Any], Any]] = {
    "entry_point": partial(as_path, where="entry_point"),
    "source_dir": partial(as_path, where="source_dir"),
    "dependencies": as_paths,
    "hyperparameters": as_own_mapping,
    "distribution": as_distribution,
    "tags": as_tags,
    "tensorboard_output_config": as_request_part,
    "debugger_hook_config": as_hook,
    "profiler_config": as_request_part,
}


class SpecAttribute:
    """One field of the JobSpec; None stands for its empty default, as in the constructor."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        self.__doc__ = f"The job's {name}: see JobSpec."

    @overload
    def __get__(self, estimator: None, owner: type) -> SpecAttribute: ...
    @overload
    def __get__(self, estimator: SpecAttributes, owner: type) -> Any: ...
    def __get__(self, estimator: SpecAttributes | None, owner: type) -> Any:
        return self if estimator is None else getattr(estimator.spec, self.name)

    def __set__(self, estimator: SpecAttributes, value: object) -> None:
        if value is None:
            value = getattr(_EMPTY, self.name)
        elif self.name in CONVERSIONS:
            value = CONVERSIONS[self.name](value)
        estimator.spec = estimator.spec.replace(**{self.name: value})


_EMPTY = JobSpec()
#: Arguments that are methods here, as in SDK v2; they can be set like the others.
_METHODS = frozenset({"hyperparameters", "enable_network_isolation", "enable_remote_debug"})
#: Attributes of each estimator beside the fields of its job.
_KEPT = frozenset({"spec", "sagemaker_session"})


class SpecAttributes:
    """The fields of `spec` as attributes; a change takes effect in the next `fit`.

    `hyperparameters`, `enable_network_isolation` and `enable_remote_debug` are methods, as in SDK
    v2; they are set like the others.
    """

    spec: JobSpec

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute; one that would change nothing raises AttributeError.

        A subclass of another package may have attributes of its own.
        """
        if name in _METHODS:
            given = getattr(JobSpec(), name) if value is None else value
            self.spec = self.spec.replace(**{name: as_own_mapping(given)})
            return
        is_read = name in _KEPT or name.startswith("_") or hasattr(type(self), name)
        is_ours = name in NOT_TAKEN or type(self).__module__.startswith(__package__)
        if is_ours and not is_read:
            what = f"no job of {type(self).__name__} reads the attribute {name!r}"
            raise AttributeError(what + hint_for_name(name, dir(self)))
        super().__setattr__(name, value)

    entry_point = SpecAttribute()
    task = SpecAttribute()
    source_dir = SpecAttribute()
    dependencies = SpecAttribute()
    instance_type = SpecAttribute()
    instance_count = SpecAttribute()
    data_service = SpecAttribute()
    environment = SpecAttribute()
    secrets = SpecAttribute()
    volume_size = SpecAttribute()
    volume_kms_key = SpecAttribute()
    keep_alive_period_in_seconds = SpecAttribute()
    training_plan = SpecAttribute()
    instance_placement_config = SpecAttribute()
    capacity_retry = SpecAttribute()
    image_uri = SpecAttribute()
    algorithm_arn = SpecAttribute()
    framework = SpecAttribute()
    framework_version = SpecAttribute()
    py_version = SpecAttribute()
    transformers_version = SpecAttribute()
    container_entry_point = SpecAttribute()
    container_arguments = SpecAttribute()
    container_log_level = SpecAttribute()
    training_repository_access_mode = SpecAttribute()
    training_repository_credentials_provider_arn = SpecAttribute()
    input_mode = SpecAttribute()
    model_uri = SpecAttribute()
    model_channel_name = SpecAttribute()
    output_path = SpecAttribute()
    output_kms_key = SpecAttribute()
    disable_output_compression = SpecAttribute()
    code_location = SpecAttribute()
    max_run = SpecAttribute()
    use_spot_instances = SpecAttribute()
    max_wait = SpecAttribute()
    checkpoint_s3_uri = SpecAttribute()
    checkpoint_local_path = SpecAttribute()
    allow_restart_from_scratch = SpecAttribute()
    max_retry_attempts = SpecAttribute()
    role = SpecAttribute()
    base_job_name = SpecAttribute()
    tags = SpecAttribute()
    subnets = SpecAttribute()
    security_group_ids = SpecAttribute()
    encrypt_inter_container_traffic = SpecAttribute()
    enable_session_tag_chaining = SpecAttribute()
    metric_definitions = SpecAttribute()
    tracking = SpecAttribute()
    enable_sagemaker_metrics = SpecAttribute()
    experiment_config = SpecAttribute()
    tensorboard_output_config = SpecAttribute()
    debugger_hook_config = SpecAttribute()
    profiler_config = SpecAttribute()
    profiler_rules = SpecAttribute()
    disable_profiler = SpecAttribute()
    enable_infra_check = SpecAttribute()
    extra_request = SpecAttribute()

    @property
    def instance_groups(self) -> Any:
        """The job's instance groups: see JobSpec.

        New groups have their own roles: set a distribution that names one of them once more.
        """
        return self.spec.instance_groups

    @instance_groups.setter
    def instance_groups(self, groups: Any) -> None:
        self.spec = self.spec.replace(instance_groups=as_groups(groups or (), None))

    @property
    def distribution(self) -> Any:
        """The way training starts; SDK v2's dictionary also names the group that trains.

        See JobSpec.
        """
        return self.spec.distribution

    @distribution.setter
    def distribution(self, distribution: Any) -> None:
        self.spec = self.spec.replace(
            distribution=as_distribution(distribution),
            instance_groups=as_groups(self.spec.instance_groups, distribution),
        )

    @property
    def rules(self) -> Any:
        """Debugger's rules; rules of its profiler are added to `profiler_rules` when they are set.

        See JobSpec.
        """
        return self.spec.rules

    @rules.setter
    def rules(self, rules: Any) -> None:
        debugger, profiler = as_rules(rules or ())
        profiler_rules = profiler or self.spec.profiler_rules
        self.spec = self.spec.replace(rules=debugger, profiler_rules=profiler_rules)

    def hyperparameters(self) -> dict[str, Any]:
        """Return the hyperparameters, with their types; a change of the mapping takes effect."""
        return cast("dict[str, Any]", self.spec.hyperparameters)

    def set_hyperparameters(self, **hyperparameters: object) -> None:
        """Set hyperparameters, replacing those with the same names."""
        values = {**self.spec.hyperparameters, **hyperparameters}
        self.spec = self.spec.replace(hyperparameters=values)

    def enable_network_isolation(self) -> bool:
        """Return whether the containers are cut off from the network outside the job."""
        return bool(self.spec.enable_network_isolation)

    def get_remote_debug_config(self) -> dict[str, bool] | None:
        """Return the request's RemoteDebugConfig; None if nothing is sent."""
        enabled = self.spec.enable_remote_debug
        return None if enabled is None else {"EnableRemoteDebug": enabled}

    def get_session_chaining_config(self) -> dict[str, bool] | None:
        """Return the request's SessionChainingConfig; None if nothing is sent."""
        enabled = self.spec.enable_session_tag_chaining
        return None if enabled is None else {"EnableSessionTagChaining": enabled}

    def get_vpc_config(self) -> dict[str, list[str]] | None:
        """Return the request's VpcConfig; None without one."""
        subnets, groups = self.spec.subnets, self.spec.security_group_ids
        if not subnets or not groups:
            return None
        return {"Subnets": list(subnets), "SecurityGroupIds": list(groups)}
