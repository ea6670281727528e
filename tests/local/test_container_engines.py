"""What is said to Docker and to Podman: one job with each, whose program only writes it down.

recorded/ has the options that the programs list, by `--help`. No daemon of Docker was asked.
"""

import os
from pathlib import Path

import pytest
from fake_engine import INSPECTED, FakeEngine
from waiting import wait_until

from launcher import Job
from launcher.client.sessions import LocalSession
from launcher.errors import PlatformError

RECORDED = Path(__file__).parent / "recorded"
GPU_IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.6.0-gpu-py312-cu126"
VERBS = {
    *("exec", "image inspect", "info", "inspect", "kill", "login", "network create"),
    *("network inspect", "network ls", "network rm", "ps", "pull", "rm", "run", "version"),
}


def create_job(tmp_path, engine, machine="local", environment=None, **options):
    session = LocalSession(
        tmp_path / "home", "container", engine=str(engine.program), image="own:1", **options
    )
    groups = [{"InstanceGroupName": "train", "InstanceType": machine, "InstanceCount": 2}]
    session.create_training_job(
        TrainingJobName="job",
        RoleArn="arn:aws:iam::000000000000:role/local",
        AlgorithmSpecification={"TrainingImage": GPU_IMAGE, "TrainingInputMode": "File"},
        OutputDataConfig={"S3OutputPath": f"file://{tmp_path}/output"},
        ResourceConfig={"VolumeSizeInGB": 1, "InstanceGroups": groups},
        StoppingCondition={"MaxRuntimeInSeconds": 60},
        Environment=environment or {},
    )
    return session


def run_job(tmp_path, engine, **options):
    session = create_job(tmp_path, engine, **options)
    Job("job", session).wait()
    return session.describe_training_job(TrainingJobName="job")


def wrong_options(engine, kind):
    """The options that a program was given and does not list, by verb."""
    listed = listed_options(kind)
    assert set(listed) == VERBS
    for words in engine.calls():
        verb = next(verb for verb in VERBS if words[: len(verb.split())] == verb.split())
        end = next((at for at, word in enumerate(words) if word in ("own:1", "sh")), None)
        given = {word.partition("=")[0] for word in words[:end] if word.startswith("--")}
        yield from ((verb, option) for option in given - listed[verb])


def listed_options(kind):
    """The options of each verb, as an engine's program lists them."""
    (file,) = RECORDED.glob(f"{kind}-*.txt")
    options, verb = {}, ""
    for line in file.read_text().splitlines():
        if line.startswith("$"):
            verb = line.removeprefix(f"$ {kind} ").removesuffix(" --help")
            options[verb] = {"--help"}
        else:
            options[verb] |= {word.strip(",") for word in line.split() if word.startswith("-")}
    return options


@pytest.fixture(params=INSPECTED)
def kind(request):
    return request.param


def test_every_option_is_one_that_the_engine_lists(tmp_path, kind):
    engine = FakeEngine(tmp_path, kind)
    described = run_job(tmp_path, engine, host_memory="1g")
    assert described["TrainingJobStatus"] == "Completed"
    assert described["LocalImage"] == {"Name": "own:1", "Digest": f"sha256:{'b' * 64}"}
    assert not list(wrong_options(engine, kind))
    assert [words[-2:] for words in engine.calls("run")] == [["own:1", "train"]] * 2
    assert all("--pull=never" in words for words in engine.calls("run"))
    assert not engine.calls("pull"), "the image is present"


def test_an_image_is_pulled_entered_and_stopped(tmp_path, kind):
    engine = FakeEngine(tmp_path, kind, run=None, present=False)
    session = create_job(tmp_path, engine)
    started = tmp_path / "home/jobs/job/hosts/algo-2/process.json"
    wait_until(started.exists)
    assert session.run_in_host("job", "algo-2", ["sh", "-c", "ls"]) == 0
    session.stop_training_job(TrainingJobName="job")
    Job("job", session).wait()
    assert not list(wrong_options(engine, kind))
    assert session.describe_training_job(TrainingJobName="job")["TrainingJobStatus"] == "Stopped"
    (pull,) = engine.calls("pull")
    assert pull[-1] == "own:1"
    (entered,) = engine.calls("exec")
    assert entered[-3:] == ["sh", "-c", "ls"]
    signals = {tuple(words[1:3]) for words in engine.calls("kill")}
    assert signals == {("--signal", "TERM")}
    names = {words[words.index("--name") + 1] for words in engine.calls("run")}
    assert {words[-1] for words in engine.calls("kill")} <= names


NO_PROXIES = {
    f"--env={name}="
    for kind in ("all", "ftp", "http", "https", "no")
    for name in (f"{kind}_proxy", f"{kind}_proxy".upper())
}
#: The table of `container_engine`: words of a verb that only one of the two has.
ROWS = {
    "docker": {"run": NO_PROXIES, "rm": ["rm", "--force", "--volumes"]},
    "podman": {"run": {"--http-proxy=false"}, "rm": ["rm", "--force", "--time=0", "--volumes"]},
}


