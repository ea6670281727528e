"""Checkpoints that outlive their hosts, and the interruption of spot instances."""

from __future__ import annotations

import signal

import pytest
from bench import Bench, group, processes_mentioning
from users import as_nobody, report_of
from waiting import wait_until

from launcher.errors import PlatformError, RequestRefused
from launcher.shared import signal_all

SPOT = {
    "EnableManagedSpotTraining": True,
    "StoppingCondition": {"MaxRuntimeInSeconds": 600, "MaxWaitTimeInSeconds": 600},
}
#: Counts the starts of its host in the checkpoint folder; the first one waits to be interrupted.
COUNTS_STARTS = """
    folder = ml / Path(config["checkpointconfig"]["LocalPath"]).relative_to("/opt/ml")
    mine = folder / f"{host}.txt"
    starts = int(mine.read_text()) + 1 if mine.exists() else 1
    (ml / "model" / f"of-start-{starts}").touch()
    def leave():
        mine.write_text(str(starts))
        print("saved")
        sys.exit(0)
    on_sigterm(leave)
    print("found", sorted(path.name for path in folder.iterdir()))
    print("start", starts)
    if starts == 1:
        time.sleep(600)
    """


def keeps_checkpoints(bench: Bench, **config: str) -> dict[str, object]:
    return {"CheckpointConfig": {"S3Uri": f"file://{bench.folder}/kept", **config}}


def states(description: dict[str, object]) -> list[str]:
    return [each["Status"] for each in description["SecondaryStatusTransitions"]]


@pytest.mark.long
def test_checkpoints_are_restored_kept_while_the_job_runs_and_kept_at_its_end(bench: Bench) -> None:
    kept = bench.folder / "kept"
    (kept / "old").mkdir(parents=True)
    (kept / "old" / "step-1").write_text("one")
    script = """
    folder = ml / "checkpoints"
    assert config["checkpointconfig"] == {"LocalPath": "/opt/ml/checkpoints"}
    print((folder / "old" / "step-1").read_text())
    (folder / host).mkdir()
    (folder / host / "step-2").write_text("two")
    (folder / "latest").symlink_to(folder / host / "step-2")
    (folder / "old" / "step-1").unlink()
    while not (folder / "go").exists():
        (folder / "go.draft").write_text("")  # changes all the time, and is gone at the end
        if (ml / "input/data/code/go").exists():
            (folder / "go").touch()
    (folder / "go.draft").unlink()
    (folder / host / "step-3").write_text("three")
    """
    bench.start(script, groups=[group("data", 1), group("train", 1)], **keeps_checkpoints(bench))
    wait_until((kept / "algo-1" / "step-2").exists)
    wait_until((kept / "algo-2" / "step-2").exists)
    assert bench.describe()["SecondaryStatus"] == "Training"
    bench.go()

    assert bench.end_of()["TrainingJobStatus"] == "Completed"
    assert bench.lines() == {"algo-1": ["one"], "algo-2": ["one"]}
    files = {path.relative_to(kept).as_posix(): path for path in kept.rglob("*") if path.is_file()}
    expected = {f"algo-{n}/step-{step}" for n in (1, 2) for step in (2, 3)}
    assert set(files) - {"go.draft"} == {"old/step-1", "latest", "go"} | expected
    assert files["algo-2/step-3"].read_text() == "three"
    assert files["old/step-1"].read_text() == "one", "nothing is deleted there"
    assert str(files["latest"].readlink()) in ("algo-1/step-2", "algo-2/step-2")


def test_an_interrupted_job_starts_again_from_its_checkpoints(bench: Bench) -> None:
    place = keeps_checkpoints(bench, LocalPath="/opt/ml/saved/here")
    bench.start(COUNTS_STARTS, hosts=2, **SPOT, **place)
    bench.wait_for_line("start 1", hosts=2)
    bench.session.interrupt_training_job(TrainingJobName="job")

    description = bench.end_of()
    assert states(description) == [
        "Starting",
        "Downloading",
        "Training",
        "Interrupted",
        "Starting",
        "Downloading",
        "Training",
        "Uploading",
        "Completed",
    ]
    streams = bench.session.log_streams("job")
    assert [stream.host for stream in streams] == ["algo-1", "algo-1", "algo-2", "algo-2"]
    lines = [
        [event.text for event in bench.session.read_log("job", stream.name)[0]]
        for stream in streams
    ]
    first = ["found []", "start 1", "saved"]
    second = ["found ['algo-1.txt', 'algo-2.txt']", "start 2"]
    assert lines == [first, second, first, second]
    assert not list(bench.job_folder().glob("hosts/*/ml/model/of-start-1")), "its disks are gone"


