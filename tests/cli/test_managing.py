"""Managing jobs: a table of them, their logs in part, waiting for several, stopping all of them."""

import json
import os
import re
import subprocess
import sys

import pytest
from waiting import wait_until

SCRIPT = """\
import os, sys, time
for n in range(5):
    print("line", n, os.environ.get("COLOUR"))
print("loss=0.25")
"""
METRICS = 'metric_definitions: [{Name: loss, Regex: "loss=(.*)"}]\n'
FOR_EVER = "import time\nprint('waits', flush=True)\ntime.sleep(600)\n"


@pytest.fixture
def ran(terminal):
    """A job that has ended, whose variable comes from the command line."""
    job = terminal.write(SCRIPT, terminal.one_host + METRICS)
    file = terminal.folder / "variables"
    file.write_text("# mine\nexport COLOUR='green'\nOTHER=1\n")
    options = ("--local", "--name", "job-1", "--env-file", file, "--env", "OTHER=2")
    result = terminal("run", job.parent, *options)
    assert result.exit_code == 0, result.stderr
    return terminal


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(b"A=\xff", "'utf-8' codec can't decode byte 0xff", id="latin-1"),
        pytest.param(b"A=1\n" * (1 << 18), "more than 512 KiB", id="1 MB"),
        pytest.param(None, "it is a named pipe, a socket or a device", id="without an end"),
    ],
)
def test_a_file_of_variables_that_cannot_be_read_is_named(terminal, content, says):
    job, file = terminal.write(SCRIPT), terminal.folder / "variables"
    file.symlink_to("/dev/zero") if content is None else file.write_bytes(content)
    result = terminal("run", job, "--local", "--dry-run", "--env-file", file)
    assert result.exit_code == 2
    assert says in " ".join(result.stderr.split())


def test_a_line_of_a_file_of_variables_that_is_none_is_not_shown(terminal):
    job, file = terminal.write(SCRIPT), terminal.folder / "variables"
    file.write_text('A=1\nKEY="-----BEGIN\nMIIEvQIBADAN\n-----END"\n')
    result = terminal("run", job, "--local", "--dry-run", "--env-file", file)
    assert result.exit_code == 2
    assert f"{file}:3 is no NAME=VALUE: a value has one line" in " ".join(result.stderr.split())
    assert "MIIE" not in result.output


def test_a_variable_of_a_file_has_all_of_its_line(terminal):
    job, file = terminal.write(SCRIPT), terminal.folder / "variables"
    file.write_text("A= x\u2028y\x0cz \r\nB=2\n", newline="")
    result = terminal("run", job, "--session", "memory", "--dry-run", "--env-file", file)
    sent = json.loads(result.stdout)["Environment"]
    assert (sent["A"], sent["B"]) == ("x\u2028y\x0cz", "2")


@pytest.mark.parametrize(
    ("age", "says"),
    [
        pytest.param("soon", "is not an age", id="a word"),
        pytest.param("999999999d", "is too long ago", id="before the calendar"),
        pytest.param("9" * 5000 + "s", "is not an age", id="more digits than int reads"),
    ],
)
def test_an_age_that_cannot_be_read_is_refused(terminal, age, says):
    result = terminal("list", "--since", age)
    assert result.exit_code == 2
    assert f"{says}: write 90m, 12h or 2d" in result.stderr


def lines(terminal, *options):
    """What is printed behind group and host."""
    printed = terminal("logs", "job-1", *options).stdout.splitlines()
    return [line.partition(" | ")[2] for line in printed]


@pytest.mark.long
def test_a_part_of_the_logs(ran):
    whole = [f"line {n} green" for n in range(5)] + ["loss=0.25"]
    assert lines(ran) == whole
    assert lines(ran, "--tail", "2") == whole[-2:]
    assert lines(ran, "--grep", "line [13]") == [whole[1], whole[3]]
    assert lines(ran, "--grep", "line", "--tail", "1", "--since", "1h") == [whole[4]]
    assert lines(ran, "--tail", "0") == []
    assert lines(ran, "-f", "--tail", "1") == ["loss=0.25"]
    (stamped,) = ran("logs", "job-1", "--tail", "1", "--timestamps").stdout.splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d homogeneousCluster/algo-1 \| .*", stamped)
    refused = ran("logs", "job-1", "--grep", "(")
    assert refused.exit_code == 2
    assert "'(' is no regular expression" in refused.stderr


