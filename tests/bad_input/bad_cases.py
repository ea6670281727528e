"""Wrong input, by section: the rule that it breaks, and how it is put to a public door.

To add a case: a line of FILES for a file of tests/spec/bad, or an entry of a table below; then
`UPDATE_GOLDEN=1 python -m pytest tests/bad_input` writes its rows into docs/bad-input.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bad_doors import Door

#: The rule that each file of tests/spec/bad breaks, by the section of the page.
FILES = {
    "The job file": {
        "not_yaml": "A job file is YAML",
        "not_a_job": "A job file is a mapping of fields",
        "unknown_key": "A field has a known name",
        "unknown_key_of_a_group": "So has a field of a group",
        "words_of_other_tools": "Words of other tools get the name and the form of ours",
        "words_of_other_tools_for_a_group": "So do those for a group",
        "key_written_twice": "A field is written once",
        "wrong_types": "A value has its field's type",
        "no_entry_point": "There is a training script",
        "everything_at_once": "Everything is told at once, in the order of the file",
    },
    "Machines and roles": {
        "no_machines": "A job has machines",
        "preferences": "Preferred types differ, and each has a count or all have one",
        "serverless": "A serverless job has no program and no machines of its own",
        "type_beside_groups": "Machines are said in one way",
        "type_misspelled": "An instance type exists",
        "type_without_ml": "An instance type has its prefix",
        "local_beside_cloud": "Hosts are all of this machine, or none is",
        "count_zero": "A group has instances",
        "six_groups": "There are five groups at most",
        "two_groups_of_one_name": "A group has a name of its own",
        "group_name": "A group's name can be printed",
        "alternatives": "Alternatives are other types, of the cloud",
        "role_misspelled": "A role has a known name",
        "role_not_clear": "What a group does is clear",
        "role_contradicted": "A group's name and type do not contradict each other",
        "no_train_group": "One group trains",
        "two_train_groups": "Only one group trains",
        "nothing_served": "A data group has a data service",
        "distribution": "A distribution is one of Launcher's, or one of AWS's libraries",
        "distribution_misspelled": "A distribution has a known name",
        "two_distributions": "A job has one distribution",
        "mpi_options": "mpirun's hosts are Launcher's to say",
        "toolkit": "AWS's libraries have what they need beside them",
        "toolkit_on_a_group": "AWS's libraries start on a group where its toolkit can",
    },
    "What ranks share": {
        "of_another_distribution": "A distribution has its own fields",
        "parallel_words": "Schedules, placements and precisions have known names",
        "parallel_limits": "Counts begin at 1, and modules have names",
        "partitions": "Partitions divide the ranks, and have microbatches and starts enough",
        "partitions_of_alternatives": "Also those of the alternatives",
        "starts_and_stages": "A model is cut in one way",
        "pinned_stages": "Each stage has a module",
        "partition_file_and_cuts": "A model that a file cuts is not cut in another way",
        "partition_file_missing": "A partition's file exists",
        "partition_file_damaged": "It was made by `launcher plan cut`",
        "partition_file_empty": "It has a name, and was made for its objective",
        "partition_file_contradicted": "A job and its partition's file say the same",
        "partition_file_of_other_ranks": "The file's partitions divide the ranks",
        "partition_file_with_shards": "A file for shards is for jobs that have them",
        "auto_partition": "What is found for the job is not given, and has a known objective",
        "nothing_to_find": "An objective is of what is to be found",
        "shard_degree": "Shards divide the replicas of the stages",
        "virtual_stages": "Virtual stages work in equal rounds",
        "simple_virtual_stages": "Not all schedules have virtual stages",
        "zero_bubble": "So does one schedule without them",
        "sharded_and_compressed": "Only gradients of whole replicas are compressed",
    },
    "Programs of a group": {
        "command_missing": "A command group has a command",
        "command_empty": "A command has a first word",
        "command_is_text": "A command is a list of words",
        "command_word_is_a_number": "A word of a command is text",
        "command_of_another_role": "A group with a command has no other role",
        "command_without_training": "Beside a command group there is one that trains",
        "groups_without_script": "Groups have roles and commands where Launcher starts",
        "command_script_missing": "The script of a command travels with the job",
        "ready_without_command": "Readiness and lifetime are those of a command",
        "ready_misspelled": "A sign of readiness has a known name",
        "ready_signs": "One sign says that a command is ready",
    },
    "Code": {
        "entry_point_missing": "The script travels with the job",
        "entry_point_not_python": "The script is Python",
        "entry_point_outside": "The script is inside source_dir",
        "nothing_to_train": "Ranks run a script or a task",
        "task_beside_script": "Not both; and a task runs under torchrun",
        "task_not_a_reference": "A task is module:function, and is told where to cut",
        "task_missing": "A task's module travels with the job",
        "task_function_missing": "A task's function is in its module",
        "task_without_source_dir": "A task travels only with a source_dir",
        "dataset_not_a_reference": "A dataset is module:function",
        "dataset_twice": "A dataset is listed once",
        "dataset_module_missing": "A dataset's module travels with the job",
        "dataset_function_missing": "A dataset's function is in its module",
        "datasets_without_source_dir": "Modules travel only with a source_dir",
        "datasets_without_main_guard": "Data hosts can import the script if it has their datasets",
        "submodules_of_our_names": "A package launcher of the user's has no submodule of ours",
        "requirements_of_a_group": "The requirements file of a group travels with the job",
        "requirements_without_source_dir": "Without source_dir, no requirements file travels",
        "requirements_and_toolkit": "AWS's toolkit installs one requirements.txt on every host",
        "requirements_in_isolation": "With network isolation, wheels travel with the job",
    },
    "Channels": {
        "channel_called_code": "The name of the code's channel is taken",
        "channel_name": "A channel's name has letters, digits, '.', '-' and '_'",
        "channel_uri": "A channel's data has a URI",
        "model_channel": "A model to start from has a channel of its own",
        "file_system": "A file system is in the job's VPC, and goes to all groups",
        "channel_words": "A channel's words are known, and go together",
        "channel_attributes": "attribute_names belong to augmented manifests",
        "channel_of_an_absent_group": "A channel goes to groups of the job",
        "channel_of_no_group": "Only a job with groups can route channels",
        "too_many_channels": "There are 19 channels at most",
    },
    "Image and program": {
        "image_and_algorithm": "A job has one image",
        "versions": "A framework and its versions have known forms",
        "own_command": "A container starts Launcher or a command, not both",
        "registry": "A registry's mode is known, and a VPC's registry needs a VPC",
    },
    "Values and limits": {
        "limits": "Numbers are within their limits",
        "data_service_limits": "The data service's numbers are within their limits",
        "data_engine": "A data engine is in a package of the hosts",
        "hang_timeout": "A time to wait is not negative",
        "interruption": "What is said of spot instances and checkpoints goes together",
        "spot_without_checkpoints": "Spot instances have checkpoints, or say that they need none",
        "spot_without_limit": "Spot instances have a longest wait",
        "spot_limits": "The wait includes the running, and the checkpoint folder is the job's own",
        "warm_pool": "Only hosts of one kind are kept, for 6 hours at most",
        "storage_key": "A KMS key has its form, and encrypts only volumes",
        "reserved": "Plans and retries are within their limits",
        "tracking": "Trackers have their places",
        "tracking_password": "Trackers' places have no passwords",
        "tracking_database": "Nor have those that are databases",
        "untracked": "Tracking names a tracker",
        "watching": "What is watched has its forms and places",
        "hyperparameters": "Hyperparameters are JSON under a name of their own",
        "hyperparameter_long": "A hyperparameter has 2,500 characters at most",
        "environment": "Variables have legal names and lengths",
        "tags": "Tags have legal keys and values",
        "metrics": "A metric's expression has a group",
        "metric_limits": "A metric's name and expression have a length",
        "network": "A VPC has subnets and security groups",
        "places": "Image, role and locations have their forms",
    },
}

#: A job that is right, but for what the command line says.
GOOD = """\
entry_point: train.py
source_dir: code
instance_groups:
  - {instance_group_name: data_group, instance_type: ml.c5.2xlarge, instance_count: 2}
  - {instance_group_name: train_group, instance_type: ml.g4dn.xlarge}
