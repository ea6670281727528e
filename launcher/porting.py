"""Objects of the `sagemaker` package, and its dictionaries, as the values of a JobSpec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from launcher.contract import Role
from launcher.errors import Problem, SpecError
from launcher.spec import DataParallel, InstanceGroup, TrainingInput

#: The channel that SDK v2 gives to an input without a name.
DEFAULT_CHANNEL = "training"
#: SDK v2's words for the strategy that is a DistributedDataParallel script under torchrun.
_TORCHRUN_STRATEGIES = ("torch_distributed", "pytorchddp")


def as_groups(groups: Sequence[Any], distribution: Any) -> tuple[InstanceGroup, ...]:
    """Instance groups of either package; SDK v2's distribution names the one that trains."""
    named = distribution.get("instance_groups", ()) if isinstance(distribution, Mapping) else ()
    trains = {getattr(group, "instance_group_name", group) for group in named}
    return tuple(_group(group, trains) for group in groups)


def _group(group: Any, trains: set[str]) -> InstanceGroup:
    role = getattr(group, "role", None)
    if role is None and group.instance_group_name in trains:
        role = Role.TRAIN
    return InstanceGroup(group.instance_group_name, group.instance_type, group.instance_count, role)


def as_distribution(distribution: DataParallel | Mapping[str, Any] | None) -> DataParallel | None:
    """DataParallel, or SDK v2's {"torch_distributed": {"enabled": True}}; None for neither."""
    if distribution is None or isinstance(distribution, DataParallel):
        return distribution
    strategies = {key: value for key, value in distribution.items() if key != "instance_groups"}
    unknown = [key for key in strategies if key not in _TORCHRUN_STRATEGIES]
    if unknown:
        raise SpecError(
            Problem(
                what=f"this version cannot run the distribution {key!r}",
                where="distribution",
                fix='use DataParallel() or {"torch_distributed": {"enabled": True}}',
            )
            for key in unknown
        )
    enabled = any(strategy.get("enabled") for strategy in strategies.values())
    return DataParallel() if enabled else None


def as_inputs(inputs: Any) -> dict[str, TrainingInput]:
    """Channels from what SDK v2's fit() takes: one input, or one per channel name."""
    if inputs is None:
        return {}
    channels = inputs if isinstance(inputs, Mapping) else {DEFAULT_CHANNEL: inputs}
    return {name: _input(value) for name, value in channels.items()}


def _input(value: Any) -> TrainingInput:
    if isinstance(value, str):
        return TrainingInput(value)
    return value if isinstance(value, TrainingInput) else _foreign_input(value.config)


def _foreign_input(channel: Mapping[str, Any]) -> TrainingInput:
    """The sagemaker package keeps a TrainingInput as the Channel of a request, in `.config`."""
    source = channel["DataSource"]["S3DataSource"]
    return TrainingInput(
        source["S3Uri"],
        distribution=source.get("S3DataDistributionType", "FullyReplicated"),
        compression=channel.get("CompressionType"),
        content_type=channel.get("ContentType"),
        record_wrapping=channel.get("RecordWrapperType"),
        s3_data_type=source.get("S3DataType", "S3Prefix"),
        instance_groups=tuple(source.get("InstanceGroupNames", ())),
        input_mode=channel.get("InputMode"),
        attribute_names=tuple(source.get("AttributeNames", ())),
        target_attribute_name=channel.get("TargetAttributeName"),
        shuffle_config=channel.get("ShuffleConfig", {}).get("Seed"),
    )


def as_tags(tags: Mapping[str, str] | Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Tags as a mapping, or as AWS's list of {"Key": ..., "Value": ...}."""
    if isinstance(tags, Mapping):
        return dict(tags)
    return {tag["Key"]: tag["Value"] for tag in tags}


def is_local_mode(session: Any) -> bool:
    """Whether a session of the sagemaker package is its LocalSession."""
    return bool(getattr(session, "local_mode", False))
