"""The command role: any program on a group, ready before training starts and ended after it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hosts import Hosts
from waiting import wait_until

from launcher.shared import CommandPart, JobDocument, Lifetime, Ready, Role, TrainerPart

#: A server of one word, on this host's own address; SIGTERM ends it in order.
SERVER = """
import os, signal, socket, sys, threading
signal.signal(signal.SIGTERM, lambda *_: (print("closing", flush=True), os._exit(0)))
listener = socket.create_server((os.environ["LAUNCHER_HOST_ADDRESS"], int(sys.argv[1])))
print("serving", flush=True)
while True:
    connection, _ = listener.accept()
    connection.sendall(os.environ["SM_CURRENT_HOST"].encode())
    connection.close()
"""

#: Asks every server once, by the addresses of its group.
CLIENT = """
import os, socket
for address in os.environ["LAUNCHER_HOSTS_SERVER_GROUP"].split(","):
    with socket.create_connection((address, int(os.environ["SERVER_PORT"]))) as connection:
        print("answer", connection.makefile().read(), flush=True)
"""

#: Trains until a file is written beside the script.
PATIENT = """
import pathlib, time
print("training", flush=True)
while not pathlib.Path("enough").exists():
    time.sleep(0.02)
"""

MakeJob = Callable[..., Hosts]


@pytest.fixture
def make_job(make_cluster: MakeJob) -> MakeJob:
    """Makes a cluster of `servers` command hosts (algo-1...) and then `train` train hosts."""

    def make(
        program: str,
        script: str = PATIENT,
        *,
        servers: int = 1,
        train: int = 1,
        command: tuple[str, ...] = ("python", "server.py"),
        ready: Ready | None = None,
        lifetime: Lifetime = Lifetime.TRAIN,
        start_timeout: float = 60.0,
        pass_hyperparameters: bool = False,
        **options: object,
    ) -> Hosts:
        document = JobDocument(
            roles={"server-group": Role.COMMAND, "train_group": Role.TRAIN},
            trainer=TrainerPart(entry_point="train.py"),
            commands={
                "server-group": CommandPart(
                    command=command,
                    ready=ready,
                    lifetime=lifetime,
                    pass_hyperparameters=pass_hyperparameters,
                )
            },
            start_timeout=start_timeout,
        )
        groups = {"server-group": servers, "train_group": train}
        files = {"server.py": program, "train.py": script}
        return make_cluster(document, groups, files, **options)

    return make


def programs(hosts: Hosts) -> list[int]:
    """The processes of all programs."""
    return [
        pid
        for pid in hosts.processes()
        if b"server.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


def end_training(hosts: Hosts) -> None:
    for host in hosts.hosts.values():
        (host.paths.code / "enough").touch()


def free_port() -> int:
    return 31000 + os.getpid() % 1000


# A job that ends well --------------------------------------------------------------------------


@pytest.mark.parametrize("train", [1, 2])
def test_servers_are_ready_before_training_and_end_after_it(make_job: MakeJob, train: int) -> None:
    port = free_port()
    hosts = make_job(
        SERVER,
        CLIENT,
        servers=2,
        train=train,
        command=("python", "server.py", str(port)),
        ready=Ready(port=port),
        environment={"SERVER_PORT": str(port)},
    )
    hosts.run()
    for name in list(hosts.hosts)[2:]:
        assert "answer algo-1\nanswer algo-2\n" in hosts[name].output
    for name in ("algo-1", "algo-2"):
        assert hosts[name].events("host_started")[0]["role"] == "command"
        assert hosts[name].events("command_ended")[0]["how"] == "exit code 0"
        assert "serving\n" in hosts[name].output
        assert "closing\n" in hosts[name].output
    assert hosts.processes() == []


@pytest.mark.long
def test_hosts_may_start_in_any_order(make_job: MakeJob) -> None:
    """A host that joins late hears that the programs are ready."""
    hosts = make_job("import time; time.sleep(1000)", train=2, ready=Ready(seconds=0))
    for name in ("algo-1", "algo-2", "algo-3"):
        hosts.start(name)
        sign = "command_ready" if name == "algo-1" else "training"
        hosts.await_output(sign, name)
    end_training(hosts)
    assert set(hosts.wait().values()) == {0}, hosts.output()


def test_every_process_knows_the_addresses_of_all_groups(make_job: MakeJob) -> None:
    show = """
import os
for name, value in sorted(os.environ.items()):
    if name.startswith(("LAUNCHER_HOSTS", "LAUNCHER_HOST_ADDRESS")):
        print(name, value, flush=True)
