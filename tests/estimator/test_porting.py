"""What the sagemaker package's objects and dictionaries become."""

from pathlib import Path
from types import SimpleNamespace

import boto3
import pytest

from launcher import (
    AwsSession,
    DataParallel,
    InstanceGroup,
    JobSpec,
    LocalSession,
    MemorySession,
    Mpi,
    MultiWorkerMirrored,
    ParameterServer,
    PyTorch,
    Ready,
    SpecError,
    Toolkit,
    TrainingInput,
)
from launcher.client.estimator import as_groups, as_inputs
from launcher.client.spec import as_distribution, refuse_wrong_types
from launcher.shared import Role

ON, OFF = {"enabled": True}, {"enabled": False}


def foreign_group(name="dnn", instance_type="ml.p3.8xlarge", count=2):
    """The attributes of sagemaker.instance_group.InstanceGroup."""
    return SimpleNamespace(
        instance_group_name=name, instance_type=instance_type, instance_count=count
    )


def foreign_input(**source):
    """The attributes of sagemaker.inputs.TrainingInput: the Channel in `config`."""
    return SimpleNamespace(config={"DataSource": {"S3DataSource": {"S3Uri": "s3://b/x", **source}}})


def test_our_groups_keep_their_role_and_their_command():
    data = InstanceGroup("a", "ml.c5.xlarge", 1, Role.DATA)
    server = InstanceGroup("b", "ml.c5.xlarge", command=("serve",), ready=Ready(port=80))
    assert as_groups([data, server], None) == (data, server)


@pytest.mark.parametrize("by_name", [False, True], ids=["by object", "by name"])
def test_the_group_that_a_distribution_names_is_the_one_that_trains(by_name):
    cpu, dnn = foreign_group("x"), foreign_group("y")
    named = "y" if by_name else foreign_group("y")  # an equal copy is as good as the same object
    smddp = {"smdistributed": {"dataparallel": {"enabled": True}}, "instance_groups": [named]}
    assert [group.role for group in as_groups([cpu, dnn], smddp)] == [None, Role.TRAIN]
    # Where Launcher starts the hosts, the distribution itself is limited to that group.
    ours = {"torch_distributed": {"enabled": True}, "instance_groups": [named]}
    assert [group.role for group in as_groups([cpu, dnn], ours)] == [None, None]
    assert as_distribution(ours) == DataParallel(instance_groups=("y",))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(None, None, id="none"),
        pytest.param({}, None, id="empty"),
        pytest.param({"torch_distributed": {"enabled": True}}, DataParallel(), id="torchrun"),
        pytest.param({"torch_distributed": OFF}, None, id="torchrun, off"),
        pytest.param({"pytorchddp": {"enabled": True}}, DataParallel(), id="pytorchddp"),
        pytest.param({"smdistributed": {"dataparallel": OFF}}, None, id="smddp, off"),
        pytest.param({"mpi": True}, Mpi(), id="mpi, short"),
        pytest.param(
            {"mpi": {**ON, "processes_per_host": 8, "custom_mpi_options": None}},
            Mpi(processes_per_host=8),
            id="mpi without options",
        ),
        pytest.param(
            {"mpi": {**ON, "custom_mpi_options": "-verbose --NCCL_DEBUG WARN -x 'A=b c'"}},
            Mpi(custom_options=("-verbose", "-x", "NCCL_DEBUG=WARN", "-x", "A=b c")),
            id="mpi with options",
        ),
        pytest.param(
            DataParallel(processes_per_host=2), DataParallel(processes_per_host=2), id="ours"
        ),
    ],
)
def test_distributions(given, expected):
    assert as_distribution(given) == expected


@pytest.mark.parametrize(
    "strategies",
    [
        {"smdistributed": {"dataparallel": ON}},
        {"smdistributed": {"modelparallel": {**ON, "parameters": {"partitions": 2}}}, "mpi": ON},
        {"smdistributed": {"modelparallel": ON}, "torch_distributed": ON},
        {"parameter_server": ON},
        {"multi_worker_mirrored_strategy": ON},
        {"pytorchxla": ON},
    ],
    ids=lambda strategies: "+".join(strategies),
)
def test_libraries_of_aws_stay_as_they_are(strategies):
    assert as_distribution(strategies) == Toolkit(strategies=strategies)