data_service: {datasets: ["pipeline:train_set"]}
"""
PLACED = f"{GOOD}role: arn:aws:iam::111122223333:role/R\n"
ECR = "111122223333.dkr.ecr.us-east-1.amazonaws.com"

#: Changes on the command line: (rule, change).
CHANGES = [
    ("A change is path=value", "epochs"),
    ("A change's field has a known name", "hyperparametres.epochs=1"),
    ("A change's group is in the job", "instance_groups.gpu_group.instance_count=1"),
    ("A path ends at a value", "max_run.hours=1"),
    ("A change's value is YAML", "max_run=["),
    ("A change's value has its field's type", "max_run=long"),
    ("A change keeps the limits", "volume_size=0"),
]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One wrong input. `put` gives it to a door; `shown` says it in a few words, for the page."""

    name: str
    section: str
    rule: str
    shown: str
    put: Callable[[Door], None]


def all_cases() -> Iterator[Case]:
    for section, files in FILES.items():
        for stem, rule in files.items():
            yield Case(
                name=stem,
                section=section,
                rule=rule,
                shown=f"`{stem}.yaml`",
                put=_file(stem),
            )
    for rule, change in CHANGES:
        yield Case(
            name=f"set {change}",
            section="Changes on the command line",
            rule=rule,
            shown=f"`--set {change}`",
            put=_change(change),
        )
    yield from (_case("Code", *row) for row in _CODE)
    yield from (_case("Names and places", *row) for row in _PLACES)
    yield from (_case("What this machine cannot do", *row) for row in _LOCAL)
    yield from (_case("Requests made by hand", *row) for row in _REQUESTS)


