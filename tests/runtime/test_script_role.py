"""Script groups: the entry point on every host, which looks at its environment and decides."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable

import pytest
from hosts import Host, Hosts
from waiting import wait_until

from launcher.shared import JobDocument, Launch, Lifetime, Ready, Role, ScriptPart, TrainerPart

MakeJob = Callable[..., Hosts]
SLOW = pytest.mark.slow

#: Prints what AWS's scripts look at.
SHOW = """
import json, os, sys
names = ("SM_CURRENT_HOST", "SM_CURRENT_INSTANCE_GROUP", "SM_DISTRIBUTION_INSTANCE_GROUPS",
         "RANK", "WORLD_SIZE", "LOCAL_RANK")
found = {name: os.environ[name] for name in names if name in os.environ}
env = json.loads(os.environ["SM_TRAINING_ENV"])
found |= {name: env[name] for name in ("is_master", "master_hostname", "distribution_hosts")}
print("FOUND", json.dumps({**found, "arguments": sys.argv[1:]}), flush=True)
"""
#: Waits for a file beside the script, in the group of that name.
PATIENT = """
import os, pathlib, sys, time
print("running", flush=True)
if os.environ["SM_CURRENT_INSTANCE_GROUP"] == "{group}":
    while not pathlib.Path("enough").exists():
        time.sleep(0.02)
    {ending}
"""


@pytest.fixture
def make_job(make_cluster: MakeJob) -> MakeJob:
    """Makes a cluster of `data` hosts (algo-1...) and then `dnn` hosts, all with the script."""

    def make(
        script: str,
        *,
        data: int = 1,
        dnn: int = 1,
        launch: str = Launch.PYTHON,
        leading: str = "dnn_group",
        processes: int = 1,
        lifetime: Lifetime = Lifetime.OWN,
        ready: Ready | None = None,
        **options: object,
    ) -> Hosts:
        document = JobDocument(
            roles={"data_group": Role.SCRIPT, "dnn_group": Role.SCRIPT},
            trainer=TrainerPart(
                entry_point="train.py",
                launch=launch,
                processes_per_host=processes,
                group=leading,
            ),
            scripts={
                "data_group": ScriptPart(lifetime=lifetime, ready=ready, dollars_per_hour=0.25),
                "dnn_group": ScriptPart(),
            },
            start_timeout=60.0,
        )
        groups = {"data_group": data, "dnn_group": dnn}
        files = {"train.py": script}
        return make_cluster(document, groups, files, **options)

    return make


def found(hosts: Hosts) -> list[dict[str, object]]:
    lines = hosts.output().splitlines()
    return [json.loads(line.removeprefix("FOUND ")) for line in lines if line[:6] == "FOUND "]


def finish(hosts: Hosts, *names: str) -> None:
    for name in names:
        (hosts[name].paths.code / "enough").touch()


def test_the_script_runs_once_on_every_host_with_its_arguments(make_job: MakeJob) -> None:
    hosts = make_job(SHOW, data=2, dnn=2, hyperparameters={"epochs": 3})
    hosts.run()
    reports = found(hosts)
    assert [each["SM_CURRENT_HOST"] for each in reports] == list(hosts.hosts)
    for each in reports:
        assert each["arguments"] == ["--epochs", "3"]
        assert not {"RANK", "WORLD_SIZE", "LOCAL_RANK"} & each.keys()
        # as the toolkit has it in a job without a distribution
        assert each["SM_DISTRIBUTION_INSTANCE_GROUPS"] == "[]"
        assert each["distribution_hosts"] == []
        assert each["master_hostname"] == "algo-1"
        assert each["is_master"] == (each["SM_CURRENT_HOST"] == "algo-1")


def test_a_script_reads_the_toolkits_environment(make_job: MakeJob) -> None:
    """The toolkit itself where it is installed, else what stands in for it; in its children too."""
    show = """