@pytest.mark.long
def test_the_table_of_jobs(ran):
    ran("run", ran.write("raise ValueError('no such luck')"), "--local", "--name", "job-2")
    header, second, first = ran("list").stdout.splitlines()
    assert header.split() == [
        "NAME",
        "STATUS",
        "AGE",
        "DURATION",
        "COST",
        "GROUPS",
        "LAST",
        "METRIC",
        "OR",
        "REASON",
    ]
    assert first.startswith("job-1  Completed  ")
    assert first.endswith("  -     1 x local  loss 0.25")
    assert second.endswith("  -     1 x local  ValueError: no such luck (algo-1)")
    assert ran("wait", "job-1").exit_code == 0
    waited = ran("wait", "job-1", "job-2", "-o", "json")
    assert waited.exit_code == 1
    assert json.loads(waited.stdout)["jobs"] == [
        {"name": "job-1", "status": "Completed"},
        {"name": "job-2", "status": "Failed"},
    ]
    failed, completed = json.loads(ran("list", "-l", "-o", "json").stdout)["jobs"]
    sizes = {each["name"]: each["bytes"] for each in (failed, completed)}
    assert "ValueError: no such luck" in failed["failure_reason"]
    assert failed["cause"] == "ValueError: no such luck"
    assert completed["metrics"] == {"loss": 0.25}
    assert completed["groups"] == [
        {"name": "homogeneousCluster", "instance_type": "local", "hosts": ["algo-1"]}
    ]
    assert completed["cost"] is completed["failure_reason"] is completed["cause"] is None
    long = ran("list", "-l").stdout.splitlines()
    assert long[0].split()[4] == "SIZE"
    assert f"{sizes['job-1'] / 1e6:.1f} MB" in long[2]
    freed = json.loads(ran("rm", "job-1", "absent", "job-1", "--yes", "-o", "json").stdout)
    assert freed["jobs"] == [{"name": "job-1", "bytes": sizes["job-1"]}]
    assert freed["error"]["type"] == "JobNotFound"
    assert freed["exit_code"] == 2
    assert ran("logs", "-f", "job-2").exit_code == 1
    assert ran("logs", "job-2").exit_code == 0


@pytest.mark.long
def test_all_jobs_are_stopped(terminal):
    assert "No job runs" in terminal("stop", "--all").stderr
    assert terminal("stop").exit_code == 2
    assert terminal("stop", "job-1", "--all").exit_code == 2
    for name in ("job-1", "job-2"):
        job = terminal.write(FOR_EVER)
        assert terminal("run", job, "--local", "--detach", "--name", name).exit_code == 0
    late = terminal("wait", "job-1", "job-2", "--timeout", "0")
    assert late.exit_code == 124
    assert late.stdout == "job-1  InProgress\njob-2  InProgress\n"
    assert "job job-2 is still running, and continues" in late.stderr
    stopped = json.loads(terminal("stop", "--all", "--yes", "-o", "json").stdout)["jobs"]
    assert {each["name"] for each in stopped} == {"job-1", "job-2"}
    again = terminal("stop", "job-2", "absent", "job-1", "--yes", "-o", "json")
    assert again.exit_code == 2
    described = json.loads(again.stdout)
    assert [each["name"] for each in described["jobs"]] == ["job-2", "job-1"]
    assert (described["error"]["type"], described["exit_code"]) == ("JobNotFound", 2)
    assert terminal("wait", "job-1", "job-2").exit_code == 3
    job = terminal.write(FOR_EVER)
    assert terminal("run", job, "--local", "--detach", "--name", "job-3").exit_code == 0
    late = terminal("wait", "job-3", "job-1", "--timeout", "0", "-o", "json")
    assert late.exit_code == 3
    assert "exit_code" not in json.loads(late.stdout)
    terminal("stop", "job-3")


@pytest.mark.long
def test_a_job_file_is_found_and_a_job_named_after_its_folder(terminal, monkeypatch):
    terminal.write()
    monkeypatch.chdir(terminal.folder)
    result = terminal("run", "--local", "--detach")
    assert re.fullmatch(r"project-train-[0-9a-z]{10}\n", result.stdout), result.stderr
    terminal("wait", result.stdout.strip())


@pytest.mark.parametrize("given", ["COLOUR", "=green", ""])
def test_a_variable_needs_a_name_and_a_value(terminal, given):
    result = terminal("run", terminal.write(), "--local", "--env", given)
    assert result.exit_code == 2
    assert f"{given!r} in --env is no NAME=VALUE" in result.stderr
    assert not terminal.home.exists()


@pytest.mark.long
def test_jobs_that_have_ended_are_removed_with_their_results(ran):
    storage = ran.home / "storage" / "job-1"
    assert storage.is_dir()
    refused = ran("rm", "job-1", "--older-than", "1h")
    assert refused.exit_code == 2
    assert ran("rm", "--older-than", "1h").stdout == ""
    (removed,) = json.loads(ran("rm", "job-1", "-o", "json").stdout)["jobs"]
    assert removed["name"] == "job-1"
    assert removed["bytes"] > 1000
    assert not storage.exists()
    assert ran("status", "job-1").exit_code == 2
    assert ran("rm", "job-1").exit_code == 2


