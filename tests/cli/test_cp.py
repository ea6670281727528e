"""launcher cp: files of a host."""

import json

import pytest

SCRIPT = """\
from pathlib import Path
import os
(Path(os.environ["SM_MODEL_DIR"]) / "weights").write_text("w")
(Path(os.environ["SM_MODEL_DIR"]) / "gone").symlink_to("nowhere")
"""


@pytest.fixture
def ran(terminal):
    result = terminal("run", terminal.write(SCRIPT), "--local", "--name", "job-1")
    assert result.exit_code == 0, result.stderr
    return terminal


@pytest.mark.long
def test_cp_says_where_the_copy_is(ran):
    file = ran.folder / "copy"
    result = ran("cp", "job-1:model/weights", file)
    assert (result.exit_code, result.stdout) == (0, f"{file}\n")
    assert file.read_text() == "w"
    again = ran("cp", "job-1/algo-1:/opt/ml/model/weights", ran.folder, "-o", "json")
    assert json.loads(again.stdout)["copy"] == str(ran.folder / "weights")


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["job-1", "."], "'job-1' is not NAME:PATH: write for example my-job:model"),
        (["job-1/algo-1:model", ".", "--host", "algo-2"], "names host algo-1, and --host algo-2"),
        (["job-1:model/x", "."], "host algo-1 of job job-1 has no /opt/ml/model/x"),
        (["job-1:model/gone", "."], "no /opt/ml/model/gone: it is a link to nowhere, which is not"),
        (["job-1/algo-2:model", "."], "job job-1 has no host 'algo-2': use one of algo-1"),
        (["job-9:model", "."], "there is no local job 'job-9'"),
    ],
)
def test_what_cannot_be_copied(ran, words, message):
    result = ran("cp", *words)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("verb", "earlier"),
    [
        pytest.param(["cp", "job-1:model"], "model/mine", id="cp"),
        pytest.param(["download", "job-1"], "model.tar.gz", id="download"),
    ],
)
def test_what_is_there_is_replaced_only_after_a_question(ran, verb, earlier):
    there = ran.folder / "there"
    (there / earlier).parent.mkdir(parents=True)
    (there / earlier).write_text("mine")
    refused = ran(*verb, there)
    assert refused.exit_code == 2
    assert "--yes" in refused.stderr
    assert [path for path in there.rglob("*") if path.is_file()] == [there / earlier]
    assert (there / earlier).read_text() == "mine"
    assert ran(*verb, there, "--yes").exit_code == 0


def test_a_job_that_saves_beside_its_code_says_so(terminal):
    script = 'import os; os.mkdir("runs"); open("runs/model.pt", "w").write("weights")\n'
    result = terminal("run", terminal.write(script), "--local", "--name", "job-1")
    assert result.exit_code == 0
    assert (
        "\nFiles    nothing was kept: write to SM_MODEL_DIR what is to stay"
        "\n         new files elsewhere, which are lost on AWS: "
        "/opt/ml/code/runs/model.pt (7 bytes)"
        "\n         launcher cp job-1:code/runs/model.pt .\n"
    ) in result.stdout
    nothing = terminal("download", "job-1", terminal.folder / "there")
    assert nothing.exit_code == 1
    assert "Job job-1 has no model and no output (status: Completed)" in nothing.stderr
    assert "launcher cp job-1:code/runs/model.pt ." in nothing.stderr
    copied = terminal("cp", "job-1:code/runs/model.pt", terminal.folder / "copy")
    assert copied.exit_code == 0
    assert (terminal.folder / "copy").read_text() == "weights"
    assert json.loads(terminal("status", "job-1", "-o", "json").stdout)["losses"]