import json, os, subprocess, sys
import sagemaker_training.environment
from sagemaker_training import environment
from sagemaker_training.environment import Environment
env = Environment()
assert isinstance(env, environment.Environment)
if "child" not in sys.argv:
    sys.exit(subprocess.run(["python", __file__, "child"]).returncode)
told = json.loads(os.environ["SM_TRAINING_ENV"])
names = ("hosts", "is_hetero", "current_instance_group", "instance_groups_dict", "is_master")
print("FOUND", json.dumps({name: [getattr(env, name), env[name], told[name]] for name in names}))
try:
    print(env.is_the_best)
except AttributeError:
    print("no such property", env.to_cmd_args(), env.to_env_vars()["SM_CURRENT_HOST"])
"""
    hosts = make_job(show, hyperparameters={"epochs": 3})
    hosts.run()
    for values in (value for report in found(hosts) for value in report.values()):
        assert values == [values[0]] * 3
    for host in ("algo-1", "algo-2"):
        assert f"no such property ['--epochs', '3'] {host}" in hosts[host].output


@pytest.mark.long
def test_torchrun_starts_ranks_on_its_group_and_plain_python_elsewhere(make_job: MakeJob) -> None:
    pytest.importorskip("torch")
    hosts = make_job(SHOW, dnn=2, launch=Launch.TORCHRUN, processes=2)
    hosts.run()
    reports = found(hosts)
    assert sorted(str(each.get("RANK")) for each in reports) == ["0", "1", "2", "3", "None"]
    for each in reports:
        assert ("RANK" in each) == (each["SM_CURRENT_INSTANCE_GROUP"] == "dnn_group")
        assert each["SM_DISTRIBUTION_INSTANCE_GROUPS"] == '["dnn_group"]'
        assert each["distribution_hosts"] == ["algo-2", "algo-3"]
        assert each["is_master"] == (each["SM_CURRENT_HOST"] == "algo-2")


@pytest.mark.long
@pytest.mark.parametrize(
    ("ending", "cause"),
    [
        pytest.param("raise KeyError('word')", "KeyError: 'word'", id="exception"),
        pytest.param("sys.exit(3)", "the script called sys.exit(3)", id="exit code"),
        pytest.param("os._exit(7)", "the script ended before training did: exit code 7", id="bare"),
    ],
)
@pytest.mark.parametrize("lifetime", list(Lifetime))
def test_the_first_failure_fails_the_job(
    make_job: MakeJob, ending: str, cause: str, lifetime: Lifetime
) -> None:
    hosts = make_job(
        PATIENT.format(group="data_group", ending=ending) + "time.sleep(1000)", lifetime=lifetime
    )
    hosts.start()
    hosts.await_output("running", *hosts.hosts)
    finish(hosts, "algo-1")
    assert hosts.wait() == {"algo-1": 1, "algo-2": 1}, hosts.output()
    assert (hosts["algo-1"].failure or "").startswith(f"host algo-1 (data_group): {cause}")
    assert hosts["algo-2"].failure is None
    assert hosts.processes() == []


@pytest.mark.long
def test_every_hosts_own_exit_is_awaited_and_waiting_hosts_are_named(make_job: MakeJob) -> None:
    hosts = make_job(PATIENT.format(group="data_group", ending="pass"), data=2, leading="dnn_group")
    shorten(hosts, "wait_notice._NOTICE_INTERVAL", 0.3)
    hosts.start()
    wait_until(lambda: len(hosts["algo-3"].events("waiting_for_hosts")) >= 3)
    event = hosts["algo-3"].events("waiting_for_hosts")[0]
    assert event | {"minutes": 0} == event
    assert event["waits_for"] == "algo-1,algo-2"
    assert (event["in_group"], event["ended_group"]) == ("data_group", "dnn_group")
    assert (event["instance_type"], event["dollars_per_hour"]) == ("local", 0.5)
    finish(hosts, "algo-1")
    wait_until(lambda: hosts["algo-3"].events("waiting_for_hosts")[-1]["waits_for"] == "algo-2")
    finish(hosts, "algo-2")
    assert set(hosts.wait().values()) == {0}, hosts.output()


def shorten(hosts: Hosts, name: str, seconds: float) -> None:
    """Set a constant of the job world that every host of the job runs."""
    module = name.split(".")[0]
    for host in hosts.hosts.values():
        script = host.paths.channels / "code" / "launch.py"
        patch = f"    from launcher.runtime import {module}\n\n    {name} = {seconds}\n"
        line = "    return run(ROOT)\n"
        assert line in script.read_text()
        script.write_text(script.read_text().replace(line, patch + line))


def test_a_helper_group_ends_with_training(make_job: MakeJob) -> None:
    hosts = make_job(
        PATIENT.format(group="data_group", ending="pass"), data=2, lifetime=Lifetime.TRAIN
    )
    hosts.run()
    assert not hosts["algo-3"].events("waiting_for_hosts")
    assert hosts.processes() == []


@pytest.mark.long
@pytest.mark.parametrize("lifetime", list(Lifetime))
def test_a_helper_group_may_end_itself_before_training(
    make_job: MakeJob, lifetime: Lifetime
) -> None:
    """As where the script uses a shutdown port, at any moment of its last seconds."""
    hosts = make_job(PATIENT.format(group="dnn_group", ending="pass"), data=2, lifetime=lifetime)
    hosts.start()
    for name in ("algo-1", "algo-2"):
        wait_until(lambda name=name: hosts[name].events("script_ended"))
    finish(hosts, "algo-3")
    assert set(hosts.wait().values()) == {0}, hosts.output()


RUN_ON = "import time\nprint('running', flush=True)\ntime.sleep(1000)"


def start_all(hosts: Hosts) -> Hosts:
    """Start a job, and wait until its leader knows of every running host."""
    hosts.start()
    hosts.await_output("running", *hosts.hosts)
    leader = next(host for host in hosts.hosts.values() if host.events("host_joined"))
    wait_until(lambda: len(leader.events("host_joined")) == len(hosts.hosts))
    return hosts


def script_of(host: Host) -> int:
    """The process of a host's script."""
    (event,) = host.events("script_started")
    return int(str(event["pid"]))


