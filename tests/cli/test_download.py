"""launcher download: results, and files of a host."""

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
def test_download_says_where_the_copy_is(ran):
    file = ran.folder / "copy"
    result = ran("download", "job-1", "model/weights", "--to", file)
    assert (result.exit_code, result.stdout) == (0, f"{file}\n")
    assert file.read_text() == "w"
    again = ran("download", "job-1", "/opt/ml/model/weights", "--to", ran.folder, "-o", "json")
    assert json.loads(again.stdout)["copy"] == str(ran.folder / "weights")


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["job-1", "model/x"], "host algo-1 of job job-1 has no /opt/ml/model/x"),
        (["job-1", "results"], "`launcher download job-1 --to results` writes the job's results"),
        (["job-1", "model/gone"], "no /opt/ml/model/gone: it is a link to nowhere, which is not"),
        (
            ["job-1", "model", "--host", "algo-2"],
            "job job-1 has no host 'algo-2': use one of algo-1",
        ),
        (["job-9", "model"], "there is no local job 'job-9'"),
        (["job-1", "--host", "algo-1"], "--host, and a file as --to, go with PATH"),
    ],
)
def test_what_cannot_be_copied(ran, words, message):
    result = ran("download", *words)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "earlier"),
    [
        pytest.param(["job-1", "model"], "model/mine", id="path"),
        pytest.param(["job-1"], "model.tar.gz", id="results"),
    ],
)
def test_what_is_there_is_replaced_only_after_a_question(ran, words, earlier):
    there = ran.folder / "there"
    (there / earlier).parent.mkdir(parents=True)
    (there / earlier).write_text("mine")
    refused = ran("download", *words, "--to", there)
    assert refused.exit_code == 2
    assert "--yes" in refused.stderr
    assert [path for path in there.rglob("*") if path.is_file()] == [there / earlier]
    assert (there / earlier).read_text() == "mine"
    assert ran("download", *words, "--to", there, "--yes").exit_code == 0


def test_a_job_that_saves_beside_its_code_says_so(terminal):
    script = 'import os; os.mkdir("runs"); open("runs/model.pt", "w").write("weights")\n'
    result = terminal("run", terminal.write(script), "--local", "--name", "job-1")
    assert result.exit_code == 0
    assert (
        "\nFiles    nothing was kept: write to SM_MODEL_DIR what is to stay"
        "\n         new files elsewhere, which are lost on AWS: "
        "/opt/ml/code/runs/model.pt (7 bytes)"
        "\n         launcher download job-1 code/runs/model.pt\n"
    ) in result.stdout
    nothing = terminal("download", "job-1", "--to", terminal.folder / "there")
    assert nothing.exit_code == 1
    assert "Job job-1 has no model and no output (status: Completed)" in nothing.stderr
    assert "launcher download job-1 code/runs/model.pt" in nothing.stderr
    copied = terminal("download", "job-1", "code/runs/model.pt", "--to", terminal.folder / "copy")
    assert copied.exit_code == 0
    assert (terminal.folder / "copy").read_text() == "weights"
    assert json.loads(terminal("status", "job-1", "-o", "json").stdout)["losses"]
