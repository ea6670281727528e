"""What a notebook shows of jobs and their descriptions, and the live cell of fit()."""

from html.parser import HTMLParser

import nbformat
import pytest
from nbclient import NotebookClient

from launcher import (
    InstanceGroup,
    Job,
    JobFailed,
    JobSpec,
    MemoryRun,
    MemorySession,
    MetricDefinition,
    PyTorch,
)
from launcher.errors import SampleError

LINES_KEPT = "text-align:left;white-space:pre-wrap"
EVIL = "<script>alert(1)</script>"
LINES = ("loss=0.5", "loss=0.25", "launcher: host_usage cpu=0.5 cpus=2 memory_bytes=1000")
STEPS = tuple(
    f"launcher: {event} stream=s epoch=0 wait_seconds=0 total_seconds={seconds}"
    for event, seconds in (
        ("data_progress rank=0 step=10 steps=30", 2.5),
        ("data_progress rank=1 step=10 steps=30", 7.5),
        ("data_progress rank=0 step=20 steps=30", 5.0),
        ("data_epoch rank=0 steps=30", 10.0),
    )
)


class Page(HTMLParser):
    """The texts of HTML, and the names of its elements, which are all closed."""

    def __init__(self, text):
        super().__init__()
        self.texts, self.elements, self.attributes, self._open = [], set(), [], []
        self.feed(text)
        self.close()
        assert self._open == []
        # nothing is loaded, and no colour is fixed, so that it is readable on light and dark
        assert self.elements <= {"table", "tr", "th", "td", "b", "div", "pre", "svg", "polyline"}
        assert not {"href", "src"} & {name for name, _ in self.attributes}
        styles = {value for name, value in self.attributes if name == "style"}
        assert styles <= {"text-align:left", LINES_KEPT, "font-family: monospace"}

    def handle_starttag(self, tag, attrs):
        self._open.append(tag)
        self.elements.add(tag)
        self.attributes += attrs

    def handle_startendtag(self, tag, attrs):
        self.elements.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def shown(value):
    return Page(value._repr_html_())


@pytest.fixture
def estimate(tmp_path):
    (tmp_path / "train.py").write_text("")

    def estimate(session=None, **more):
        return PyTorch(
            "train.py",
            source_dir=str(tmp_path),
            role="arn:aws:iam::111122223333:role/r",
            image_uri="111122223333.dkr.ecr.eu-west-1.amazonaws.com/i:1",
            instance_groups=[InstanceGroup("train_group", "ml.c5.xlarge", 1)],
            metric_definitions=[MetricDefinition("loss", r"^loss=(\S+)")],
            sagemaker_session=session or MemorySession(lambda _: MemoryRun(lines=LINES)),
            **more,
        )

    return estimate


def test_a_group():
    page = shown(InstanceGroup("data_group", "ml.c5.xlarge", 1, role="data"))
    assert page.texts == [
        *("instance_group_name", "instance_type", "instance_count", "role"),
        *("data_group", "ml.c5.xlarge", "1", "data"),
    ]


def test_a_spec_has_its_fields_and_no_value_of_a_variable():
    groups = [InstanceGroup("a", "ml.c5.xlarge", 2), InstanceGroup(EVIL, "local", role="train")]
    page = shown(
        JobSpec(
            entry_point="train.py",
            hyperparameters={"lr": 0.1, "names": [EVIL]},
            environment={"TOKEN": "secret-value", "MODE": "fast"},
            instance_groups=groups,
            base_job_name="b" * 300,
        )
    )
    assert page.texts[:2] == ["entry_point", "train.py"]
    text = " ".join(page.texts)
    assert f'lr = 0.1, names = ["{EVIL}"]' in text
    assert "TOKEN, MODE" in text
    assert "secret-value" not in text
    assert "b" * 199 + "…" in page.texts
    assert EVIL in page.texts
    assert "max_run" not in text  # at its default


def test_the_cause_of_a_failure_keeps_its_lines(estimate):
    estimator = estimate(MemorySession(lambda _: MemoryRun(failure="no luck\n  in line 3")))
    with pytest.raises(JobFailed):
        estimator.fit(logs=False, job_name="job-1")
    page = shown(estimator.latest_training_job)
    cause = next(text for text in page.texts if "no luck" in text)
    assert "no luck\n  in line 3" in cause
    assert ("style", LINES_KEPT) in page.attributes


def test_an_estimator_has_its_spec_and_its_latest_job(estimate):
    made = estimate()
    assert shown(made).texts[0] == "PyTorch"
    assert "Latest job" not in shown(made).texts
    made.fit(logs=False, job_name="job-1")
    assert shown(made).texts[-2:] == ["Latest job", "job-1"]


def test_a_job_has_its_state_and_outcome(estimate):
    run = MemoryRun(lines=LINES, metrics={EVIL: 0.25}, model=b"x")
    job = estimate(MemorySession(lambda _: run)).fit(logs=False, job_name="job-1")
    texts = shown(job).texts
    assert texts[:3] == ["Job", "job-1", "Status"]
    assert texts[3].startswith("Completed after ")
    assert "train_group: 1 x ml.c5.xlarge" in texts
    assert f"{EVIL} = 0.25" in texts
    assert texts[-2] == "Model"


