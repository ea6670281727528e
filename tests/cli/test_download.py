"""launcher download: results, and files of a host."""

import json

import pytest

SCRIPT = """\
from pathlib import Path
import os
(Path(os.environ["SM_MODEL_DIR"]) / "weights").write_text("w")
(Path(os.environ["SM_MODEL_DIR"]) / "gone").symlink_to("nowhere")
"""


#: What cannot be copied, and why.
REFUSED = {
    ("job-1", "model/x"): "host algo-1 of job job-1 has no /opt/ml/model/x",
    ("job-1", "results"): "`launcher download job-1 --to results` writes the job's results",
    ("job-1", "model/gone"): "no /opt/ml/model/gone: it is a link to nowhere, which is not",
    ("job-1", "model", "--host", "algo-2"): "job job-1 has no host 'algo-2': use one of algo-1",
    ("job-9", "model"): "there is no local job 'job-9'",
    ("job-1", "--host", "algo-1"): "--host, and a file as --to, go with PATH",
}


@pytest.mark.long
def test_what_is_copied_and_what_is_not(terminal):
    ran = terminal("run", terminal.write(SCRIPT), "--local", "--name", "job-1")
    assert ran.exit_code == 0, ran.stderr

    file = terminal.folder / "copy"
    result = terminal("download", "job-1", "model/weights", "--to", file)
    assert (result.exit_code, result.stdout) == (0, f"{file}\n")
    assert file.read_text() == "w"
    words = ("job-1", "/opt/ml/model/weights", "--to", terminal.folder, "-o", "json")
    copy = json.loads(terminal("download", *words).stdout)["copy"]
    assert copy == str(terminal.folder / "weights")

    for words, message in REFUSED.items():
        result = terminal("download", *words)
        assert result.exit_code == 2
        assert message in result.stderr

    for words, earlier in ((("job-1", "model"), "model/mine"), (("job-1",), "model.tar.gz")):
        there = terminal.folder / f"there-{len(words)}"
        (there / earlier).parent.mkdir(parents=True)
        (there / earlier).write_text("mine")
        refused = terminal("download", *words, "--to", there)
        assert refused.exit_code == 2
        assert "--yes" in refused.stderr
        assert [path for path in there.rglob("*") if path.is_file()] == [there / earlier]
        assert (there / earlier).read_text() == "mine"
        assert terminal("download", *words, "--to", there, "--yes").exit_code == 0


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