@pytest.mark.long
def test_jobs_with_the_same_code_share_its_file_until_the_last_is_removed(ran):
    def code(name):
        return (ran.home / "storage" / name / "code" / "bundle.tar.gz").stat()

    def size(name):
        jobs = json.loads(ran("list", "-l", "-o", "json").stdout)["jobs"]
        return next(each["bytes"] for each in jobs if each["name"] == name)

    alone = size("job-1")
    assert ran("run", ran.folder, "--local", "--name", "job-2").exit_code == 0
    assert code("job-1").st_ino == code("job-2").st_ino
    assert alone - size("job-1") == code("job-1").st_size - code("job-1").st_size // 2
    ran("rm", "job-1")
    assert ran("rerun", "job-2", "--name", "job-3").exit_code == 0
    assert code("job-3").st_ino == code("job-2").st_ino
    assert not list(ran.home.glob("jobs/*/hosts/*/ml/lib/launcher")), "it is in the bundle"
    bundles = ran.home / "bundles"
    assert len(list(bundles.iterdir())) == 1
    ran("rm", "job-2", "job-3", "--yes")
    assert not list(bundles.iterdir())


@pytest.mark.parametrize("name", ["", ".", "..", "job-1/", "../jobs/job-1", "job-1/logs"])
def test_what_is_no_name_of_a_job_removes_none(terminal, name):
    logs = terminal.home / "jobs" / "job-1" / "logs"
    logs.mkdir(parents=True)
    result = terminal("rm", "--", name)
    assert result.exit_code == 2
    assert f"there is no local job {name!r}" in result.stderr
    assert logs.is_dir()


def test_a_job_called_checkpoints_is_removed_without_those_of_all_jobs(terminal):
    stored = terminal.home / "storage" / "checkpoints"
    (terminal.home / "jobs" / "checkpoints").mkdir(parents=True)
    for file in ("code/bundle.tar.gz", "output/model.tar.gz", "my-bucket/digits/last.pt"):
        (stored / file).parent.mkdir(parents=True)
        (stored / file).touch()
    result = terminal("rm", "checkpoints")
    assert (result.exit_code, result.stdout) == (0, "checkpoints  0.0 MB\n")
    assert [path.name for path in stored.rglob("*") if path.is_file()] == ["last.pt"]
    assert not list((terminal.home / "jobs").iterdir())


def test_a_job_that_runs_is_not_removed(terminal):
    terminal("run", terminal.write(FOR_EVER), "--local", "--detach", "--name", "job-1")
    refused = terminal("rm", "job-1")
    assert refused.exit_code == 2
    assert "has not ended: `launcher stop job-1` first" in refused.stderr
    terminal("stop", "job-1")
    terminal("wait", "job-1")
    assert terminal("rm", "--older-than", "0s", "--yes").stdout.startswith("job-1  ")
    assert "No jobs" in terminal("list").stderr


def test_a_job_without_its_description_is_removed(ran):
    folder = ran.home / "jobs" / "job-1"
    (folder / "status.json").unlink()  # as after a removal that was killed
    wait_until(lambda: ran("rm", "job-1").exit_code == 0)  # the platform process may still end
    assert not folder.exists()


@pytest.mark.long
def test_a_job_that_two_processes_remove_is_removed_once(ran):
    removers = [ran.start("rm", "job-1", "-o", "json") for _ in range(4)]
    answers = [json.loads(each.communicate(timeout=300)[0]) for each in removers]
    (freed,) = [each["jobs"][0] for each in answers if each["jobs"]]
    assert freed["bytes"] > 1000
    errors = [each["error"]["type"] for each in answers if not each["jobs"]]
    assert errors == ["JobNotFound"] * 3


@pytest.mark.parametrize(
    ("redirection", "code"),
    [pytest.param("| true", 141, id="a reader that left"), pytest.param(">&-", 0, id="closed")],
)
def test_a_verb_whose_output_nobody_reads(redirection, code):
    command = f'"$0" -m launcher completion bash {redirection}; exit ${{PIPESTATUS[0]}}'
    result = subprocess.run(
        ["bash", "-c", command, sys.executable], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (code, "")


def test_a_verb_answers_though_the_shell_has_closed_its_other_streams(tmp_path):
    (tmp_path / "train.py").write_text("")
    (tmp_path / "job.yaml").write_text(
        "entry_point: train.py\ninstance_type: ml.c5.xlarge\ninstance_count: 1\n"
        "image_uri: 111122223333.dkr.ecr.eu-west-1.amazonaws.com/i:1\n"
        "role: arn:aws:iam::111122223333:role/r\noutput_path: s3://bucket/jobs\n"
    )
    result = subprocess.run(
        ["bash", "-c", '"$0" -m launcher run --dry-run <&- 2>&-', sys.executable],
        cwd=tmp_path,
        env={**os.environ, "AWS_DEFAULT_REGION": "eu-west-1", "LAUNCHER_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert result.returncode == 0
    assert json.loads(result.stdout)["OutputDataConfig"]["S3OutputPath"] == "s3://bucket/jobs"


def test_a_list_of_local_jobs_needs_no_request_no_aws_and_no_yaml(tmp_path):
    """Every verb opens a local session, and these libraries take longer than most verbs."""
    program = (
        "import sys\n"
        "from launcher.client.cli import main\n"
        "main(['list'], standalone_mode=False)\n"
        "print(sorted({'botocore', 'launcher.client.request', 'yaml'} & set(sys.modules)))"
    )

    answer = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "LAUNCHER_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )

    assert answer.stdout.splitlines()[-1] == "[]", answer.stderr
