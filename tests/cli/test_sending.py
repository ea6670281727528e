"""launcher run without --local: the plan, the ceiling, the question, and the job on AWS."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from launcher import PyTorch
from launcher.errors import SpecError

JOB = """\
entry_point: train.py
source_dir: .
instance_groups:
  - {instance_group_name: data_group, instance_type: ml.c5.9xlarge, instance_count: 2}
  - {instance_group_name: train_group, instance_type: ml.g5.12xlarge}
data_service: {datasets: ["train:train_set"]}
max_run: 3600
image_uri: 111122223333.dkr.ecr.eu-west-1.amazonaws.com/image:1
role: arn:aws:iam::111122223333:role/Training
output_path: s3://my-bucket/output
"""
SCRIPT = 'def train_set(): ...\nif __name__ == "__main__":\n    ...\n'
UNPRICED = ("--set", "instance_groups.train_group.instance_type=ml.p4d.24xlarge")


@pytest.fixture
def job(terminal, aws):
    """The job file; the bucket of its output exists."""
    aws("s3").create_bucket(
        Bucket="my-bucket", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
    )
    return terminal.write(SCRIPT, JOB)


@pytest.fixture
def prices(terminal):
    """The user's prices of this region."""
    terminal.home.mkdir(exist_ok=True)
    text = "instance_type,price_per_hour\nml.c5.9xlarge,1.836\nml.g5.12xlarge,7.09\nstorage,0.14\n"
    (terminal.home / "prices.csv").write_text(text)


def names(aws):
    summaries = aws("sagemaker").list_training_jobs()["TrainingJobSummaries"]
    return [summary["TrainingJobName"] for summary in summaries]


@pytest.mark.slow  # it waits until the last lines of CloudWatch must have come
def test_a_job_is_planned_sent_and_followed_to_its_end(terminal, aws, job):
    result = terminal("run", job, "--yes", "--name", "digits-1")

    assert result.exit_code == 0, result.stderr
    assert (
        "data_group   data   ml.c5.9xlarge       2    72  -          $3.67   $3.67" in result.stderr
    )
    assert "us-east-1 on-demand prices of July 2026 (2 months old; `launcher" in result.stderr
    assert "Job digits-1 runs on SageMaker in eu-west-1" in result.stderr
    assert "Status   Completed" in result.stdout
    assert "$3.67" not in result.stdout
    assert names(aws) == ["digits-1"]
    code = aws("s3").list_objects_v2(Bucket="my-bucket", Prefix="output/digits-1/code/")
    assert code["KeyCount"] == 3


@pytest.mark.long
def test_the_plan_is_talk_and_the_answer_has_the_cost(terminal, job):
    result = terminal("run", job, "--yes", "--detach", "-o", "json")

    assert "data_group   data   ml.c5.9xlarge       2    72  -          $3.67" in result.stderr
    assert f"Endpoint {os.environ['AWS_ENDPOINT_URL']} (AWS_ENDPOINT_URL)" in result.stderr
    answer = json.loads(result.stdout)
    assert answer["status"] == "Completed"
    assert answer["cost"]["max_dollars"] == pytest.approx(10.762)
    assert answer["cost"]["prices"] == [
        "us-east-1 on-demand prices of July 2026 (2 months old; `launcher plan types --update "
        "--region eu-west-1` reads AWS's); eu-west-1 differs"
    ]


@pytest.mark.long
def test_an_old_price_is_marked_in_the_plan_the_summary_and_the_list(terminal, aws, job):
    prices = terminal.home / "catalogue" / "prices" / "eu-west-1.csv"
    prices.parent.mkdir(parents=True)
    head = "instance_type,price_per_hour,region,as_of,source"
    listed = "eu-west-1,2020-01-31,pricing"
    prices.write_text(f"{head}\nml.c5.9xlarge,1.5,{listed}\nml.g5.12xlarge,7.09,{listed}\n")
    result = terminal("run", job, "--yes", "--detach", "--name", "digits-1", "-o", "json")

    lines = {line.split()[0]: line.split()[-2:] for line in result.stderr.splitlines() if line}
    assert lines["data_group"] == ["$3.00*", "$3.00*"]
    assert lines["train_group"] == ["$7.09*", "$7.09*"]
    assert lines["total"] == ["$10.09*", "$10.09*"]
    old = "January 2020* (80 months old; `launcher plan types --update --region eu-west-1` reads"
    assert f"eu-west-1 on-demand prices of {old} AWS's)" in result.stderr
    assert json.loads(result.stdout)["cost"]["prices_are_old"] is True
    assert old in terminal("status", "digits-1").stdout


@pytest.mark.long
def test_detached_it_is_sent_and_left(terminal, aws, job):
    result = terminal("run", job, "--yes", "--detach", "--name", "digits-1")

    assert (result.exit_code, result.stdout) == (0, "digits-1\n")
    assert names(aws) == ["digits-1"]