"""
    hosts = make_job(show + "import time; time.sleep(1000)", show, servers=2)
    hosts.run()
    one, two, three = (hosts.addresses[name] for name in ("algo-1", "algo-2", "algo-3"))
    for name, own in (("algo-1", one), ("algo-3", three)):
        variables = dict(
            line.split(" ", 1)
            for line in hosts[name].output.splitlines()
            if line.startswith("LAUNCHER_HOST")
        )
        assert variables["LAUNCHER_HOSTS_SERVER_GROUP"] == f"{one},{two}"
        assert variables["LAUNCHER_HOSTS_TRAIN_GROUP"] == three
        assert json.loads(variables["LAUNCHER_HOSTS"]) == {
            "server-group": [one, two],
            "train_group": [three],
        }
        assert variables["LAUNCHER_HOST_ADDRESS"] == own


def test_training_waits_for_a_file_and_not_for_one_that_was_there_before(
    make_job: MakeJob, tmp_path: Path
) -> None:
    sign = tmp_path / "sign"
    sign.write_text("of another run")
    program = f"""
import pathlib, time
while not pathlib.Path("go").exists():
    time.sleep(0.02)
pathlib.Path({str(sign)!r}).write_text("ready")
time.sleep(1000)
"""
    hosts = make_job(program, "print('training', flush=True)", ready=Ready(file=str(sign)))
    hosts.start()
    wait_until(lambda: hosts["algo-1"].events("command_started"))
    wait_until(lambda: hosts["algo-2"].events("host_joined"))
    assert not hosts["algo-1"].events("command_ready")
    assert "training" not in hosts["algo-2"].output
    (hosts["algo-1"].paths.code / "go").touch()
    assert set(hosts.wait().values()) == {0}, hosts.output()


@pytest.mark.long
def test_a_program_may_be_ready_after_a_time(make_job: MakeJob) -> None:
    hosts = make_job("import time; time.sleep(1000)", "", ready=Ready(seconds=1))
    hosts.run()
    (ready,) = hosts["algo-1"].events("command_ready")
    assert ready["seconds"] >= 1


def test_a_program_that_is_no_python_runs_from_the_code_folder(make_job: MakeJob) -> None:
    program = "echo here is $(basename $PWD); exec sleep 1000\n"
    hosts = make_job(program, "", command=("sh", "server.py"))
    hosts.run()
    assert "here is code\n" in hosts["algo-1"].output


@pytest.mark.long
def test_a_program_that_ignores_sigterm_is_killed(make_job: MakeJob) -> None:
    program = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)
print("deaf", flush=True)
time.sleep(1000)
"""
    hosts = make_job(program)
    shorten_grace(hosts)
    hosts.start()
    hosts.await_output("deaf", "algo-1")
    hosts.await_output("training", "algo-2")
    end_training(hosts)
    assert set(hosts.wait().values()) == {0}, hosts.output()
    (ended,) = hosts["algo-1"].events("command_ended")
    assert str(ended["how"]).startswith("killed by SIGKILL")
    assert hosts.processes() == []


def shorten_grace(hosts: Hosts) -> None:
    """One second instead of thirty, in the copy of the job world that the hosts run."""
    script = hosts["algo-1"].paths.channels / "code" / "launch.py"
    text = script.read_text()
    line = "    return run(ROOT)\n"
    assert line in text
    patch = "    from launcher.runtime.launch import supervised_program as program\n\n"
    patch += "    program.GRACE = 1.0\n"
    script.write_text(text.replace(line, patch + line))


# Programs that leave ---------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    ("ending", "how"),
    [
        pytest.param("sys.exit(3)", "exit code 3", id="exit code"),
        pytest.param("raise KeyError('word')", "exit code 1", id="exception"),
        pytest.param("os.kill(os.getpid(), signal.SIGKILL)", "killed by SIGKILL", id="signal"),
    ],
)
def test_a_program_that_leaves_before_training_fails_the_job(
    make_job: MakeJob, ending: str, how: str
) -> None:
    program = f"""
import os, pathlib, signal, sys, time
while not pathlib.Path("enough").exists():
    time.sleep(0.02)
print("last words", flush=True)
{ending}
"""
    hosts = make_job(program, servers=2, train=2)
    hosts.start()
    hosts.await_output("training", "algo-3", "algo-4")
    (hosts["algo-2"].paths.code / "enough").touch()
    assert hosts.wait() == {"algo-1": 0, "algo-2": 1, "algo-3": 1, "algo-4": 1}, hosts.output()
    reason = hosts["algo-2"].failure or ""
    cause = f"host algo-2 (server-group): the command ended before training did: {how}"
    assert reason.startswith(cause)
    assert "last words" in reason
    assert [name for name, host in hosts.hosts.items() if host.failure] == ["algo-2"]
    assert hosts.processes() == []