def _case(section: str, rule: str, shown: str, put: Callable[[Door], None]) -> Case:
    return Case(name=f"{rule} {shown}", section=section, rule=rule, shown=shown, put=put)


def _file(stem: str) -> Callable[[Door], None]:
    return lambda door: door.run(door.copy_job(f"{stem}.yaml"), "--local")


def _change(change: str) -> Callable[[Door], None]:
    return lambda door: door.run(door.write_job(GOOD), "--local", "--set", change)


def _run(*options: str, job: str = GOOD) -> Callable[[Door], None]:
    return lambda door: door.run(door.write_job(job), *options)


def _fit(inputs: Any = None, **arguments: Any) -> Callable[[Door], None]:
    return lambda door: door.fit(inputs, **arguments)


def _channel(**fields: Any) -> Callable[[Door], None]:
    """fit() with one channel; its data is a folder that exists unless it says otherwise."""
    return lambda door: door.fit_channel(**fields)


def _used_before(door: Door) -> None:
    door.complete_a_job("used")
    door.run(door.write_job(GOOD), "--local", "--name", "used")


def _without_bubblewrap(door: Door) -> None:
    door.hide_programs()
    door.run(door.write_job(GOOD), "--local", "--isolation", "sandbox")


def _broken_module(door: Door) -> None:
    (door.folder / "code" / "pipeline.py").write_text("def train_set(:\n")
    door.run(door.write_job(GOOD), "--local")


def _link(target: str) -> Callable[[Door], None]:
    def put(door: Door) -> None:
        (door.folder / "code" / "link").symlink_to(target)
        door.run(door.write_job(GOOD), "--local")

    return put


_Row = tuple[str, str, Callable[[Door], None]]