@pytest.mark.parametrize(
    ("strategies", "expected"),
    [
        pytest.param({"smdistributed": {"dataparallel": ON}}, None, id="smddp"),
        pytest.param({"pytorchxla": ON}, None, id="pytorchxla"),
        pytest.param(
            {"parameter_server": ON}, ParameterServer(instance_groups=("y",)), id="parameter_server"
        ),
        pytest.param(
            {"multi_worker_mirrored_strategy": ON},
            MultiWorkerMirrored(instance_groups=("y",)),
            id="multi_worker_mirrored_strategy",
        ),
    ],
)
def test_strategies_that_aws_cannot_limit_to_a_group_are_started_by_launcher(strategies, expected):
    given = {**strategies, "instance_groups": ["y"]}
    assert as_distribution(given) == (expected or Toolkit(strategies=strategies))


@pytest.mark.parametrize(
    ("given", "what", "fix"),
    [
        pytest.param({"horovod": ON}, "'horovod' is not", "write one of torch", id="unknown"),
        pytest.param({"mpy": ON}, "'mpy' is not", 'did you mean "mpi"?', id="near"),
        pytest.param(
            {"mpi": ON, "torch_distributed": ON}, "two distributions", "keep one", id="two"
        ),
        pytest.param(
            {"jax": {}}, "is not a name of SDK v2's", r"write launcher.Jax(...)", id="as in YAML"
        ),
        pytest.param(
            {"mpi": {**ON, "custom_mpi_options": "-x 'A=b c"}},
            "cannot be split into words: No closing quotation",
            "write text",
            id="an open quotation",
        ),
        pytest.param(
            {"mpi": {**ON, "custom_mpi_options": ["-x", "A=b"]}},
            "which is not text",
            "write text",
            id="a list of words",
        ),
    ],
)
def test_a_distribution_that_cannot_be_is_refused(given, what, fix):
    with pytest.raises(SpecError, match=what) as caught:
        as_distribution(given)
    assert caught.value.problems[0].fix.startswith(fix)


def test_a_distribution_starts_on_a_group_of_the_job():
    with pytest.raises(SpecError, match="'dn', but the job has no such group") as caught:
        as_groups([foreign_group("dnn")], {"mpi": ON, "instance_groups": ["dn"]})
    assert caught.value.problems[0].fix == 'did you mean "dnn"?'


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(None, {}, id="none"),
        pytest.param("s3://b/x", {"training": TrainingInput("s3://b/x")}, id="a URI"),
        pytest.param({"a": "s3://b/x"}, {"a": TrainingInput("s3://b/x")}, id="by channel"),
        pytest.param(
            {"a": TrainingInput("s3://b/x", instance_groups=("g",))},
            {"a": TrainingInput("s3://b/x", instance_groups=("g",))},
            id="ours",
        ),
        pytest.param(
            foreign_input(S3DataDistributionType="ShardedByS3Key", InstanceGroupNames=["g"]),
            {"training": TrainingInput("s3://b/x", "ShardedByS3Key", instance_groups=("g",))},
            id="foreign",
        ),
    ],
)
def test_inputs(given, expected):
    assert as_inputs(given) == expected


@pytest.mark.parametrize(
    ("given", "fix"),
    [
        pytest.param(LocalSession, r"write LocalSession\(\), which makes a session", id="a class"),
        pytest.param(
            AwsSession, r"write AwsSession\(\), which makes a session", id="a class for AWS"
        ),
        pytest.param(boto3.Session(region_name="eu-west-1"), "AwsSession", id="of boto3"),
        pytest.param("local", "give LocalSession", id="a name"),
    ],
)
@pytest.mark.parametrize("instance_type", ["local", "ml.c5.large"])
def test_what_is_no_session_does_not_become_that_of_the_default_account(given, fix, instance_type):
    made = PyTorch("train.py", instance_type=instance_type, sagemaker_session=given)
    with pytest.raises(SpecError, match=fix) as caught:
        made.training_image_uri()
    assert caught.value.problems[0].where == "sagemaker_session"


@pytest.mark.parametrize(
    ("name", "value", "part"),
    [
        ("hyperparameters", {"epochs": 3}, ("HyperParameters", {"epochs": "3"})),
        ("enable_network_isolation", True, ("EnableNetworkIsolation", True)),
        ("enable_remote_debug", True, ("RemoteDebugConfig", {"EnableRemoteDebug": True})),
    ],
)
def test_arguments_that_are_methods_can_be_set(tmp_path, name, value, part):
    (tmp_path / "train.py").touch()
    session = MemorySession()
    made = PyTorch(
        tmp_path / "train.py",
        instance_type="ml.c5.large",
        hyperparameters={"old": 1},
        sagemaker_session=session,
    )
    setattr(made, name, value)
    assert made.request()[part[0]] == part[1]
    assert callable(getattr(made, name))
    setattr(made, name, None)
    assert part[0] not in made.request() or made.request()[part[0]] == {}