def test_below_the_ceiling_it_is_sent(terminal, aws, job, prices):
    assert terminal("run", job, "--yes", "--detach", "--max-cost", "11.14").exit_code == 0
    assert len(names(aws)) == 1


@pytest.mark.parametrize(
    ("options", "word"),
    [
        pytest.param(["--max-cost", "11.13", "--yes"], "may cost $11.13 in 1h02m", id="above"),
        pytest.param(["--max-cost", "1e6", "--yes", *UNPRICED], "prices.csv", id="unknown price"),
        pytest.param([], "--yes", id="no terminal"),
    ],
)
def test_what_is_refused_leaves_nothing_behind(terminal, aws, job, prices, options, word):
    result = terminal("run", job, *options, "-o", "json")

    assert result.exit_code == 2
    assert word in result.stderr
    assert json.loads(result.stdout)["error"]["type"] == "SpecError"
    assert names(aws) == []
    assert aws("s3").list_objects_v2(Bucket="my-bucket")["KeyCount"] == 0


def test_a_bad_ceiling_is_a_usage_error(terminal, job):
    assert terminal("run", job, "--max-cost", "-1").exit_code == 2


@pytest.mark.long
def test_a_dry_run_shows_the_plan_and_prints_what_would_be_sent(terminal, aws, job):
    shown = terminal("run", job, "--dry-run", "--name", "digits-1")
    assert shown.exit_code == 0
    assert "train_group  train  ml.g5.12xlarge" in shown.stderr
    assert names(aws) == []

    terminal("run", job, "--yes", "--detach", "--name", "digits-1")
    sent = aws("sagemaker").describe_training_job(TrainingJobName="digits-1")
    request = json.loads(shown.stdout)
    for field in ("ResourceConfig", "StoppingCondition", "InputDataConfig", "OutputDataConfig"):
        assert request[field] == sent[field]


def test_a_dry_run_is_refused_above_the_ceiling_too(terminal, offline):
    job = terminal.write(SCRIPT, JOB)
    result = terminal("run", job, "--dry-run", "--max-cost", "1")
    assert result.exit_code == 2
    assert result.stdout == ""


def test_without_a_region_the_fix_names_it_and_this_machine(terminal, offline):
    result = terminal("run", terminal.write(SCRIPT, JOB), "--yes")
    assert result.exit_code == 4
    assert "AWS_DEFAULT_REGION" in result.stderr
    assert "--local" in result.stderr


@pytest.mark.long
def test_without_credentials_the_fix_names_them_and_this_machine(terminal, credentials):
    credentials.delenv("AWS_ACCESS_KEY_ID")
    credentials.delenv("AWS_SECRET_ACCESS_KEY")
    result = terminal("run", terminal.write(SCRIPT, JOB), "--yes")
    assert result.exit_code == 4
    assert "credentials" in result.stderr
    assert "--local" in result.stderr


# On a terminal ---------------------------------------------------------------------------------


class Screen:
    """`launcher run` on a terminal of its own: both ends of what is typed and shown."""

    def __init__(self, terminal, *arguments):
        self.end, inside = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "launcher", "run", *map(str, arguments)],
            env={**os.environ, **terminal.environment, "COLUMNS": "60"},
            stdin=inside,
            stdout=subprocess.PIPE,
            stderr=inside,
            text=True,
            start_new_session=True,
        )
        os.close(inside)
        self.shown = ""

    def read_until(self, text):
        while text not in self.shown:
            self.shown += self._read() or pytest.fail(f"{text!r} never came:\n{self.shown}")

    def type(self, text):
        os.write(self.end, text.encode())

    def wait_until_it_reads(self):
        """A signal before that would be kept until the next key."""
        stat = Path(f"/proc/{self.process.pid}/stat")
        while stat.read_text().rpartition(")")[2].split()[0] != "S":
            assert self.process.poll() is None

    def finish(self):
        """The exit code, and what was on stdout."""
        stdout, _ = self.process.communicate(timeout=540)
        while more := self._read():
            self.shown += more
        os.close(self.end)
        return self.process.returncode, stdout

    def _read(self):
        try:
            return os.read(self.end, 4096).decode()
        except OSError:  # Linux says so when the last writer has gone
            return ""


@pytest.mark.long
def test_on_a_terminal_the_user_is_asked_and_confirms(terminal, aws, job):
    screen = Screen(terminal, job, "--name", "digits-1", "--detach")
    screen.read_until("Send job digits-1? [Y/n]")
    assert "ml.g5.12xlarge" in screen.shown
    assert "Not shown in 60 columns: vCPU, GPU" in screen.shown
    assert names(aws) == []
    screen.type("\n")

    assert screen.finish() == (0, "digits-1\n")
    assert names(aws) == ["digits-1"]