@pytest.mark.long
@pytest.mark.parametrize(
    ("victim", "lifetime"),
    [
        pytest.param("algo-1", Lifetime.OWN, id="data host"),
        pytest.param("algo-1", Lifetime.TRAIN, id="helper"),
        pytest.param("algo-2", Lifetime.TRAIN, id="trainer beside a helper"),
        pytest.param("algo-2", Lifetime.OWN, id="trainer", marks=SLOW),
    ],
)
def test_a_killed_script_fails_the_job(make_job: MakeJob, victim: str, lifetime: Lifetime) -> None:
    hosts = start_all(make_job(RUN_ON, lifetime=lifetime))
    os.kill(script_of(hosts[victim]), signal.SIGKILL)
    (other,) = hosts.hosts.keys() - {victim}
    # a helper that is ended with training has not failed
    is_helper = other == "algo-1" and lifetime is Lifetime.TRAIN
    assert hosts.wait() == {victim: 1, other: 0 if is_helper else 1}, hosts.output()
    group = {"algo-1": "data_group", "algo-2": "dnn_group"}[victim]
    reason = f"host {victim} ({group}): the script ended before training did: killed by SIGKILL"
    assert (hosts[victim].failure or "").startswith(reason)
    assert hosts[other].failure is None
    assert hosts.processes() == []


@pytest.mark.long
@pytest.mark.parametrize("victim", ["algo-1", "algo-2"], ids=["data host", "leader"])
def test_a_killed_host_fails_the_job(make_job: MakeJob, victim: str) -> None:
    hosts = start_all(make_job(RUN_ON))
    hosts.kill(victim)
    (other,) = hosts.hosts.keys() - {victim}
    assert hosts[other].wait() == 1
    assert "the host died" in hosts[other].output or "leader" in hosts[other].output
    assert hosts.processes() == []


