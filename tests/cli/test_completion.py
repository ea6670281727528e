"""What TAB offers, asked of the command as shells ask it."""

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from launcher.client.cli import VERBS, main

SECONDS = 60


@pytest.fixture(autouse=True)
def in_the_folder(terminal, monkeypatch):
    """Shells ask from the folder of the job file."""
    monkeypatch.chdir(terminal.folder)


def ask(terminal, shell, *words):
    """The answer to a shell; the last word is the incomplete one."""
    result = CliRunner(env=terminal.environment | variables_of(shell, words)).invoke(
        main, prog_name="launcher", catch_exceptions=False
    )
    assert result.stderr == ""
    return offers(shell, result.stdout)


def ask_process(terminal, shell, *words):
    """The answer of the command as a process of its own."""
    answer = subprocess.run(
        [sys.executable, "-m", "launcher"],
        env={**os.environ, **terminal.environment, **variables_of(shell, words)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    assert answer.stderr == ""
    return offers(shell, answer.stdout)


def variables_of(shell, words):
    """What a shell's own script sets; fish has the incomplete word apart."""
    line = ["launcher", *words]
    asked = {
        "bash": {"COMP_WORDS": "\n".join(line), "COMP_CWORD": str(len(words))},
        "zsh": {"COMP_WORDS": " ".join(line), "COMP_CWORD": str(len(words))},
        "fish": {"COMP_WORDS": " ".join(line), "COMP_CWORD": words[-1]},
    }[shell]
    return {**asked, "_LAUNCHER_COMPLETE": f"{shell}_complete"}


def offers(shell, stdout):
    lines = stdout.strip("\n").splitlines()
    if shell == "bash":
        return [line.removeprefix("plain,") for line in lines]
    if shell == "zsh":
        return lines[1::3]
    return [line.split(",")[1].split("\t")[0] for line in lines]


SHELLS = pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])


@SHELLS
def test_verbs(terminal, shell):
    assert ask_process(terminal, shell, "") == list(VERBS)
    assert ask(terminal, shell, "st") == ["stop", "status"]


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_options(terminal, shell):
    assert {"--local", "--dry-run", "--isolation"} <= set(ask(terminal, shell, "run", "--"))
    assert ask(terminal, shell, "run", "--isolation", "p") == ["process"]
    assert ask(terminal, shell, "--ver") == ["--version"]


def test_the_other_command_of_a_verb_and_its_options(terminal):
    assert ask(terminal, "bash", "plan", "t") == ["types"]
    assert ask(terminal, "bash", "plan", "cut", "s") == ["show"]
    assert ask(terminal, "bash", "plan", "cut", "--virt") == ["--virtual"]
    assert ask(terminal, "bash", "plan", "cut", "show", "--s") == ["--svg"]


@pytest.mark.long
@SHELLS
@pytest.mark.parametrize("verb", ["status", "logs", "stop"])
def test_the_matching_jobs_are_offered_the_newest_first(terminal, jobs, shell, verb):
    assert ask(terminal, shell, verb, "") == ["pair-2", "other", "pair-1"]
    assert ask(terminal, shell, verb, "pair") == ["pair-2", "pair-1"]


@SHELLS
def test_groups_and_hosts_are_those_of_the_named_job(terminal, jobs, shell):
    assert ask(terminal, shell, "logs", "pair-2", "--group", "m") == ["main_group", "mending"]
    assert ask(terminal, shell, "logs", "pair-2", "--group", "me") == ["mending"]
    assert ask(terminal, shell, "logs", "pair-1", "--group", "") == ["homogeneousCluster"]
    assert ask(terminal, shell, "logs", "-f", "pair-2", "--host", "") == [
        "algo-1",
        "algo-2",
        "algo-3",
    ]
    assert ask(terminal, shell, "logs", "pair-2", "--group", "mending", "--host", "") == [
        "algo-2",
        "algo-3",
    ]


def test_without_candidates_completion_is_silent(terminal):
    assert ask(terminal, "bash", "status", "") == []
    assert ask(terminal, "bash", "logs", "absent", "--group", "") == []
    assert ask(terminal, "bash", "logs", "--host", "") == []


def test_a_damaged_job_does_not_disturb(terminal, jobs):
    for job in (terminal.home / "jobs").iterdir():
        (job / "status.json").write_text("{")
    assert ask(terminal, "bash", "logs", "pair-2", "--group", "") == []
    assert ask(terminal, "bash", "status", "ot") == ["other"]