@pytest.mark.long
@pytest.mark.parametrize("leave", ["n", "Ctrl-C"])
def test_on_a_terminal_the_user_is_asked_and_leaves(terminal, aws, job, leave):
    screen = Screen(terminal, job, "--name", "digits-1")
    screen.read_until("Send job digits-1? [Y/n]")
    if leave == "n":
        screen.type("n\n")
    else:
        screen.wait_until_it_reads()
        screen.process.send_signal(signal.SIGINT)

    assert screen.finish() == (3, "")
    assert "job digits-1 was not sent; nothing was created" in screen.shown
    assert names(aws) == []
    assert aws("s3").list_objects_v2(Bucket="my-bucket")["KeyCount"] == 0


@pytest.mark.long
def test_yes_asks_nothing_on_a_terminal(terminal, aws, job):
    screen = Screen(terminal, job, "--name", "digits-1", "--yes", "--detach")
    assert screen.finish() == (0, "digits-1\n")
    assert "[Y/n]" not in screen.shown


# A source that may be the wrong one -------------------------------------------------------------


@pytest.mark.parametrize("words", [[], ["--dry-run", "--upload"]], ids=["run", "upload"])
def test_a_home_folder_is_sent_only_after_a_question(terminal, aws, job, monkeypatch, words):
    monkeypatch.setenv("HOME", str(terminal.folder))
    result = terminal("run", job, "--detach", *words)
    assert result.exit_code == 2
    assert "is a home folder" in result.stderr
    assert "--yes" in result.stderr
    assert names(aws) == []
    assert aws("s3").list_objects_v2(Bucket="my-bucket")["KeyCount"] == 0
    assert terminal("run", job, "--detach", "--yes", *words).exit_code == 0
    assert aws("s3").list_objects_v2(Bucket="my-bucket")["KeyCount"] > 0


def test_a_home_folder_may_run_here_and_be_looked_at(terminal, aws, job, monkeypatch):
    monkeypatch.setenv("HOME", str(terminal.folder))
    assert terminal("run", job, "--dry-run").exit_code == 0


@pytest.mark.long
@pytest.mark.parametrize("answer", ["y", "n"])
def test_on_a_terminal_the_user_is_asked_about_it(terminal, aws, job, monkeypatch, answer):
    monkeypatch.setenv("HOME", str(terminal.folder))
    screen = Screen(terminal, job, "--name", "digits-1", "--detach")
    screen.read_until("Send this source? [y/N]")
    screen.type(f"{answer}\n")
    if answer == "y":
        screen.read_until("Send job digits-1? [Y/n]")
        screen.type("\n")
    assert screen.finish() == ((0, "digits-1\n") if answer == "y" else (3, ""))
    assert names(aws) == (["digits-1"] if answer == "y" else [])


def in_python(terminal):
    return PyTorch(
        "train.py",
        source_dir=str(terminal.folder),
        instance_type="ml.g5.xlarge",
        instance_count=1,
        image_uri="111122223333.dkr.ecr.eu-west-1.amazonaws.com/image:1",
        role="arn:aws:iam::111122223333:role/Training",
        output_path="s3://my-bucket/output",
    )


def test_from_python_it_needs_an_argument(aws, job, terminal, monkeypatch):
    monkeypatch.setenv("HOME", str(terminal.folder))
    estimator = in_python(terminal)
    with pytest.raises(SpecError, match=r"is a home folder") as caught:
        estimator.fit(wait=False)
    assert "any_source=True" in str(caught.value)
    assert names(aws) == []
    estimator.fit(wait=False, any_source=True)
    assert len(names(aws)) == 1


def test_packing_a_large_source_is_shown(terminal):
    with (terminal.folder / "big").open("wb") as file:
        file.truncate(60 << 20)
    result = terminal("run", terminal.write(), "--local", "--name", "job-1")
    assert result.exit_code == 0, result.stderr
    assert result.stderr.index("the source folder has 60.0 MiB") < result.stderr.index("packing")
    assert re.search(r"packing the source: (6\d) of \1 MiB", result.stderr)


@pytest.mark.long  # it packs 60 MB that cannot be packed
def test_in_python_what_is_packed_and_stored_is_shown(aws, job, terminal, capsys):
    (terminal.folder / "big").write_bytes(os.urandom(60 << 20))
    with pytest.warns(UserWarning, match="the source folder has 60.0 MiB"):
        in_python(terminal).fit(wait=False)
    lines = capsys.readouterr().out.splitlines()
    for step in ("packing", "storing"):
        shown = [line for line in lines if line.startswith(f"({step} the source: ")]
        assert re.fullmatch(rf"\({step} the source: (6\d) of \1 MiB\)", shown[-1])
        assert len(shown) > 5