def test_a_failed_job_has_its_cause(estimate):
    run = MemoryRun(failure=f"AlgorithmError: {EVIL}")
    job = estimate(MemorySession(lambda _: run)).fit(wait=False)
    job.wait()
    assert EVIL in " ".join(shown(job).texts)


def test_a_job_that_cannot_be_read_says_so():
    assert "not known: " in shown(Job("job-1", MemorySession())).texts[3]


def test_metrics_have_a_line_each(estimate):
    page = shown(estimate().fit(logs=False, job_name="job-1").metric_series())
    assert page.texts[0] == "job-1"
    assert "0.25" in page.texts
    assert "host/memory_bytes" in page.texts  # one value makes no line
    assert len([name for name, _ in page.attributes if name == "points"]) == 1


@pytest.mark.parametrize("count", [2, 161, 10_000])
def test_a_line_has_few_points_and_its_extremes(count):
    from launcher.client.jobs import sparkline

    values = [0.5] * count
    values[count // 2] = 1.0
    points = sparkline(list(range(count)), values).split('points="')[1].split('"')[0].split()
    assert len(points) <= 162
    assert min(float(point.split(",")[1]) for point in points) == 2.0


def test_outside_of_notebooks_lines_are_printed(estimate, capsys):
    estimate().fit(job_name="job-1")
    assert "train_group/algo-1 | loss=0.5" in capsys.readouterr().out


CELL = """
import pathlib
from launcher import InstanceGroup, MemoryRun, MemorySession, MetricDefinition, PyTorch
pathlib.Path("train.py").write_text("")
run = MemoryRun(lines=LINES, metrics={"loss": 0.25}, failure=FAILURE)
job = PyTorch(
    "train.py",
    source_dir=".",
    role="arn:aws:iam::111122223333:role/r",
    image_uri="111122223333.dkr.ecr.eu-west-1.amazonaws.com/i:1",
    instance_groups=[InstanceGroup("train_group", "ml.c5.xlarge", 1)],
    metric_definitions=[MetricDefinition("loss", "^loss=(.+)")],
    sagemaker_session=MemorySession(lambda _: run),
).fit(job_name="job-1", logs=LOGS)
"""


def run_cell(folder, *, logs=True, failure=None):
    """The outputs of a cell that runs fit() in a kernel."""
    code = CELL.replace("LINES", repr(LINES + STEPS)).replace("LOGS", str(logs))
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(code.replace("FAILURE", repr(failure)))]
    NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        allow_errors=True,
        resources={"metadata": {"path": folder}},
    ).execute()
    return notebook.cells[0].outputs


@pytest.mark.long
@pytest.mark.parametrize("logs", [True, False])
def test_fit_shows_one_live_cell_that_ends_in_the_summary(tmp_path, logs):
    outputs = run_cell(tmp_path, logs=logs)
    [cell] = [output for output in outputs if output.output_type == "display_data"]
    page = Page(cell.data["text/html"])
    text = " ".join(page.texts)
    assert "Job      job-1\nStatus   Completed" in text
    assert "Metric   loss = 0.25" in text
    assert [text.strip() for text in page.texts[1:]] == ["seconds per step", "0.5", "loss", "0.25"]
    assert len([name for name, _ in page.attributes if name == "points"]) == 2
    printed = "".join(output.text for output in outputs if output.output_type == "stream")
    assert ("train_group/algo-1 | loss=0.5" in printed) == logs
    assert "[Training]" not in printed  # the live cell has the state


@pytest.mark.long
def test_a_failure_is_told_once_by_the_exception(tmp_path):
    outputs = run_cell(tmp_path, failure="AlgorithmError: no luck")
    [cell] = [output for output in outputs if output.output_type == "display_data"]
    assert "Status   Failed" in " ".join(Page(cell.data["text/html"]).texts)
    assert "no luck" not in cell.data["text/html"]
    [error] = [output for output in outputs if output.output_type == "error"]
    assert (error.ename, "no luck" in error.evalue) == ("JobFailed", True)
    frame, *_ = error.traceback
    assert "ipykernel" in frame
    assert len([line for line in error.traceback if line.startswith("  File ")]) == 1
    assert "\n".join(error.traceback).count("no luck") == 1


def raises_of(dataset):
    from launcher.data import DataLoader

    return list(DataLoader(dataset, batch_size=2))


class Numbers:
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return 1 / index


def test_an_error_of_the_users_code_keeps_its_frames_in_a_notebook():
    with pytest.raises(SampleError) as caught:
        raises_of(Numbers())
    lines = caught.value._render_traceback_()
    assert "ZeroDivisionError: division by zero" in lines
    frames = [line for line in lines if line.startswith("  File ")]
    assert [frame.rpartition(" ")[2] for frame in frames] == [
        "test_an_error_of_the_users_code_keeps_its_frames_in_a_notebook",
        "raises_of",
        "__getitem__",
    ]
    assert "Traceback" not in "".join(lines)
