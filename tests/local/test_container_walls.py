"""What the programs of a container cannot do to this machine: the rows of SECURITY.md."""

import json
import os
import socket

import pytest
from bench import channel
from needs import skip_without_isolation
from waiting import wait_until

from launcher import Job
from launcher.client.sessions import LocalSession

IMAGE = "localhost/launcher-numpy:1"
pytestmark = pytest.mark.library("containers")

#: Prints what it finds as JSON, then listens on all its addresses until it is told to end.
LOOKS = """
import json, os, socket, time
from pathlib import Path

def tried(action):
    try:
        action()
    except OSError as error:
        return os.strerror(error.errno) if error.errno else str(error)
    return "done"

def connect(address):
    socket.create_connection((address, int(os.environ["PORT"])), timeout=5).close()

data = Path("/opt/ml/input/data/numbers")
routes = [line.split() for line in Path("/proc/net/route").read_text().splitlines()[1:]]
gateways = [bytes.fromhex(gate)[::-1] for _, to, gate, *_ in routes if to == "00000000"]
addresses = ["127.0.0.1", "host.containers.internal", *map(socket.inet_ntoa, gateways)]
mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
listener = socket.create_server(("0.0.0.0", 0))
print(json.dumps({
    "reached": {each: tried(lambda: connect(each)) for each in addresses},
    "environment": dict(os.environ),
    "shown": [each[4] for each in mounts if os.environ["MACHINE"] in each[3]],
    "seen": [each for each in json.loads(os.environ["FILES"]) if os.path.lexists(each)],
    "written": [
        tried(lambda: (data / "new").write_text("x")),
        tried(lambda: (data / "one").write_text("x")),
        tried(lambda: (data / "one").unlink()),
        tried(lambda: os.chmod(data / "one", 0o777)),
    ],
    "port": listener.getsockname()[1],
}), flush=True)
while not Path("/opt/ml/model/end").exists():
    time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def walls(tmp_path_factory):
    """What a program found in a container, and this machine while it ran."""
    skip_without_isolation("container")
    folder = tmp_path_factory.mktemp("machine")
    for name in ("code", "numbers", ".aws"):
        (folder / name).mkdir()
    (folder / "code/look.py").write_text(LOOKS)
    (folder / "numbers/one").write_text("1")
    (folder / ".aws/credentials").write_text("[default]\naws_secret_access_key = of-a-file\n")
    files = [str(folder), "/var/run/docker.sock", "/run/podman/podman.sock", os.environ["HOME"]]
    given = {
        "AWS_ACCESS_KEY_ID": "of-the-environment",
        "AWS_SECRET_ACCESS_KEY": "of-the-environment",
        "AWS_SHARED_CREDENTIALS_FILE": str(folder / ".aws/credentials"),
        "HTTPS_PROXY": "http://user:of-a-proxy@localhost:1",
    }
    with pytest.MonkeyPatch.context() as patch, socket.create_server(("127.0.0.1", 0)) as server:
        for name, value in given.items():
            patch.setenv(name, value)
        session = LocalSession(folder / "home", "container", engine="podman", image=IMAGE)
        session.create_training_job(
            TrainingJobName="job",
            RoleArn="arn:aws:iam::000000000000:role/local",
            AlgorithmSpecification={
                "TrainingImage": IMAGE,
                "TrainingInputMode": "File",
                "ContainerEntrypoint": ["python3", "/opt/ml/input/data/code/look.py"],
            },
            InputDataConfig=[
                channel(name, f"file://{folder}/{name}") for name in ("code", "numbers")
            ],
            OutputDataConfig={"S3OutputPath": f"file://{folder}/output"},
            ResourceConfig={
                "VolumeSizeInGB": 1,
                "InstanceType": "ml.c5.xlarge",
                "InstanceCount": 1,
            },
            StoppingCondition={"MaxRuntimeInSeconds": 300},
            Environment={
                "PORT": str(server.getsockname()[1]),
                "MACHINE": str(folder),
                "FILES": json.dumps(files),
            },
        )
        job = Job("job", session)
        wait_until(lambda: any('"reached"' in line.text for line in job.logs()))
        (line,) = [line.text for line in job.logs() if '"reached"' in line.text]
        found = json.loads(line)
        with socket.socket() as probe:
            found["own port"] = probe.connect_ex(("127.0.0.1", found["port"]))
        end = folder / "home/jobs/job/hosts/algo-1/ml/model/end"
        end.touch()
        job.wait()
        found["one"] = (folder / "numbers/one").read_text()
    return found


def test_no_port_of_a_container_is_published(walls):
    assert walls["own port"] != 0


def test_the_loopback_of_this_machine_is_out_of_reach(walls):
    assert len(walls["reached"]) == 3, "its own loopback, the gateway, and Podman's name for it"
    assert "done" not in walls["reached"].values()


def test_hosts_see_no_credentials_and_no_proxy(walls):
    assert not [name for name in walls["environment"] if "KEY" in name or "PROXY" in name.upper()]
    assert "of-a" not in json.dumps(walls["environment"])


def test_channels_are_read_only(walls):
    assert walls["written"] == ["Read-only file system"] * 4
    assert walls["one"] == "1"


def test_nothing_of_this_machine_but_opt_ml_is_shown(walls):
    assert set(walls["shown"]) == {
        "/opt/ml",
        "/opt/ml/input/data/code",
        "/opt/ml/input/data/numbers",
    }
    image_has = {os.environ["HOME"]} if os.environ["HOME"] == "/root" else set()
    assert set(walls["seen"]) <= image_has, "neither the sockets of engines"