@pytest.mark.long
@pytest.mark.parametrize("servers", [1, 2])
def test_a_program_that_has_been_ready_may_leave_with_0(make_job: MakeJob, servers: int) -> None:
    """Such as a server with a shutdown port that the script uses before it ends."""
    program = """
import pathlib, time
while not pathlib.Path("enough").exists():
    time.sleep(0.02)
"""
    hosts = make_job(program, servers=servers)
    hosts.start()
    trainer = list(hosts.hosts)[-1]
    hosts.await_output("training", trainer)
    (hosts["algo-1"].paths.code / "enough").touch()
    wait_until(lambda: hosts["algo-1"].events("command_ended"))
    assert hosts[trainer].process is not None
    assert hosts[trainer].process.poll() is None
    (hosts[trainer].paths.code / "enough").touch()
    assert set(hosts.wait().values()) == {0}, hosts.output()
    assert hosts["algo-1"].events("command_ended")[0]["how"] == "exit code 0"


def test_a_program_that_leaves_with_0_before_it_is_ready_fails_the_job(make_job: MakeJob) -> None:
    hosts = make_job("pass", ready=Ready(port=1))
    assert hosts.codes() == {"algo-1": 1, "algo-2": 1}
    assert "the command ended before it was ready: exit code 0" in (hosts["algo-1"].failure or "")


def test_a_command_gets_the_hyperparameters_when_asked(make_job: MakeJob) -> None:
    program = "import sys; print('arguments', sys.argv[1:], flush=True)"
    hosts = make_job(
        program, "", hyperparameters={"size": 3, "name": "a"}, pass_hyperparameters=True
    )
    hosts.run()
    assert "arguments ['--name', 'a', '--size', '3']" in hosts["algo-1"].output


def test_the_last_lines_of_the_program_are_in_the_reason(make_job: MakeJob) -> None:
    hosts = make_job("print('x' * 10000)\n{}['word']\n", ready=Ready(seconds=60))
    assert hosts.codes() == {"algo-1": 1, "algo-2": 1}
    reason = hosts["algo-1"].failure or ""
    assert "the command ended before it was ready: exit code 1\n" in reason
    assert reason.endswith("KeyError: 'word'")
    assert "x" * 10000 in hosts["algo-1"].output


@pytest.mark.long
@pytest.mark.parametrize(
    ("ready", "lack"),
    [
        pytest.param(Ready(port=1), "it does not listen on port 1", id="port"),
        pytest.param(Ready(file="sign"), "code/sign", id="file"),
        pytest.param(Ready(port=1, timeout=2), "was not ready within 2 s", id="its own timeout"),
    ],
)
def test_a_program_that_never_gets_ready_fails_the_job(
    make_job: MakeJob, ready: Ready, lack: str
) -> None:
    hosts = make_job("import time; time.sleep(1000)", ready=ready, start_timeout=3)
    assert hosts.codes() == {"algo-1": 1, "algo-2": 1}, hosts.output()
    assert "the command was not ready within" in (hosts["algo-1"].failure or "")
    assert lack in (hosts["algo-1"].failure or "")
    assert hosts["algo-2"].failure is None
    assert "training" not in hosts["algo-2"].output


@pytest.mark.long
def test_a_port_of_another_program_is_no_sign(make_job: MakeJob) -> None:
    """Local hosts share one network stack: somebody else's wildcard server is in it, too."""
    import socket

    with socket.create_server(("", 0)) as other:
        ready = Ready(port=other.getsockname()[1])
        hosts = make_job("import time; time.sleep(1000)", ready=ready, start_timeout=2)
        assert hosts.codes() == {"algo-1": 1, "algo-2": 1}, hosts.output()
    assert "it does not listen on port" in (hosts["algo-1"].failure or "")


@pytest.mark.long
def test_command_hosts_that_never_come_are_named(make_job: MakeJob) -> None:
    hosts = make_job("", servers=2, start_timeout=1)
    hosts.start("algo-3")
    assert hosts["algo-3"].wait() == 1
    assert "the command hosts algo-1, algo-2 were not ready" in (hosts["algo-3"].failure or "")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        pytest.param(("no-such-program",), "No such file or directory", id="absent"),
        pytest.param(("./server.py",), "Permission denied", id="not executable"),
    ],
)
def test_a_program_that_cannot_be_started(
    make_job: MakeJob, command: tuple[str, ...], why: str
) -> None:
    hosts = make_job("", command=command)
    assert hosts.codes() == {"algo-1": 1, "algo-2": 1}
    expected = f"host algo-1 (server-group): the command {command[0]!r} cannot be started: {why}"
    assert hosts["algo-1"].failure == expected


# A life of its own -----------------------------------------------------------------------------