def test_what_differs_between_the_engines(tmp_path, kind):
    engine = FakeEngine(tmp_path, kind)
    run_job(tmp_path, engine)
    for words in engine.calls("run"):
        assert {word for word in words if "proxy" in word.lower()} == ROWS[kind]["run"]
    assert len(engine.calls("rm")) == 2
    for words in engine.calls("rm"):
        assert words[: len(ROWS[kind]["rm"])] == ROWS[kind]["rm"]


@pytest.mark.parametrize(
    ("kind", "gpus"),
    [("docker", ["--gpus", "all"]), ("podman", ["--device", "nvidia.com/gpu=all"])],
)
def test_all_gpus_are_given_by_the_engines_own_option(tmp_path, kind, gpus, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    engine = FakeEngine(tmp_path, kind)
    run_job(tmp_path, engine, machine="local_gpu")
    for words in engine.calls("run"):
        assert words[words.index(gpus[0]) :][:2] == gpus


def test_ports_are_published_by_no_option(tmp_path, kind):
    """Nor is a host given the network of this machine, a device, rights or more of its files."""
    engine = FakeEngine(tmp_path, kind)
    run_job(tmp_path, engine)
    for words in engine.calls("run"):
        networks = [words[at + 1] for at, word in enumerate(words) if word == "--network"]
        (created,) = engine.calls("network create")
        assert networks == [created[-1]]
        assert not {"--publish", "-p", "-P", "--privileged", "--device", "--cap-add"} & {*words}
        shown = [words[at + 1] for at, word in enumerate(words) if word in ("--volume", "--mount")]
        assert [each.partition(":")[2] for each in shown] == ["/opt/ml"]


def test_variables_of_a_job_are_given_by_name_alone(tmp_path, kind):
    """Other users can read a command line."""
    keys = {"GOOGLE_API_KEY": "of-google", "WANDB_API_KEY": "of-wandb"}
    engine = FakeEngine(tmp_path, kind)
    run_job(tmp_path, engine, environment=keys)
    for words in engine.calls("run"):
        assert keys.keys() <= {*words}
        assert not [word for word in words if any(value in word for value in keys.values())]


@pytest.mark.parametrize("code", [125, 126, 127])
def test_a_container_that_does_not_start_fails_with_the_engines_words(tmp_path, kind, code):
    engine = FakeEngine(tmp_path, kind, run=f"echo no such program >&2; exit {code}")
    engine.program.write_text(engine.program.read_text().replace("echo exited", "echo created"))
    described = run_job(tmp_path, engine)
    assert described["TrainingJobStatus"] == "Failed"
    assert "its container did not start: no such program" in described["FailureReason"]


def test_an_engine_that_does_not_answer_is_named(tmp_path, kind):
    """As a `docker` client without its daemon does."""
    engine = FakeEngine(tmp_path, kind)
    engine.program.write_text("#!/bin/sh\necho Cannot connect to the Docker daemon >&2; exit 1\n")
    with pytest.raises(PlatformError, match=f"{kind} does not answer: Cannot connect"):
        run_job(tmp_path, engine)


#: By engine and whether it is rootless: the options for an image whose user is not root.
USERS = {
    ("docker", False): ["--user", "0:0"],
    ("docker", True): ["--user", "0:0"],
    ("podman", False): ["--user", "0:0"],
    ("podman", True): ["--userns", "keep-id:uid=1234,gid=1235"],
}


@pytest.mark.parametrize(("kind", "rootless"), USERS)
def test_any_user_of_an_image_can_write_into_opt_ml(tmp_path, kind, rootless):
    engine = FakeEngine(tmp_path, kind, image={"Config": {"User": "app"}}, rootless=rootless)
    described = run_job(tmp_path, engine)
    options = USERS[kind, rootless]
    runs = [words for words in engine.calls("run") if "--label" in words]
    assert [words[words.index(options[0]) :][:2] for words in runs] == [options] * 2
    is_told = "not as the image's user app" in " ".join(described["LocalNotes"])
    assert is_told == (options[0] == "--user")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")
@pytest.mark.parametrize("rootless", [False, True])
def test_what_a_container_wrote_becomes_the_users(tmp_path, kind, rootless):
    """By `chown` in a container, whose root may do it; not a file that the user's data may be."""
    hosts = tmp_path / "home/jobs/job/hosts/algo-1/ml"
    data = tmp_path / "data"
    data.touch()
    os.chown(data, 1234, 1234)
    made = f"mkdir -p {hosts}/model/a/b && ln -f {data} {hosts}/linked && touch {hosts}/new"
    run = f"{made} && chown -R 1234 {hosts}/model/a {hosts}/new"
    engine = FakeEngine(tmp_path, kind, run=run, rootless=rootless)
    run_job(tmp_path, engine)
    (words,) = [words for words in engine.calls("run") if "chown" in words]
    image = words.index("own:1")
    assert words[image + 1 : image + 4] == ["-hR", "0:0", "--"]
    assert set(words[image + 4 :]) == {"/opt/ml/model/a", "/opt/ml/new"}
    assert words[words.index("--volume") + 1] == f"{hosts}:/opt/ml"
    assert words[words.index("--network") + 1] == "none"
