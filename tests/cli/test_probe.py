"""launcher probe: what this machine answers is pinned in probe/local.json, for each isolation.

The machine's own answers (CPUs, memory, limits) are not: they differ. After a change that is meant,
UPDATE_GOLDEN=1 pytest tests/cli/test_probe.py writes the file anew.
"""

import json
import os
import re
import socket
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import boto3
import pytest
from botocore.stub import Stubber

from launcher.client import catalogue
from launcher.client.probe import probe_spec, program, redacted
from launcher.client.sessions import obstacles

PINNED = Path(__file__).parent / "probe" / "local.json"
PLACES = (
    "--role=arn:aws:iam::111122223333:role/Training",
    "--image=111122223333.dkr.ecr.us-east-1.amazonaws.com/image:1",
    "--output=s3://my-bucket/probe",
)


@pytest.fixture(scope="module")
def probed(tmp_path_factory):
    """One real run in every isolation that works here: the process, its file, its home."""
    folder = tmp_path_factory.mktemp("probe")
    run = subprocess.run(
        [sys.executable, "-m", "launcher", "probe", "--local"],
        cwd=folder,
        env={**os.environ, "LAUNCHER_HOME": str(folder / "home"), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run, json.loads((folder / "probe-local.json").read_text()), folder / "home"


@pytest.fixture(scope="module")
def normalised(probed):
    """The answers of each isolation, without what differs from run to run and by machine."""
    _, found, home = probed
    answers = {isolation: _normalised(given, home) for isolation, given in found.items()}
    if os.environ.get("UPDATE_GOLDEN"):
        pinned = {**json.loads(PINNED.read_text()), **answers}
        PINNED.write_text(json.dumps(pinned, indent=1, sort_keys=True) + "\n")
    return answers


def _normalised(given, home):
    met = {name: host["platform"]["meeting"] for name, host in given["hosts"].items()}
    bound = [meeting.pop("bound_wildcard_port") for meeting in met.values()]
    for meeting in met.values():
        meeting.pop("seconds_until_met", None)
    answers = {
        "job": given["job"],
        "every_host_bound_the_same_port": all(bound),
        "hosts": {
            name: {"group": host["group"], **host["platform"]}
            for name, host in given["hosts"].items()
        },
    }
    environment = next(iter(given["hosts"].values()))["platform"]["environment"]
    text = json.dumps(answers)
    for pattern, word in (
        (re.escape(str(home)), "<home>"),
        (re.escape(str(Path(sys.executable).parent)), "<python>"),
        (r"launcher-probe-\d{8}-\d{6}-[0-9a-f]{10}", "<job>"),
        (r"127\.\d+\.0\.(\d)", r"127.<slot>.0.\1"),
        (f'"{environment.get("LAUNCHER_PORT_BASE", "has none")}"', '"<port base>"'),
        (f'("LAUNCHER_HOST_CPUS": )"{environment["LAUNCHER_HOST_CPUS"]}"', r'\1"<share>"'),
        (f'("hostname": )"{re.escape(socket.gethostname())}"', r'\1"<this machine>"'),
        (r'"/[^"]*/launcher-[^/"]+/(algo-\d)', r'"<scratch>/\1'),
    ):
        text = re.sub(pattern, word, text)
    return json.loads(text)


@pytest.mark.long
@pytest.mark.parametrize("isolation", ["process", "sandbox", "network"])
def test_the_answers_are_those_that_are_pinned(normalised, isolation):
    if isolation not in normalised:
        pytest.skip("it does not work on this machine")
    assert normalised[isolation] == json.loads(PINNED.read_text())[isolation]


@pytest.mark.long
def test_every_isolation_that_works_is_asked(probed):
    working = [kind.value for kind, obstacle in obstacles().items() if obstacle is None]
    assert sorted(probed[1]) == sorted(working)


@pytest.mark.long
def test_every_question_has_an_answer_of_each_isolation(probed):
    run, found, _ = probed
    blocks = [block.splitlines() for block in run.stdout.strip().split("\n\n")]
    assert len(blocks) >= 15
    for question, *lines in blocks:
        assert question.endswith("?") or question.endswith(")?")
        givers = [
            word for line in lines for word in line.split("  ")[1].strip().replace(",", "").split()
        ]
        assert sorted(givers) == sorted(found), question


@pytest.mark.long
def test_the_machine_is_described(probed):
    for given in probed[1].values():
        for host in given["hosts"].values():
            machine = host["machine"]
            assert machine["python"] == ".".join(map(str, sys.version_info[:3]))
            assert machine["cpus"]["ours"] == len(os.sched_getaffinity(0))
            assert machine["memory"] > 0
            assert machine["disk"]["free"] <= machine["disk"]["total"]


@pytest.mark.long
def test_no_secret_is_in_the_answers(probed):
    _, found, home = probed
    for given in found.values():
        for host in given["hosts"].values():
            assert host["platform"]["environment"]["LAUNCHER_TOKEN"] == "<redacted>"
            assert ":<account>:" in host["platform"]["environment"]["TRAINING_JOB_ARN"]
    requests = [json.loads(path.read_text()) for path in home.glob("jobs/*/request.json")]
    tokens = {request["Environment"]["LAUNCHER_TOKEN"] for request in requests}
    assert len(tokens) == len(found)
    assert not [token for token in tokens if token in json.dumps(found)]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        pytest.param({"API_KEY": "x", "a": "y"}, {"API_KEY": "<redacted>", "a": "y"}, id="name"),
        pytest.param({"my_password": ["x"]}, {"my_password": "<redacted>"}, id="list"),
        pytest.param(
            {"SM_ENV": '{"auth_token": "x", "b": 1}'},
            {"SM_ENV": '{"auth_token": "<redacted>", "b": 1}'},
            id="JSON in a text",
        ),
        pytest.param({"A": "{no"}, {"A": "{no"}, id="not JSON"),
        pytest.param(["arn:aws:x:111122223333:y"], ["arn:aws:x:<account>:y"], id="account"),
        pytest.param({"n": 111122223333}, {"n": 111122223333}, id="a number is no account"),
    ],
)
def test_secrets_are_known_by_their_names(given, shown):
    assert redacted(given) == shown


