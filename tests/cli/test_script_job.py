"""launcher run SCRIPT: the job file that is assumed, shown and saved."""

import json

import pytest

from launcher.client.spec import JobSpec

LOADS = """\
from launcher.data import DataLoader

class Squares:
    def __len__(self):
        return 32
    def __getitem__(self, place):
        return {"square": float(place * place)}

def squares():
    return Squares()

if __name__ == "__main__":
    total = sum(batch["square"].sum() for batch in DataLoader("train:squares", batch_size=4))
    print("total", int(total))
"""
ONE_HOST = "entry_point: train.py\nsource_dir: .\ninstance_type: local\ninstance_count: 1\n"


@pytest.fixture
def here(terminal, monkeypatch):
    """A terminal in its folder, which has train.py alone."""
    (terminal.folder / "train.py").write_text(LOADS)
    monkeypatch.chdir(terminal.folder)
    return terminal


def test_a_script_is_a_job_of_one_host_of_this_machine(here):
    result = here("run", "train.py", "--name", "job-1", "--env", "TOKEN=secret")
    assert result.exit_code == 0, result.stderr
    assert "homogeneousCluster/algo-1 | total 10416" in result.stderr
    shown = "\n".join(f"  {line}" for line in ONE_HOST.splitlines())
    assert f"train.py without a job file: assumed this one (--save FILE keeps it)\n{shown}\n" in (
        result.stderr
    )
    assert "secret" not in result.stderr


@pytest.mark.long
def test_a_data_group_prepares_and_the_file_that_is_saved_describes_the_same_job(here):
    result = here("run", "train.py", "--data-group", "--save", "job.yaml", "--name", "job-1")
    assert result.exit_code == 0, result.stderr
    assert "train_group/algo-2 | total 10416" in result.stderr
    assert "8 batches prepared (algo-1 8)" in result.stdout
    again = here("run", "--name", "job-2", "-o", "json")
    assert json.loads(again.stdout)["data"]["batches_by_host"] == {"algo-1": 8}


def test_a_saved_file_is_relative_to_its_folder_and_has_the_changes(here, monkeypatch, tmp_path):
    (tmp_path / "jobs").mkdir()
    monkeypatch.chdir(tmp_path)
    options = ("--set", "hyperparameters.epochs=3", "--set", "image_uri=x", "--session", "aws")
    file = tmp_path / "jobs" / "mine.yaml"
    here("run", "project/train.py", *options, "--save", file, "--dry-run")
    spec = JobSpec.from_yaml(file)
    assert spec.source_dir == str(here.folder)
    assert spec.hyperparameters == {"epochs": 3}
    assert "source_dir: ../project\n" in file.read_text()


def test_on_aws_the_data_host_is_of_a_small_type(here):
    options = ("--instance-type", "ml.g5.xlarge", "--data-group", "--save", "job.yaml")
    here("run", "train.py", *options, "--dry-run")
    groups = [
        (g.instance_group_name, g.instance_type) for g in JobSpec.from_yaml("job.yaml").groups
    ]
    assert groups == [("data_group", "ml.c5.xlarge"), ("train_group", "ml.g5.xlarge")]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(
            ["trian.py"],
            'there is no file trian.py\n  where: FOLDER\n  fix: did you mean "train.py"?',
            id="no such script",
        ),
        pytest.param(
            ["train.py", "--data-group", "ml.c5.xlarge"],
            "give its type as well: --instance-type TYPE",
            id="a type of AWS beside this machine",
        ),
        pytest.param(
            ["--data-group", "train.py"], "launcher run train.py --data-group", id="options first"
        ),
        pytest.param(
            ["train.py", "--local", "--instance-type", "ml.g5.xlrge"],
            '"ml.g5.xlrge" is not an instance type',
            id="a typo",
        ),
        pytest.param(
            ["train.py", "--save", "train.py"],
            "train.py exists, and was not overwritten",
            id="a file that exists",
        ),
        pytest.param(
            ["train.py", "--save", "no/job.yaml"],
            "cannot write no/job.yaml: No such file",
            id="no folder",
        ),
        pytest.param(
            ["other.yaml", "--data-group"], "--data-group goes with a script", id="a job file"
        ),
        pytest.param(["job.yaml"], "`launcher run train.py` needs none", id="no job file"),
    ],
)
def test_what_does_not_go_is_refused_before_anything_is_made(here, words, message):
    result = here("run", *words)
    assert result.exit_code == 2
    assert message.replace("FOLDER", str(here.folder)) in result.stderr
    assert not here.home.exists()


@pytest.mark.long
def test_a_verb_of_job_files_names_the_command_that_writes_one(here):
    assert "`launcher run train.py --save job.yaml`" in here("check", "train.py").stdout