@pytest.mark.long
def test_what_hosts_have_closed_is_removed_at_an_interruption_and_copied_again() -> None:
    found = report_of("modes_scenario.py", as_nobody)
    assert found == {"ending": ["Completed", None], "left": [], "copies": ["x", "x"]}


def test_a_job_that_is_stopped_while_it_is_interrupted(default_bench: Bench) -> None:
    default_bench.start('on_sigterm(signal.SIG_IGN); print("up"); time.sleep(600)', **SPOT)
    default_bench.wait_for_line("up")
    default_bench.session.interrupt_training_job(TrainingJobName="job")
    wait_until(lambda: default_bench.describe()["SecondaryStatus"] == "Interrupted")
    default_bench.stop()
    # As the end of the grace period would.
    signal_all(processes_mentioning(f"{default_bench.job_folder()}/hosts"), signal.SIGKILL)

    description = default_bench.end_of()
    assert description["TrainingJobStatus"] == "Stopped"
    assert states(description)[-4:] == ["Interrupted", "Stopping", "Uploading", "Stopped"]


@pytest.mark.long
def test_the_time_to_wait_is_up(impatient: Bench) -> None:
    # The wait begins at the job's creation, before the running, and so ends before it.
    condition = {"MaxRuntimeInSeconds": 1, "MaxWaitTimeInSeconds": 1}
    description = impatient.run("time.sleep(600)", **{**SPOT, "StoppingCondition": condition})

    assert description["TrainingJobStatus"] == "Stopped"
    assert description["SecondaryStatus"] == "MaxWaitTimeExceeded"


def test_a_wait_shorter_than_the_run_is_refused_as_aws_does(plain_bench: Bench) -> None:
    condition = {"MaxRuntimeInSeconds": 600, "MaxWaitTimeInSeconds": 599}
    with pytest.raises(
        RequestRefused,
        match=r"MaxWaitTimeInSeconds \(599\) is less than MaxRuntimeInSeconds \(600\)",
    ):
        plain_bench.start("pass", **{**SPOT, "StoppingCondition": condition})
    assert not plain_bench.job_folder().exists()


@pytest.mark.long
def test_the_running_time_counts_all_attempts(impatient: Bench) -> None:
    condition = {"MaxRuntimeInSeconds": 15, "MaxWaitTimeInSeconds": 600}
    impatient.start('print("up"); time.sleep(600)', **{**SPOT, "StoppingCondition": condition})
    for _ in range(2):
        wait_until(lambda: impatient.describe()["SecondaryStatus"] == "Training")
        impatient.wait_for_line("up")
        impatient.session.interrupt_training_job(TrainingJobName="job")
        wait_until(lambda: not (impatient.job_folder() / "interrupt").exists())

    description = impatient.end_of()
    assert states(description).count("Interrupted") == 2
    assert description["SecondaryStatus"] == "MaxRuntimeExceeded"
    assert description["TrainingTimeInSeconds"] >= 15


def test_one_bad_checkpoint_costs_neither_the_others_nor_the_model(default_bench: Bench) -> None:
    kept = default_bench.folder / "kept"
    (kept / "b").mkdir(parents=True)
    script = """
    for name in "abc":
        (ml / "checkpoints" / name).write_text(name)
    (ml / "model" / "weights").touch()
    """
    description = default_bench.run(script, **keeps_checkpoints(default_bench))

    assert description["TrainingJobStatus"] == "Failed"
    assert "cannot write checkpoints to file://" in description["FailureReason"]
    assert "Is a directory" in description["FailureReason"]
    assert sorted(path.name for path in kept.iterdir()) == ["a", "b", "c"]
    assert (default_bench.output / "job" / "output" / "model.tar.gz").exists()


#: Saves a checkpoint folder, and repoints `latest` to it, until another program interrupts it.
LATEST = """
folder = {folder}
latest = ml / "checkpoints" / "latest"
found = latest.is_dir() and sorted(path.name for path in latest.iterdir())
print("latest", found, latest.is_symlink() and latest.readlink())
step = int((latest / "step").read_text()) if found else 0
for step in (step + 1, step + 2):
    save = folder / f"ckpt-{{step}}"
    save.mkdir(parents=True)
    (save / "step").write_text(str(step))
    (save / f"only-{{step}}").write_text("weights")
    (save / "parts").mkdir()
    (save / "parts" / "0").write_text(str(step))
    if latest.is_dir() and not latest.is_symlink():
        import shutil
        shutil.rmtree(latest)
    draft = ml / "draft"
    draft.symlink_to({text})
    draft.replace(latest)
    time.sleep({seconds})
print("saved", step)
if step == 2:
    time.sleep(600)
"""


