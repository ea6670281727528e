"""launcher init: the first job that a user sees."""

import json
import re
import shlex
import sys

import jsonschema
import pytest

from launcher.client.spec import read_value

FILES = {"job.yaml", "pipeline.py", "train.py", ".launcherignore", ".job.schema.json"}


def test_init_writes_a_job_that_describes_itself(terminal):
    folder = terminal.folder / "new"
    result = terminal("init", folder)
    assert result.exit_code == 0
    assert {path.name for path in folder.iterdir()} == FILES
    assert f"launcher run {folder / 'job.yaml'} --local" in result.stderr
    request = terminal("run", folder / "job.yaml", "--local", "--dry-run")
    assert request.exit_code == 0, request.stderr
    groups = json.loads(request.stdout)["ResourceConfig"]["InstanceGroups"]
    assert [group["InstanceGroupName"] for group in groups] == ["data_group", "train_group"]


def test_the_job_names_the_schema_beside_it_for_editors(terminal):
    schema = json.loads(terminal("check", "--schema").stdout)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)
    terminal("init", terminal.folder)
    text = (terminal.folder / "job.yaml").read_text()
    named = re.match(r"# yaml-language-server: \$schema=(\S+)\n", text)
    assert named
    assert json.loads((terminal.folder / named[1]).read_text()) == schema
    jsonschema.Draft202012Validator(schema).validate(read_value(text))
    assert named[1] in (terminal.folder / ".launcherignore").read_text().splitlines()


def test_what_to_type_next_can_be_typed(terminal):
    folder = terminal.folder / "my job"
    result = terminal("init", folder)
    commands = [line for line in result.stderr.splitlines() if line.startswith("  launcher ")]
    assert [shlex.split(line)[1:3] for line in commands] == [
        ["run", str(folder / "job.yaml")],
        ["check", str(folder / "job.yaml")],
    ]


def test_init_overwrites_nothing(terminal):
    (terminal.folder / "job.yaml").write_text("mine")
    result = terminal("init", terminal.folder)
    assert result.exit_code == 2
    assert "job.yaml" in result.stderr
    assert [path.name for path in terminal.folder.iterdir()] == ["job.yaml"]
    assert (terminal.folder / "job.yaml").read_text() == "mine"


def test_init_beside_a_script_describes_the_job_that_runs_it(terminal):
    (terminal.folder / "train.py").write_text("mine")
    (terminal.folder / ".launcherignore").write_text("data/\n")
    result = terminal("init", terminal.folder, "-o", "json")
    assert json.loads(result.stdout)["files"] == ["job.yaml", ".job.schema.json"]
    assert (terminal.folder / "train.py").read_text() == "mine"
    assert (terminal.folder / ".launcherignore").read_text() == "data/\n"
    job = terminal.folder / "job.yaml"
    assert job.read_text().startswith("# yaml-language-server: $schema=.job.schema.json\n")
    assert "entry_point: train.py\n" in job.read_text()
    assert terminal("init", terminal.folder).exit_code == 2
    (terminal.folder / "train.py").write_text("print('mine')")
    assert terminal("run", job, "--dry-run").exit_code == 0


@pytest.mark.parametrize("script", [None, "import sklearn\n"], ids=["example", "own script"])
def test_only_the_script_that_init_writes_is_said_to_need_torch(terminal, monkeypatch, script):
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    if script is not None:
        (terminal.folder / "train.py").write_text(script)
    result = terminal("init", terminal.folder)
    assert ("train.py needs PyTorch" in result.stderr) == (script is None)


@pytest.mark.long
def test_the_job_of_init_runs_at_once(terminal):
    pytest.importorskip("torch")
    terminal("init", terminal.folder)
    result = terminal("run", terminal.folder / "job.yaml", "--local", "-o", "json")
    assert result.exit_code == 0, result.stderr
    summary = json.loads(result.stdout)
    assert summary["metrics"]["accuracy"] > 0.9
    prepared = summary["data"]["batches_by_host"]
    received = summary["data"]["batches_received"]
    assert list(prepared) == ["algo-1"]
    assert sum(prepared.values()) == sum(received.values()) == 3 * 4096 // 32