def test_the_types_are_the_cheapest_of_the_catalogue():
    found = (catalogue.PriceList().find(name, "us-east-1") for name in catalogue.instance_types())
    prices = {price.instance_type: price.per_hour for price in found if price and price.per_hour}
    types = {group.instance_type for group in probe_spec({}).groups}
    assert types == {min(prices, key=prices.get)}


def test_the_request_for_aws_is_one_that_boto_accepts(terminal):
    result = terminal("probe", "--dry-run", *PLACES)
    assert result.exit_code == 0, result.stderr
    request = json.loads(result.stdout)
    client = boto3.client(
        "sagemaker", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x"
    )
    with Stubber(client) as stub:  # it holds the request against AWS's own model
        stub.add_response("create_training_job", {"TrainingJobArn": "arn:" + "x" * 20}, request)
        client.create_training_job(**request)
    groups = request["ResourceConfig"]["InstanceGroups"]
    assert [(group["InstanceGroupName"], group["InstanceCount"]) for group in groups] == [
        ("main_group", 1),
        ("helper_group", 1),
    ]
    assert request["RoleArn"] == "arn:aws:iam::111122223333:role/Training"
    name = request["TrainingJobName"]
    sources = {
        channel["ChannelName"]: channel["DataSource"]["S3DataSource"]
        for channel in request["InputDataConfig"]
    }
    assert set(sources) == {"for_main", "for_helper", "for_both", "sharded", "code"}
    assert all(
        source["S3Uri"].startswith(f"s3://my-bucket/probe/{name}/") for source in sources.values()
    )
    assert all(source["InstanceGroupNames"] for source in sources.values())
    assert request["Environment"] == {"LAUNCHER_TOKEN": "<redacted>"}
    assert not terminal.home.exists()


@pytest.mark.parametrize(
    "changed", ["--role=Training", "--image=", "--output=file:///tmp/probe", None]
)
def test_what_the_request_needs_is_reported(terminal, changed):
    option = changed and changed.partition("=")[0]
    given = [place for place in PLACES if option and not place.startswith(option)]
    result = terminal("probe", "--dry-run", *given, *([changed] if changed else []))
    assert result.exit_code == 2
    assert result.stdout == ""
    for expected in [option] if option else ["--role", "--image", "--output"]:
        assert f"where: {expected}" in result.stderr


def test_aws_is_not_asked_by_this_version(terminal):
    result = terminal("probe")
    assert result.exit_code == 4
    assert "--local" in result.stderr


def test_the_program_is_the_same_whenever_it_is_made():
    assert program() == program()
    with zipfile.ZipFile(BytesIO(program())) as archive:
        assert {"__main__.py", "inside/host.py"} <= set(archive.namelist())
