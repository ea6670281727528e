"""The input channels of a request: the user's, a model to start from, and the code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from launcher.client.request.toolkit import source_uri
from launcher.client.spec import FileSystemInput, JobSpec, TrainingInput
from launcher.shared import CODE_CHANNEL

#: The content type that SDK v2 gives the channel of a `model_uri`.
MODEL_CONTENT = "application/x-sagemaker-model"


def build_channels(spec: JobSpec, code_uri: str) -> list[dict[str, Any]]:
    """Build the user's channels in their order, then those of the model and the code.

    SageMaker rejects a request in which only some channels name groups. So if one channel does,
    the others name every group.
    """
    channels = {**spec.inputs, **_own_channels(spec, code_uri)}
    routed = any(channel.instance_groups for channel in spec.s3_inputs.values())
    everyone = tuple(group.instance_group_name for group in spec.groups) if routed else ()
    return [
        _file_system(name, channel)
        if isinstance(channel, FileSystemInput)
        else _channel(name, channel, channel.instance_groups or everyone)
        for name, channel in channels.items()
    ]


def _own_channels(spec: JobSpec, code_uri: str) -> dict[str, TrainingInput]:
    channels = {}
    if spec.model_uri is not None:
        model = TrainingInput(spec.model_uri, content_type=MODEL_CONTENT, input_mode="File")
        channels[spec.model_channel_name] = model
    if spec.starts_launcher:
        channels[CODE_CHANNEL] = TrainingInput(code_uri, input_mode="File")
    elif spec.has_code_channel:
        mode = None if spec.input_mode == "File" else "File"
        channels[CODE_CHANNEL] = TrainingInput(source_uri(spec, code_uri), input_mode=mode)
    return channels


def _channel(name: str, channel: TrainingInput, groups: Sequence[str]) -> dict[str, Any]:
    source = {
        "S3DataType": channel.s3_data_type,
        "S3Uri": channel.s3_data,
        "S3DataDistributionType": channel.distribution,
        "AttributeNames": list(channel.attribute_names),
        "InstanceGroupNames": list(groups),
    }
    shuffle = channel.shuffle_config
    return {
        "ChannelName": name,
        "DataSource": {"S3DataSource": _present(source)},
        **_present(
            {
                "ContentType": channel.content_type,
                "CompressionType": channel.compression,
                "RecordWrapperType": channel.record_wrapping,
                "InputMode": channel.input_mode,
                "ShuffleConfig": None if shuffle is None else {"Seed": shuffle},
            }
        ),
    }


def _file_system(name: str, channel: FileSystemInput) -> dict[str, Any]:
    source = {
        "FileSystemId": channel.file_system_id,
        "FileSystemType": channel.file_system_type,
        "DirectoryPath": channel.directory_path,
        "FileSystemAccessMode": channel.file_system_access_mode,
    }
    return {
        "ChannelName": name,
        "DataSource": {"FileSystemDataSource": source},
        **_present({"ContentType": channel.content_type}),
    }


def _present(fields: Mapping[str, object]) -> dict[str, Any]:
    """Return the fields whose value is neither None nor an empty list."""
    return {name: value for name, value in fields.items() if value is not None and value != []}