def test_the_job_waits_for_a_program_that_leaves_by_itself(make_job: MakeJob) -> None:
    program = """
import pathlib, time
while not pathlib.Path("enough").exists():
    time.sleep(0.02)
print("summed up", flush=True)
"""
    hosts = make_job(program, "print('trained', flush=True)", lifetime=Lifetime.OWN)
    hosts.start()
    hosts.await_output("trained", "algo-2")
    assert all(host.process and host.process.poll() is None for host in hosts.hosts.values())
    (hosts["algo-1"].paths.code / "enough").touch()
    assert set(hosts.wait().values()) == {0}, hosts.output()
    assert "summed up" in hosts["algo-1"].output


def test_a_program_that_leaves_by_itself_may_do_so_before_training_ends(make_job: MakeJob) -> None:
    hosts = make_job("", lifetime=Lifetime.OWN)
    hosts.start()
    wait_until(lambda: hosts["algo-1"].events("command_ended"))
    hosts.await_output("training", "algo-2")
    end_training(hosts)
    assert set(hosts.wait().values()) == {0}, hosts.output()


def test_a_program_that_leaves_by_itself_badly_fails_the_job(make_job: MakeJob) -> None:
    hosts = make_job("import sys; sys.exit('no disk')", lifetime=Lifetime.OWN)
    assert hosts.codes() == {"algo-1": 1, "algo-2": 1}
    assert "exit code 1\nno disk" in (hosts["algo-1"].failure or "")


# Endings of others -----------------------------------------------------------------------------


def test_a_failure_of_training_ends_the_program(make_job: MakeJob) -> None:
    hosts = make_job("import time; time.sleep(1000)", "raise ValueError('loss is NaN')")
    assert hosts.codes() == {"algo-1": 0, "algo-2": 1}, hosts.output()
    assert "ValueError: loss is NaN" in (hosts["algo-2"].failure or "")
    assert hosts["algo-1"].failure is None
    assert hosts.processes() == []


def test_a_command_host_that_is_killed_fails_the_job(make_job: MakeJob) -> None:
    hosts = make_job("import time; time.sleep(1000)", train=2)
    hosts.start()
    hosts.await_output("training", "algo-2", "algo-3")
    init = hosts["algo-1"].process
    assert init is not None
    init.kill()
    assert hosts["algo-2"].wait() == hosts["algo-3"].wait() == 1
    assert 'origin="host algo-1 (server-group): the host died"' in hosts.output()


def test_a_dead_leader_ends_the_program(make_job: MakeJob) -> None:
    hosts = make_job("import time; time.sleep(1000)")
    hosts.start()
    hosts.await_output("training", "algo-2")
    leader = hosts["algo-2"].process
    assert leader is not None
    leader.kill()
    assert hosts["algo-1"].wait() == 0
    assert programs(hosts) == []


SAVING = """
import os, signal, socket, sys, time
def save(*_):
    address = os.environ["LAUNCHER_HOSTS_SERVER_GROUP"], int(os.environ["SERVER_PORT"])
    with socket.create_connection(address) as connection:
        print("saved with", connection.makefile().read(), flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("training", flush=True)
while True:
    time.sleep(0.1)
"""


def test_a_stopped_job_ends_its_program_after_the_script_has_saved(make_job: MakeJob) -> None:
    port = free_port()
    hosts = make_job(
        SERVER,
        SAVING,
        command=("python", "server.py", str(port)),
        ready=Ready(port=port),
        environment={"SERVER_PORT": str(port)},
    )
    hosts.start()
    hosts.await_output("training", "algo-2")
    hosts.terminate()
    codes = hosts.wait()
    assert "saved with algo-1" in hosts["algo-2"].output, hosts.output()
    assert "closing" in hosts["algo-1"].output
    assert codes == {"algo-1": 0, "algo-2": 143}
    assert not any(host.failure for host in hosts.hosts.values())
    assert hosts.processes() == []


def test_a_stop_before_the_leader_is_there_ends_the_program_at_once(make_job: MakeJob) -> None:
    hosts = make_job("import time; time.sleep(1000)")
    hosts.start("algo-1")
    wait_until(lambda: hosts["algo-1"].events("command_ready"))
    process = hosts["algo-1"].process
    assert process is not None
    process.terminate()
    assert hosts["algo-1"].wait(40) == 143
    assert hosts.processes() == []


@pytest.mark.long
@pytest.mark.parametrize("lifetime", list(Lifetime), ids=lambda lifetime: lifetime.value)
def test_a_stop_that_reaches_the_program_first_is_no_failure(
    make_job: MakeJob, lifetime: Lifetime
) -> None:
    hosts = make_job("import time; time.sleep(1000)", lifetime=lifetime)
    hosts.start()
    hosts.await_output("training", "algo-2")
    inits = [host.process.pid for host in hosts.hosts.values() if host.process]
    for pid in [*programs(hosts), *inits]:
        os.kill(pid, signal.SIGTERM)
    assert set(hosts.wait().values()) <= {0, 143}, hosts.output()
    assert not any(host.failure for host in hosts.hosts.values())
    assert hosts.processes() == []