@pytest.mark.parametrize(
    ("folder", "text", "first"),
    [
        pytest.param('ml / "checkpoints"', "save.name", "ckpt-2", id="relative"),
        pytest.param('ml / "checkpoints"', "save", "ckpt-2", id="absolute", marks=pytest.mark.long),
        pytest.param('ml / "output/data"', "save", False, id="elsewhere"),
        pytest.param('Path(os.environ["HOME"])', "save", False, id="home", marks=pytest.mark.long),
        pytest.param(
            'Path(os.environ["TMPDIR"]) / "runs"', "save", False, id="tmp", marks=pytest.mark.long
        ),
    ],
)
def test_a_folder_that_is_a_link_is_restored(
    bench: Bench, folder: str, text: str, first: str | bool
) -> None:
    if bench.image != "local" and "environ" in folder:
        pytest.skip("of a container's own folders, images decide")
    script = LATEST.format(folder=folder, text=text, seconds=0)
    bench.start(script, **SPOT, **keeps_checkpoints(bench))
    bench.wait_for_line("saved 2")
    bench.session.interrupt_training_job(TrainingJobName="job")

    description = bench.end_of()
    assert description["TrainingJobStatus"] == "Completed", description
    assert states(description).count("Interrupted") == 1
    again = bench.session.log_streams("job")[-1]
    lines = [event.text for event in bench.session.read_log("job", again.name)[0]]
    assert lines == [f"latest ['only-2', 'parts', 'step'] {first}", "saved 4"]
    latest = bench.folder / "kept" / "latest"
    assert latest.is_symlink() == bool(first)
    assert sorted(path.name for path in latest.iterdir()) == ["only-4", "parts", "step"]
    assert (latest / "parts" / "0").read_text() == "4"
    assert not list((bench.folder / "kept").rglob(".launcher-partial-*"))


def test_a_job_that_ends_or_has_ended_is_not_interrupted(plain_bench: Bench) -> None:
    script = 'on_sigterm(lambda *_: print("asked")); print("up"); time.sleep(600)'
    plain_bench.start(script, **SPOT)
    plain_bench.wait_for_line("up")
    plain_bench.stop()

    with pytest.raises(PlatformError, match="is ending: Stopping"):
        plain_bench.session.interrupt_training_job(TrainingJobName="job")
    plain_bench.wait_for_line("asked")  # a host that ends before has failed
    signal_all(processes_mentioning(f"{plain_bench.job_folder()}/hosts"), signal.SIGKILL)
    plain_bench.end_of()
    with pytest.raises(PlatformError, match="has already ended: Stopped"):
        plain_bench.session.interrupt_training_job(TrainingJobName="job")


@pytest.mark.parametrize(
    "field",
    [
        pytest.param("CheckpointConfig", id="checkpoints"),
        pytest.param("OutputDataConfig", id="output"),
    ],
)
@pytest.mark.parametrize("below", ["", "/below"])
def test_a_place_that_is_a_file(plain_bench: Bench, field: str, below: str) -> None:
    file = plain_bench.folder / "file"
    file.touch()
    key = {"CheckpointConfig": "S3Uri", "OutputDataConfig": "S3OutputPath"}[field]
    with pytest.raises(PlatformError, match=f"{file} is not a folder"):
        plain_bench.start("pass", **{field: {key: f"file://{file}{below}"}})


@pytest.mark.parametrize(
    ("config", "message"),
    [
        pytest.param({"S3Uri": "s3://bucket/kept"}, "no AWS credentials are found", id="S3"),
        pytest.param({"LocalPath": "/opt/ml"}, "/opt/ml is not a folder below", id="the root"),
        pytest.param({"LocalPath": "/home/me"}, "/home/me is not a folder below", id="elsewhere"),
        pytest.param({"LocalPath": "/opt/ml/../x"}, "is not a folder below", id="out of it"),
    ],
)
def test_checkpoint_places_that_a_local_job_does_not_have(
    plain_bench: Bench, config: dict[str, str], message: str
) -> None:
    with pytest.raises(PlatformError, match=message):
        plain_bench.start("pass", **keeps_checkpoints(plain_bench, **config))
    assert not plain_bench.job_folder().exists()