_CODE: Sequence[_Row] = [
    ("A dataset's module is Python", "`def train_set(:`", _broken_module),
    ("source_dir exists", "`source_dir: cod`", _run("--local", job=GOOD.replace("code", "cod"))),
    ("Links stay inside source_dir", "`code/link -> /etc/hosts`", _link("/etc/hosts")),
    ("Links point at something", "`code/link -> gone`", _link("gone")),
]

_PLACES: Sequence[_Row] = [
    ("The job file exists", "`launcher run absent.yaml`", lambda door: door.run("absent.yaml")),
    ("The job file is a file", "`launcher run code`", lambda door: door.run("code")),
    ("The job file is a text", "bytes", lambda door: door.run_bytes(b"\xff\xfe\x00entry")),
    ("A job's name is legal", "`--name my_job`", _run("--local", "--name", "my_job")),
    ("A job's name has 63 characters", "64 of them", _run("--local", "--name", "a" * 64)),
    ("A job's name was never used", "`--name used`, again", _used_before),
    ("A request names image, role and output", "`--dry-run`", _run("--dry-run")),
    (
        "SageMaker cannot read this machine's files",
        "`--dry-run`, `output_path: file:///out`",
        _run(
            "--dry-run",
            job=f"{PLACED}image_uri: {ECR}/i:1\noutput_path: file:///out\n",
        ),
    ),
    (
        "An image has Python 3.10 or newer",
        "`--dry-run`, an image with `py39`",
        _run(
            "--dry-run",
            job=f"{PLACED}image_uri: {ECR}/pytorch-training:1.13.1-gpu-py39\n"
            "output_path: s3://bucket/out\n",
        ),
    ),
    (
        "SageMaker takes images of Amazon ECR in the job's region",
        "`--dry-run`, an image of Docker Hub",
        _run(
            "--dry-run",
            job=f"{PLACED}image_uri: pytorch/pytorch:latest\noutput_path: s3://bucket/out\n",
        ),
    ),
    ("A job for AWS needs a region", "no `--local`", _run()),
    (
        "A distribution of SDK v2 has a known name",
        '`distribution={"horovod": {"enabled": True}}`',
        _fit(distribution={"horovod": {"enabled": True}}),
    ),
    ("A role is a word", '`InstanceGroup(..., role="trian")`', lambda door: door.fit_role("trian")),
]

_LOCAL: Sequence[_Row] = [
    ("A sandbox needs bubblewrap", "`--isolation sandbox` without it", _without_bubblewrap),
    (
        "An isolation has a known name",
        '`LocalSession(isolation="vm")`',
        lambda door: door.fit(None, isolation="vm"),
    ),
    ("A channel in S3 needs credentials", '`fit("s3://bucket/x")`', _fit("s3://bucket/x")),
    ("A local channel has files", '`fit("file:///no/such")`', _fit("file:///no/such")),
    ("Pipes are SageMaker's", '`input_mode="Pipe"`', _channel(input_mode="Pipe")),
    ("Nothing is unpacked here", '`compression="Gzip"`', _channel(compression="Gzip")),
    (
        "Nothing is wrapped here",
        '`record_wrapping="RecordIO"`',
        _channel(record_wrapping="RecordIO"),
    ),
    (
        "A manifest is in S3",
        '`s3_data_type="ManifestFile"`',
        _channel(s3_data_type="ManifestFile"),
    ),
]


def _request(*path: Any, to: Any) -> Callable[[Door], None]:
    """A request to the session itself, with one field changed."""
    return lambda door: door.create(path, to)


def _group(name: str, count: int) -> dict[str, Any]:
    return {"InstanceGroupName": name, "InstanceType": "ml.c5.xlarge", "InstanceCount": count}


def _groups(*groups: tuple[str, int]) -> Callable[[Door], None]:
    return _request("ResourceConfig", to={"InstanceGroups": [_group(*each) for each in groups]})