@pytest.mark.long
@pytest.mark.parametrize("lifetime", [Lifetime.TRAIN, pytest.param(Lifetime.OWN, marks=SLOW)])
@pytest.mark.parametrize(
    ("ending", "says"),
    [
        pytest.param("sys.exit()", "ended before it was ready: exit code 0", id="with 0"),
        pytest.param("os._exit(4)", "ended before it was ready: exit code 4", id="with 4"),
        pytest.param("time.sleep(1000)", "was not ready within 1 s: it", id="never"),
    ],
)
def test_a_helper_that_is_never_ready_fails_the_job(
    make_job: MakeJob, ending: str, says: str, lifetime: Lifetime
) -> None:
    script = PATIENT.format(group="dnn_group", ending="pass") + ending
    ready = Ready(file="never", timeout=1 if "within 1 s" in says else 60)
    hosts = make_job(script, lifetime=lifetime, ready=ready)
    assert hosts.codes() == {"algo-1": 1, "algo-2": 1}, hosts.output()
    assert (hosts["algo-1"].failure or "").startswith(
        f"host algo-1 (data_group): the script {says}"
    )
    assert hosts["algo-2"].events("script_started") == []  # it waits for its helpers


@pytest.mark.long
@pytest.mark.parametrize(
    ("lifetime", "codes"), [(Lifetime.OWN, {1}), (Lifetime.TRAIN, {0})], ids=["own", "train"]
)
def test_a_helper_that_fails_after_training(
    make_job: MakeJob, lifetime: Lifetime, codes: set[int]
) -> None:
    """With a life of its own, its exit counts; else it is ended, however it takes that."""
    script = (
        "import signal\nsignal.signal(signal.SIGTERM, lambda *_: os._exit(9))\n"
        + PATIENT.format(group="data_group", ending="os._exit(5)")
    )
    script = "import os\n" + script
    hosts = make_job(script, lifetime=lifetime)
    hosts.start()
    wait_until(lambda: hosts["algo-2"].events("script_ended"))
    finish(hosts, "algo-1")
    assert set(hosts.wait().values()) == codes, hosts.output()
    failure = hosts["algo-1"].failure
    assert (failure is None) == (lifetime is Lifetime.TRAIN)
    assert "exit code 5" in (failure or "exit code 5")


def test_what_a_script_leaves_behind_ends_with_the_job(make_job: MakeJob) -> None:
    hosts = make_job(
        "import subprocess\nsubprocess.Popen(['sleep', '1000'], start_new_session=True)"
    )
    hosts.run()
    assert hosts.processes() == []


def test_a_stopped_job_stops_every_script(make_job: MakeJob) -> None:
    hosts = make_job("import time; print('running', flush=True); time.sleep(1000)", data=2)
    hosts.start()
    hosts.await_output("running", *hosts.hosts)
    hosts.terminate()
    assert set(hosts.wait().values()) == {143}, hosts.output()
    assert hosts.processes() == []


def test_a_port_of_another_host_is_answered_with_the_isolation_to_use(make_job: MakeJob) -> None:
    """At once, since such a script may wait for ever; and in the reason."""
    script = """
import os, socket, time
with socket.socket() as listener:
    if os.environ["SM_CURRENT_INSTANCE_GROUP"] == "dnn_group":
        while not os.path.exists("enough"):
            time.sleep(0.02)
    try:
        listener.bind(("", PORT))
    except OSError as error:
        print(error, flush=True)
        raise
    print("running", flush=True)
    time.sleep(1000)
"""
    with socket.create_server(("", 0)) as free:
        port = free.getsockname()[1]
    hosts = make_job(script.replace("PORT", str(port)))
    hosts.start()
    hosts.await_output("running", "algo-1")
    finish(hosts, "algo-2")
    assert hosts.wait() == {"algo-1": 1, "algo-2": 1}, hosts.output()
    fix = "run it with isolation network, or bind LAUNCHER_HOST_ADDRESS"
    assert hosts["algo-2"].events("port_taken")[0]["fix"] == fix
    assert fix in (hosts["algo-2"].failure or "")