GROUPS = (InstanceGroup("data", "ml.c5.xlarge"), InstanceGroup("train", "ml.g5.xlarge"))


def test_groups_may_come_from_a_generator_or_alone():
    assert as_groups((group for group in GROUPS), None) == GROUPS
    assert as_groups(GROUPS[0], None) == GROUPS[:1]
    assert as_groups(foreign_group("data"), None)[0].instance_group_name == "data"
    lone = {"torch_distributed": {"enabled": True}, "instance_groups": GROUPS[1]}
    assert as_distribution(lone) == DataParallel(instance_groups=("train",))
    assert TrainingInput("s3://b/x", instance_groups=GROUPS[0]).instance_groups == ("data",)


def test_an_input_takes_none_for_its_defaults():
    """A function that passes its own optional arguments on gives SDK v2's None."""
    given = TrainingInput(
        "s3://b/x", None, s3_data_type=None, instance_groups=None, attribute_names=None
    )
    assert given == TrainingInput("s3://b/x")


@pytest.mark.parametrize("given", ["lib", Path("lib"), ["lib"], (Path("lib"),)], ids=repr)
def test_one_dependency_needs_no_list(given):
    assert PyTorch("train.py", dependencies=given).dependencies == ("lib",)


def test_rules_may_come_from_a_generator():
    profiler = SimpleNamespace(to_profiler_rule_config_dict=lambda: {"RuleConfigurationName": "b"})
    made = PyTorch("train.py", rules=(rule for rule in [{"RuleConfigurationName": "a"}, profiler]))
    assert made.rules == ({"RuleConfigurationName": "a"},)
    assert made.profiler_rules == ({"RuleConfigurationName": "b"},)


@pytest.mark.parametrize(
    "given", [None, Path("data"), ["s3://b/x"], {"s3_data": "s3://b/x"}, foreign_group()], ids=str
)
def test_what_is_no_input_is_refused_by_its_channel(given):
    with pytest.raises(SpecError, match="is not an input") as caught:
        as_inputs({"train": "s3://b/x", "extra": given})
    assert caught.value.problems[0].where == "inputs.extra"


@pytest.mark.parametrize(
    "given",
    [
        {"instance_group_name": "a", "instance_type": "local"},
        [foreign_group(), {"instance_group_name": "a", "instance_type": "local"}],
        ["a"],
    ],
    ids=["one mapping", "mapping", "name"],
)
def test_what_is_no_group_is_refused(given):
    with pytest.raises(SpecError, match="is not an instance group") as caught:
        PyTorch("train.py", instance_groups=given)
    assert caught.value.problems[0].where == "instance_groups"


@pytest.mark.parametrize("name", ["environment", "secrets", "tags", "inputs"])
@pytest.mark.parametrize("given", [["A=b"], "A=b", [{"Name": "A", "Value": "b"}]], ids=str)
def test_what_is_no_mapping_is_refused_with_its_field(name, given):
    job = JobSpec(entry_point="a.py", instance_type="local", **{name: given})
    with pytest.raises(SpecError, match="is not a mapping") as caught:
        refuse_wrong_types(job)
    assert caught.value.problems[0].where == name


@pytest.mark.parametrize("given", [[{"key": "team", "value": "x"}], "team=x", [("team", "x")]])
def test_what_are_no_tags_are_refused(given):
    with pytest.raises(SpecError, match="are not tags"):
        PyTorch("train.py", tags=given)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("output_path", Path("results")),
        ("checkpoint_s3_uri", Path("checkpoints")),
        ("model_uri", 3),
        ("base_job_name", 3),
        ("role", Path("role")),
        ("profiler_config", False),
        ("tensorboard_output_config", "s3://b/x"),
        ("rules", "LossNotDecreasing"),
    ],
)
def test_a_value_of_another_type_is_refused_with_the_other_problems(name, value):
    made = PyTorch("train.py", instance_type="local", volume_size=0, **{name: value})
    with pytest.raises(SpecError) as caught:
        made.request()
    wheres = [problem.where for problem in caught.value.problems]
    assert "volume_size" in wheres
    assert any(where.startswith(name) for where in wheres)