def _metric(regex: str) -> Callable[[Door], None]:
    metric = {"Name": "loss", "Regex": regex}
    return _request("AlgorithmSpecification", "MetricDefinitions", to=[metric])


def _source(field: str, to: Any) -> Callable[[Door], None]:
    return _request("InputDataConfig", 0, "DataSource", "S3DataSource", field, to=to)


def _also(**channel: Any) -> Callable[[Door], None]:
    return lambda door: door.create_with_channel(channel)


def _s3(uri: str, **source: Any) -> Mapping[str, Any]:
    return {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": uri, **source}}


_REQUESTS: Sequence[_Row] = [
    ("A job's name is legal", "`a_b`", _request("TrainingJobName", to="a_b")),
    ("There is an output", "no OutputDataConfig", _request("OutputDataConfig", to=None)),
    (
        "An output in S3 needs credentials",
        "`s3://bucket`",
        _request("OutputDataConfig", "S3OutputPath", to="s3://bucket"),
    ),
    (
        "The output is a folder",
        "`file:///etc/hosts`",
        _request("OutputDataConfig", "S3OutputPath", to="file:///etc/hosts"),
    ),
    (
        "Checkpoints in S3 need credentials",
        "`s3://bucket`",
        _request("CheckpointConfig", to={"S3Uri": "s3://bucket"}),
    ),
    (
        "The checkpoint folder is a host's own",
        "`/home/me`",
        _request("CheckpointConfig", to={"S3Uri": "file:///tmp/kept", "LocalPath": "/home/me"}),
    ),
    (
        "There is a command",
        "no ContainerEntrypoint",
        _request("AlgorithmSpecification", "ContainerEntrypoint", to=None),
    ),
    ("A metric's expression compiles", "`loss=([`", _metric("loss=([")),
    ("A metric's expression has a group", "`loss=.*`", _metric("loss=.*")),
    (
        "A job may run for a while",
        "`MaxRuntimeInSeconds` 0",
        _request("StoppingCondition", "MaxRuntimeInSeconds", to=0),
    ),
    ("Hyperparameters are texts", "0.1", _request("HyperParameters", to={"lr": 0.1})),
    ("Variables are texts", "1", _request("Environment", to={"A": 1})),
    (
        "Machines are said in one way",
        "InstanceGroups beside InstanceType",
        _request("ResourceConfig", "InstanceGroups", to=[_group("a", 1)]),
    ),
    ("There are machines", "an empty ResourceConfig", _request("ResourceConfig", to={})),
    ("A group has a name of its own", "two groups `a`", _groups(("a", 1), ("a", 2))),
    ("A group has instances", "InstanceCount 0", _groups(("a", 0))),
    ("There are five groups at most", "six", _groups(*((name, 1) for name in "abcdef"))),
    (
        "A group has a type",
        "no InstanceType",
        _request("ResourceConfig", to={"InstanceGroups": [{"InstanceGroupName": "a"}]}),
    ),
    ("A channel has a source", "no DataSource", _also(ChannelName="x")),
    (
        "A local channel is a folder of files",
        "FileSystemDataSource",
        _also(ChannelName="x", DataSource={"FileSystemDataSource": {}}),
    ),
    (
        "A channel has a name of its own",
        "two channels `code`",
        _also(ChannelName="code", DataSource=_s3("file:///etc/hosts")),
    ),
    (
        "A channel's name is legal",
        "`a b`",
        _also(ChannelName="a b", DataSource=_s3("file:///etc/hosts")),
    ),
    (
        "All channels go to groups, or none",
        "one of two",
        _also(ChannelName="x", DataSource=_s3("file:///etc/hosts", InstanceGroupNames=["a"])),
    ),
    ("A channel goes to groups of the job", "`gone`", _source("InstanceGroupNames", ["gone"])),
    (
        "A URI is absolute",
        "`file://x/y`",
        _also(ChannelName="x", DataSource=_s3("file://x/y")),
    ),
]