def test_job_files_below_the_folder(terminal):
    for name in ("job.yaml", "sub/deep/other.yml", ".hidden/no.yaml", "a.py", "env/no.yaml"):
        (terminal.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (terminal.folder / name).touch()
    (terminal.folder / "env" / "pyvenv.cfg").touch()
    assert ask(terminal, "bash", "run", "") == ["job.yaml", "sub/deep/other.yml"]
    assert ask(terminal, "bash", "run", "su") == ["sub/deep/other.yml"]
    assert ask(terminal, "bash", "run", "sub/") == ["sub/deep/other.yml"]
    assert ask(terminal, "bash", "run", "./j") == ["./job.yaml"]
    full = str(terminal.folder / "jo")
    assert ask(terminal, "bash", "run", full) == [str(terminal.folder / "job.yaml")]
    assert ask(terminal, "bash", "run", "../p") == ["../project/job.yaml"]


def test_where_there_is_no_job_file_the_shell_completes_paths(terminal):
    (terminal.folder / "x" / "with blanks").mkdir(parents=True)
    (terminal.folder / "x" / "with blanks" / "job.yaml").touch()  # which must be quoted
    assert ask(terminal, "bash", "run", "x") == ["file,x"]


#: Asks as a user whom modes stop, in the folder and with the jobs of another one.
AS_ANOTHER_USER = """\
import os
from launcher.client.cli.options import completion_values
from launcher.client.sessions.local.job import job_root
if os.geteuid() == 0:
    os.setuid(65534)
found = completion_values.job_files(None, None, "")
print([item.value for item in found], completion_values.jobs(None, None, ""))
"""


@pytest.mark.parametrize("closed", ["home/jobs", "home/jobs/job-1"])
def test_folders_that_may_not_be_read_are_passed_over(terminal, tmp_path, closed):
    (terminal.home / "jobs" / "job-1").mkdir(parents=True)
    for folder in (terminal.folder / "others", tmp_path / closed):
        folder.mkdir(exist_ok=True)
        folder.chmod(0)
    (terminal.folder / "job.yaml").touch()
    (terminal.folder / os.fsdecode(b"caf\xe9.yaml")).touch()
    for folder in (tmp_path, terminal.folder, terminal.home):
        folder.chmod(0o755)
    asked = subprocess.run(
        [sys.executable, "-c", AS_ANOTHER_USER],
        cwd=terminal.folder,
        env={**os.environ, "LAUNCHER_HOME": "../home"},
        capture_output=True,
        text=True,
    )
    (tmp_path / closed).chmod(0o700)
    jobs = ["job-1"] if closed.endswith("job-1") else []
    assert (asked.stdout, asked.stderr) == (f"['job.yaml'] {jobs}\n", "")


def test_the_lines_beside_the_verbs_are_their_own():
    verbs = list(VERBS.items())
    for name, verb in verbs:
        assert verb.load().get_short_help_str(limit=200) == verb.line
        assert verb.load().name == name
        verbs += verb.subcommands.items()


@pytest.mark.long
def test_completing_loads_nothing_heavy(terminal, jobs):
    """Import costs are what a TAB takes: the modules are counted, not the seconds."""
    program = (
        "import sys, json\n"
        "from launcher.client.cli import main\n"
        "from click.shell_completion import BashComplete\n"
        "complete = BashComplete(main, {}, 'launcher', 'X').get_completions\n"
        "found = [item.value for item in complete(sys.argv[1:-1], sys.argv[-1])]\n"
        "print(json.dumps([found, sorted(sys.modules)]))\n"
    )

    def loaded(*words):
        run = subprocess.run(
            [sys.executable, "-c", program, *words],
            env={**os.environ, **terminal.environment},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=True,
        )
        return json.loads(run.stdout)

    found, modules = loaded("st")
    assert found == ["stop", "status"]
    assert not {name for name in modules if name.startswith("launcher.client.cli.")} - {
        "launcher.client.cli.verb_group",
        "launcher.client.cli.verb_table",
    }
    _, modules = loaded("run", "")
    assert not set(modules) & {"boto3", "botocore", "torch", "numpy", "rich"}
    found, modules = loaded("logs", "pair-2", "--group", "")
    assert found == ["main_group", "mending"]
    assert not set(modules) & {"boto3", "botocore", "torch", "numpy", "yaml", "rich", "pathspec"}


# In the shells themselves -------------------------------------------------------------------------


@pytest.fixture
def on_path(terminal, tmp_path):
    """The environment of a shell that has `launcher` on its PATH."""
    command = tmp_path / "bin" / "launcher"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m launcher "$@"\n')
    command.chmod(0o755)
    return {
        **os.environ,
        **terminal.environment,
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "PS1": "ready> ",
        "INPUTRC": "/dev/null",
        "TERM": "dumb",
    }


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_printed_and_nothing_else(terminal, shell):
    result = terminal("completion", shell)
    assert result.exit_code == 0
    assert f"_LAUNCHER_COMPLETE={shell}_complete" in result.stdout
    assert result.stderr == ""
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=result.stdout, text=True, check=True, timeout=SECONDS)


def test_another_shell_is_refused(terminal):
    result = terminal("completion", "tcsh")
    assert result.exit_code == 2
    assert "bash" in result.stderr


@pytest.mark.long
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_what_is_typed(terminal, jobs, on_path):
    """A person's bash: the script is sourced, words are typed, and TAB is pressed."""
    with InteractiveBash(on_path, terminal.folder) as bash:
        bash.type("source <(launcher completion bash); echo $((40 + 2))\n")
        bash.wait_for("42")
        bash.type("launcher stat\t")
        bash.wait_for("launcher status ")
        bash.type("oth\t")
        bash.wait_for("launcher status other ")
        bash.type("; echo code=$?\n")
        bash.wait_for("code=0")
        bash.type("launcher logs pair-2 --group mend\t")
        bash.wait_for("launcher logs pair-2 --group mending ")


class InteractiveBash:
    """bash at a terminal of its own."""

    def __init__(self, environment, folder):
        self._master, slave = pty.openpty()
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
        os.close(slave)
        self._seen = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        os.close(self._master)

    def type(self, text):
        os.write(self._master, text.encode())

    def wait_for(self, text):
        deadline = time.monotonic() + SECONDS
        while text not in self._seen:
            ready, _, _ = select.select([self._master], [], [], deadline - time.monotonic())
            assert ready, f"{text!r} never came: {self._seen!r}"
            self._seen += os.read(self._master, 4096).decode()
