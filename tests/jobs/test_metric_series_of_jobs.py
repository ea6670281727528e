"""job.metric_series(): the values of a job's metrics over time, from its lines."""

import sys

import pytest

from launcher import (
    Estimator,
    InstanceGroup,
    LauncherError,
    MemoryRun,
    MemorySession,
    MetricDefinition,
    SpecError,
)

LINES = (
    "loss=0.5",
    "launcher: host_usage host=algo-1 cpu=0.25 cpus=4 memory_bytes=1000",
    "launcher: train_step rank=0 epoch=0 step=3 steps=9 loss=0.7 data_wait=0.1"
    " samples_per_second=64.5",
    "launcher: train_step rank=1 epoch=0 step=3 steps=9 loss=0.9 data_wait=0.2"
    " samples_per_second=60.5",
    "launcher: data_progress epoch=0 step=10 steps=20 wait_seconds=1.0 total_seconds=4.0",
    "launcher: evaluation rank=0 epoch=0 step=3 validation_loss=0.6 validation_accuracy=0.75",
    "loss=nan",
    "loss=0.25",
)
LOSS = MetricDefinition("loss", r"^loss=(\S+)")


@pytest.fixture
def run(tmp_path):
    """Run a job whose only host prints lines; return it."""

    def run(*lines, metrics=(LOSS,)):
        (tmp_path / "train.py").write_text("")
        estimator = Estimator(
            entry_point="train.py",
            source_dir=str(tmp_path),
            role="arn:aws:iam::111122223333:role/r",
            image_uri="111122223333.dkr.ecr.eu-west-1.amazonaws.com/i:1",
            instance_groups=[InstanceGroup("train_group", "ml.c5.xlarge", 1)],
            metric_definitions=metrics,
            sagemaker_session=MemorySession(lambda _request: MemoryRun(lines=lines)),
        )
        return estimator.fit(logs=False, job_name="job-1")

    return run


def found(job):
    return {each.metric_name: each.values for each in job.metric_series().series}


def test_a_job_has_its_own_metrics_and_launchers_figures(run):
    assert found(run(*LINES)) == {
        "loss": (0.5, 0.25),  # NaN is a record, and no point of a line
        "data/steps_per_second": (2.5,),
        "data/wait_share": (0.25,),
        "host/cpu": (0.25,),
        "host/memory_bytes": (1000.0,),
        "train/data_wait_seconds": (0.1,),  # of the first rank alone
        "train/loss": (0.7,),
        "train/samples_per_second": (64.5,),
        "validation/accuracy": (0.75,),
        "validation/loss": (0.6,),
    }


def test_a_record_has_its_origin_and_step(run):
    metrics = run(*LINES).metric_series()
    assert metrics.names[0] == "loss"  # the job's own come first
    by_name = {record.metric_name: record for record in metrics.records}
    assert (by_name["train/loss"].host, by_name["train/loss"].group) == ("algo-1", "train_group")
    assert by_name["train/loss"].step == 3
    assert by_name["validation/loss"].step == 3
    assert by_name["loss"].step is None
    assert by_name["host/cpu"].step is None


def test_a_definition_wins_over_a_figure_of_its_name(run):
    cpu = MetricDefinition("host/cpu", r"cpus=(\d+)")
    assert found(run(*LINES, metrics=(cpu,)))["host/cpu"] == (4.0,)


def test_names_are_chosen_and_checked(run):
    job = run(*LINES)
    assert job.metric_series(["host/cpu"]).names == ["host/cpu"]
    with pytest.raises(SpecError, match=r"no metric 'lss'; it has loss, data/steps") as caught:
        job.metric_series(["lss"])
    assert caught.value.problems[0].fix == 'did you mean "loss"?'


def test_one_name_needs_no_list(run):
    job = run(*LINES)
    assert job.metric_series("host/cpu").names == ["host/cpu"]


def test_a_defined_metric_without_values_is_not_unknown(run):
    assert run("hello").metric_series(["loss"]).records == []
    with pytest.raises(SpecError, match="it has no values yet"):
        run("hello", metrics=()).metric_series(["loss"])


@pytest.mark.parametrize(
    "line",
    [
        "launcher: host_usage cpu=much",
        "launcher: host_usage cpu=[1]",
        "launcher: data_progress epoch=0 step=1 wait_seconds=0 total_seconds=0",
        "launcher: data_progress epoch=0",
        "launcher: train_step rank=0 loss=null",
        "launcher: unknown_event cpu=1",
        "a program's own line: loss=1",
    ],
)
def test_a_line_without_figures_has_none(run, line):
    assert found(run(line)) == {}


def test_without_pandas_the_records_are_named(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(LauncherError, match=r"pip install pandas, or use metric_series\(\)"):
        run(*LINES).metrics_dataframe()


@pytest.mark.library("sagemaker-v2")
def test_a_dataframe_has_a_row_for_each_value(run):
    frame = run(*LINES).metrics_dataframe()
    assert list(frame.columns) == ["time", "metric_name", "group", "host", "step", "value"]
    assert list(frame[frame.metric_name == "loss"]["value"])[::2] == [0.5, 0.25]
    assert str(frame["time"].dtype).endswith("UTC]")
    assert list(run().metrics_dataframe().columns) == list(frame.columns)
