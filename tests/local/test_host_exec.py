"""A command in a running host: its environment, folder, isolation and end."""

import subprocess
import sys

import pytest
from bench import group, processes_mentioning
from waiting import wait_until

from launcher.errors import JobNotFound, PlatformError

WAITS = """\
Path("here").write_text(host)
(ml / "model" / "weights").write_text(host)
print("ready", flush=True)
time.sleep(600)
"""
RUN = """\
import sys
from launcher.client.sessions.local import LocalSession
root, job, host, *command = sys.argv[1:]
sys.exit(LocalSession(root).run_in_host(job, host, command))
"""


def start(bench, host, *command):
    """A command in a host, as a process with pipes."""
    words = [sys.executable, "-c", RUN, str(bench.session.root), "job", host, *command]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(bench, host, *command):
    process = start(bench, host, *command)
    output, errors = process.communicate(timeout=540)
    return process.returncode, output, errors


@pytest.mark.long
def test_a_command_sees_what_its_host_sees_and_ends_with_it(bench, isolation):
    groups = [group("data_group", 1), group("train_group", 1)]
    bench.start(WAITS, groups=groups, Environment={"COLOUR": "green"})
    bench.wait_for_line("ready", hosts=2)

    script = 'echo $COLOUR; cat here; cat "${SAGEMAKER_BASE_DIR:-/opt/ml}/model/weights"; exit 7'
    code, output, _ = run(bench, "algo-2", "sh", "-c", script)
    # a container's program starts in the folder of its image
    here = "" if isolation == "container" else "algo-2"
    assert (code, output.split()) == (7, ["green", f"{here}algo-2"])
    if isolation != "container":  # whose Python is the image's
        program = "import sys; print(sys.version_info[:2])"
        assert run(bench, "algo-1", "python", "-c", program)[1] == f"{sys.version_info[:2]}\n"
    if isolation != "process":
        assert run(bench, "algo-2", "hostname")[1].strip() == "algo-2"
        listed = run(bench, "algo-1", "sh", "-c", "ls -d /proc/[0-9]*")[1]
        assert len(listed.split()) < 10, "of the processes of this machine, only the host's"

    assert run(bench, "algo-1", "true")[0] == 0
    assert run(bench, "algo-1", "sh", "-c", "kill -9 $$")[0] == 128 + 9
    code, _, errors = run(bench, "algo-1", "no-such-program")
    assert code == 127
    if isolation == "container":
        assert "no-such-program" in errors
    else:
        assert errors == "error: there is no program 'no-such-program' in the host\n"
    assert bench.describe()["TrainingJobStatus"] == "InProgress", "no command ends the job"

    process = start(bench, "algo-1", "sh", "-c", "trap '' TERM; echo runs; sleep 601; sleep 602")
    assert process.stdout.readline() == "runs\n"
    bench.stop()
    wait_until(lambda: bench.describe()["TrainingJobStatus"] == "Stopped")
    assert not processes_mentioning("sleep\x00601")
    _, errors = process.communicate(timeout=540)  # its own watcher, which names the host's folder
    bench.end_of()
    last = errors.splitlines()[-1:]
    assert (process.returncode, last) == (128 + 9, ["sh: killed: the host has ended"])


def test_a_host_that_does_not_run_is_refused_with_what_to_do(default_bench):
    session = default_bench.session
    script = "print('up', flush=True)\nif host == 'algo-2': time.sleep(600)\n"
    default_bench.start(script, hosts=2)
    default_bench.wait_for_line("up", hosts=2)

    def refused():
        try:
            session.run_in_host("job", "algo-1", ["true"])
        except PlatformError as error:
            return str(error)
        return ""

    wait_until(lambda: "host algo-1 of job job has ended" in refused())
    default_bench.stop()
    default_bench.end_of()
    with pytest.raises(PlatformError, match=r"has ended \(Stopped\).*`launcher logs job`"):
        session.run_in_host("job", "algo-1", ["ls"])
    with pytest.raises(PlatformError, match="no host 'algo-9': use one of algo-1"):
        session.run_in_host("job", "algo-9", ["ls"])
    with pytest.raises(JobNotFound):
        session.run_in_host("other", "algo-1", ["ls"])
