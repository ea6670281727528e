"""What a person is shown of a failure: one cause, its place, the lines that matter, what to try.

Each case is what the hosts of a job have left: the FailureReason, what they printed, and what their
ranks reported.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from launcher.client.jobs import NEEDS_ALL_HOSTS, LogLine, advice, host_of_reason, report_failure
from launcher.shared import format_event, format_text

GROUPS = {"algo-1": "data_group", "algo-2": "train_group", "algo-3": "train_group"}
CODE, LIBRARY = "/opt/ml/code", "/opt/ml/lib/launcher"
TORCH = "/usr/lib/python3/site-packages/torch"


def frame(file: str, line: int, function: str, source: str) -> str:
    return f'  File "{file}", line {line}, in {function}\n    {source}\n    {"^" * 9}'


def trace(*frames: str, error: str) -> str:
    return "\n".join(["Traceback (most recent call last):", *frames, error])


MAIN = frame(f"{CODE}/train.py", 9, "<module>", "main()")
OWN_FRAME = frame(
    f"{LIBRARY}/data/order/user_code.py", 51, "resolve", "found = getattr(home, name)"
)
NO_DATASET = (
    "the dataset pipeline:trian_set could not be imported: AttributeError(\"module 'pipeline' has "
    'no attribute \'trian_set\'"); did you mean "pipeline:train_set"?'
)
SHOWN = ('  File "train.py", line 9, in <module>', "    main()")


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A failure of one host. printed: its lines before; text: of the rank's traceback."""

    cause: str
    shown: str
    host: str = "algo-2"
    rank: int | None = 0
    printed: tuple[str, ...] = ()
    text: str | None = None
    place: str = "algo-2 (train_group)"
    lines: tuple[str, ...] | None = None
    doing: str | None = None
    fix: str | None = None
    channels: tuple[str, ...] = ("digits",)

    @property
    def reason(self) -> str:
        rank = "" if self.rank is None else f", rank {self.rank}"
        return f"host {self.host} ({GROUPS[self.host]}){rank}: {self.cause}\n{self.text or ''}"

    @property
    def log(self) -> list[LogLine]:
        texts = list(self.printed)
        if self.text is not None:
            texts.append(format_event("rank_failed", host=self.host, rank=self.rank, cause="x"))
            texts += format_text(self.text).splitlines()
        texts.append(format_event("host_failed", host=self.host, cause=self.cause))
        texts.append(format_event("data_metrics", of="hosts", figures={}))
        group = GROUPS[self.host]
        return [LogLine(group=group, host=self.host, text=text, time=0.0) for text in texts]


SAMPLE = trace(
    frame(f"{LIBRARY}/data/order/samples.py", 251, "_load", "return _seeded(...)"),
    frame(f"{CODE}/pipeline.py", 6, "__getitem__", "open(self.path)"),
    error="FileNotFoundError: no such file: '/opt/ml/input/data/digits/x.png'",
)
DEEP = trace(
    MAIN,
    *(frame(f"{TORCH}/nn/{n}.py", n, "forward", "call()") for n in range(30)),
    frame(f"{CODE}/model.py", 3, "forward", "return x @ y"),
    frame(f"{TORCH}/mm.py", 1, "mm", "raise"),
    error="RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)",
)


def raised(error: str, *frames: str, **fields: object) -> Planted:
    """An error that rank 0 raised."""
    text = trace(MAIN, *frames, error=error)
    return Planted(cause=error, shown=error, text=text, **{"lines": SHOWN, **fields})


def ended(how: str, **fields: object) -> Planted:
    """An end without a traceback."""
    return Planted(cause=how, shown=how, **fields)


CASES = {
    "a file of a sample": Planted(
        cause="launcher.errors.SampleError: pipeline:train_set raised FileNotFoundError for "
        "sample 7: no such file: '/opt/ml/input/data/digits/x.png' (on data host algo-1)",
        text=SAMPLE,
        place="algo-1 (data_group)",
        shown="FileNotFoundError: no such file: '/opt/ml/input/data/digits/x.png'",
        doing="sample 7 of pipeline:train_set",
        lines=('  File "pipeline.py", line 6, in __getitem__', "    open(self.path)"),
        fix="the job has SM_CHANNEL_DIGITS",
    ),
    "a sample that is None": Planted(
        cause="launcher.errors.DataError: pipeline:train_set: the samples of a batch are not "
        "alike: [6.0, None] (on data host algo-1)",
        place="algo-1 (data_group)",
        shown="pipeline:train_set: the samples of a batch are not alike: [6.0, None]",
        fix="let `__getitem__` return a value",
    ),
    "a batch of samples": Planted(
        cause="launcher.errors.SampleError: __getitems__ of pipeline:train_set raised KeyError for "
        "the batch of step 3: 'label' (on data host algo-1)",
        place="algo-1 (data_group)",
        shown="KeyError: 'label'",
        doing="the batch of step 3 of __getitems__ of pipeline:train_set",
    ),
    "a missing package": raised(
        "ModuleNotFoundError: No module named 'timm'", fix="add timm to requirements.txt"
    ),
    "a missing channel": raised("KeyError: 'SM_CHANNEL_VALID'", fix="which has SM_CHANNEL_DIGITS"),
    "a file of the source": raised(
        "FileNotFoundError: [Errno 2] No such file or directory: 'labels.json'",
        fix="without what .gitignore",
    ),
    "a channel that is written to": raised(
        "OSError: [Errno 30] Read-only file system: '/opt/ml/input/data/digits/new'",
        fix="write to SM_MODEL_DIR",
    ),
    "unknown arguments": ended(
        "the script called sys.exit(2)",
        printed=("usage: train.py [-h]", "train.py: error: unrecognized arguments: --lr 0.1"),
    ),
    "a dataset whose name is wrong": Planted(
        cause=NO_DATASET,
        shown="AttributeError: module 'pipeline' has no attribute 'trian_set'; "
        'did you mean "pipeline:train_set"?',
        doing="the dataset pipeline:trian_set",
        text=f"{trace(MAIN, OWN_FRAME, error=f'launcher.errors.DataError: {NO_DATASET}')}\n"
        + trace(OWN_FRAME, error="AttributeError: module 'pipeline' has no attribute 'trian_set'"),
        lines=SHOWN,
    ),
    "an exit code": ended("the script called sys.exit(3)", printed=("no data",)),
    "words on exit": ended("the script called sys.exit('no data')", lines=()),
    "words on exit, which Python prints": ended(
        "the script called sys.exit('no data')", printed=("epoch=0", "no data"), lines=("epoch=0",)
    ),
    "out of memory": ended("killed by SIGKILL (the kernel does this when memory runs out)"),
    "the OOM killer": ended(
        "killed by SIGKILL (the kernel's OOM killer: memory ran out)", fix="a smaller batch"
    ),
    "short memory": ended(
        "killed by SIGKILL (memory was short: 15.9 of 16.0 GiB in use)", fix="a smaller batch"
    ),
    "another's SIGKILL": ended(
        "killed by SIGKILL (memory was not short: 1.0 of 23.0 GiB in use)",
        fix="find out what has killed",
    ),
    "descriptors": raised("OSError: [Errno 24] Too many open files: 'x'", fix="RLIMIT_NOFILE"),
    "descriptors of a program": Planted(
        cause="exit code 1",
        shown="error: [Errno 24] Too many open files (exit code 1)",
        printed=("epoch 1", "error: [Errno 24] Too many open files"),
        lines=("epoch 1", "error: [Errno 24] Too many open files"),
        fix="RLIMIT_NOFILE",
    ),
    "threads": raised("RuntimeError: can't start new thread", fix="OMP_NUM_THREADS"),
    "a crash": ended("killed by SIGSEGV", fix="PYTHONFAULTHANDLER"),
    "out of memory of a GPU": raised(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        fix="a smaller batch",
    ),
    "no GPU here": raised(
        "AssertionError: Torch not compiled with CUDA enabled (this machine has no GPU)",
        fix="'cuda' if torch.cuda.is_available() else 'cpu'",
    ),
    "NCCL without a GPU": raised(
        "RuntimeError: Distributed package doesn't have NCCL built in (this machine has no GPU)",
        fix="init_process_group('nccl' if torch.cuda.is_available() else 'gloo')",
    ),
    "a text for a flag": Planted(
        cause="the script called sys.exit(2)",
        shown="unrecognized arguments: True (exit code 2)",
        printed=("usage: train.py [-h] [--amp]", "train.py: error: unrecognized arguments: True"),
        lines=("usage: train.py [-h] [--amp]", "train.py: error: unrecognized arguments: True"),
        fix="action='store_true' takes none",
    ),
    "a name of one letter": Planted(
        cause="the script called sys.exit(2)",
        shown="unrecognized arguments: -n 120 (exit code 2)",
        printed=("train.py: error: unrecognized arguments: -n 120",),
        lines=("train.py: error: unrecognized arguments: -n 120",),
        fix="give its option the name -n too",
    ),
    "a null": Planted(
        cause="the script called sys.exit(2)",
        shown="argument --lr: invalid float value: '' (exit code 2)",
        printed=("train.py: error: argument --lr: invalid float value: ''",),
        lines=("train.py: error: argument --lr: invalid float value: ''",),
        fix="leave it out",
    ),
    "no GPU": raised("RuntimeError: No CUDA GPUs are available", fix="an instance type with a GPU"),
    "a mistake of syntax": raised("SyntaxError: invalid syntax (model.py, line 3)", fix="check`"),
    "shapes that do not fit": Planted(
        cause="RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)",
        shown="RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)",
        text=DEEP,
    ),
    "a full disk": raised("OSError: [Errno 28] No space left on device", fix="raise volume_size"),
    "packages": ended(
        "pip could not install requirements.txt: exit code 1", rank=None, fix="pip install -r"
    ),
    "a hang": ended("no progress for 600 s: rank 1 waits in all_reduce", fix="stacks"),
    "a program of a group": Planted(
        host="algo-1",
        rank=None,
        cause="the command ended before training did: exit code 7",
        shown="the command ended before training did: exit code 7",
        place="algo-1 (data_group)",
        printed=("bound port 5000", "bye"),
        lines=("bound port 5000", "bye"),
    ),
    "another host's loss": raised(
        "torch.distributed.DistBackendError: NCCL error: remote process exited",
        fix="the other hosts' logs",
    ),
    "a dataset that cannot be imported": Planted(
        cause="the dataset pipeline:train_set could not be imported: "
        "ModuleNotFoundError(\"No module named 'timm'\") (on data host algo-1)",
        shown="ModuleNotFoundError: No module named 'timm'",
        place="algo-1 (data_group)",
        doing="the dataset pipeline:train_set",
        fix="add timm to requirements.txt",
        text=trace(
            frame("/usr/lib/python3.11/importlib/__init__.py", 126, "import_module", "return x"),
            frame(f"{CODE}/pipeline.py", 1, "<module>", "import timm"),
            error="ModuleNotFoundError: No module named 'timm'",
        ),
        lines=('  File "pipeline.py", line 1, in <module>', "    import timm"),
    ),
    "a sample of a batch that is None": Planted(
        cause="launcher.errors.SampleError: pipeline:train_set: number 4 of the 4 samples of a "
        "batch is None: let the dataset return a value for each, since a branch of it may lack its "
        "return, or give the loader a collate_fn that leaves None out (samples 4, 5, 6, 7) "
        "(on data host algo-1)",
        shown="pipeline:train_set: number 4 of the 4 samples of a batch is None "
        "(samples 4, 5, 6, 7)",
        place="algo-1 (data_group)",
        fix="let `__getitem__` return a value",
    ),
    "a program beside the script that raises": Planted(
        host="algo-1",
        rank=None,
        cause="the command ended before training did: exit code 1",
        shown="ValueError: no port (the command ended before training did: exit code 1)",
        place="algo-1 (data_group)",
        printed=(*trace(MAIN, error="ValueError: no port").splitlines(), "bye"),
        lines=SHOWN,
    ),
    "workers that die": Planted(
        host="algo-1",
        rank=None,
        cause="data workers died 5 times within 30 s, last: killed by SIGKILL",
        shown="data workers died 5 times within 30 s, last: killed by SIGKILL",
        place="algo-1 (data_group)",
        fix="workers_per_host",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_failure_is_shown_once_with_its_place_and_what_to_try(case: Planted) -> None:
    report = report_failure(case.reason, case.log, GROUPS, case.channels)
    usage = {
        "the script called sys.exit(2)": "unrecognized arguments: --lr 0.1 (exit code 2)",
        "the script called sys.exit(3)": "exit code 3",
        "the script called sys.exit('no data')": "no data",
    }
    shown = usage.get(case.shown, case.shown)
    assert report.headline == f"{case.place}: {shown}"
    assert report.doing == case.doing
    if case.lines is not None:
        assert report.lines[1 if case.doing else 0 :] == case.lines
    assert len(report.lines) <= 15
    text = "\n".join(report.lines)
    assert shown not in text
    assert "launcher" not in text
    assert "^^^" not in text
    if case.fix is not None:
        assert report.fix is not None
        assert case.fix in report.fix


def report_of(cause: str, *, text: str | None = None, printed: tuple[str, ...] = ()):
    case = Planted(cause=cause, shown="", text=text, printed=printed)
    return report_failure(case.reason, case.log, GROUPS, ())


def test_the_error_from_which_another_was_raised_is_the_last_line() -> None:
    first = trace(frame(f"{CODE}/b.py", 1, "parse", "int(text)"), error="ValueError: not a number")
    again = "The above exception was the direct cause of the following exception:"
    second = trace(MAIN, error="RuntimeError: no config")
    report = report_of("RuntimeError: no config", text=f"{first}\n\n{again}\n\n{second}")
    assert report.lines == (*SHOWN, "caused by ValueError: not a number")


def test_an_errors_further_lines_and_notes_are_shown() -> None:
    error = 'RuntimeError: Error(s) in loading state_dict:\n\tMissing key(s): "bias".\n\tnote'
    report = report_of(
        "RuntimeError: Error(s) in loading state_dict:", text=trace(MAIN, error=error)
    )
    assert report.lines == (*SHOWN, '  Missing key(s): "bias".', "  note")
    many = "ValueError: many\n" + "\n".join(f"line {number}" for number in range(20_000))
    report = report_of("ValueError: many", text=trace(MAIN, error=many))
    assert report.lines[2:] == (
        *(f"  line {number}" for number in range(5)),
        "  and 19995 more lines",
    )


def test_code_to_write_is_shown_whole_as_it_is_indented() -> None:
    cause = "launcher.errors.DataError: write in pipeline.py:"
    lines = [
        *(f"    from torchvision import x{number}" for number in range(6)),
        "    def train_set():",
    ]
    lines += [f"        return Images({'x' * 300})", "and in the script:", "    DataLoader()"]
    report = report_of(cause, text=trace(MAIN, error="\n".join([cause, *lines])))
    assert report.lines == (*(f"  {line}" for line in lines), *SHOWN)


def test_an_exception_group_is_shown_with_the_errors_in_it() -> None:
    errors = [ValueError(f"shard {number}") for number in range(7)]
    parts = [
        f"{'  +-' if number == 1 else '    '}+---------------- {number} ----------------\n"
        f"    | Traceback (most recent call last):\n"
        f'    |   File "{CODE}/train.py", line 2, in load\n'
        f"    | ValueError: {error}"
        for number, error in enumerate(errors, 1)
    ]
    text = "\n".join(
        [
            "  + Exception Group Traceback (most recent call last):",
            *(f"  | {line}" for line in [*MAIN.splitlines(), "ExceptionGroup: bad (7 sub)"]),
            *parts,
            "    +------------------------------------",
        ]
    )
    report = report_of("ExceptionGroup: bad (7 sub)", text=text)
    assert report.lines == (
        *SHOWN,
        *(f"  ValueError: shard {number}" for number in range(5)),
        "  and 2 more",
    )


@pytest.mark.parametrize(
    ("cause", "fix"),
    [
        ("ModuleNotFoundError: No module named 'cv2'", "add opencv-python-headless to"),
        ("ModuleNotFoundError: No module named 'sklearn'", "add scikit-learn to"),
        ("ModuleNotFoundError: No module named 'torch.x'", "the package is there, without torch.x"),
        (
            "ModuleNotFoundError: No module named 'yaml.x'; 'yaml' is not a package",
            "yaml is a module",
        ),
        (f"ImportError: cannot import name 'x' from 'model' ({CODE}/model.py)", None),
        ("ImportError: cannot import name 'x' from 'torch' (/usr/lib/torch.py)", "the version"),
        ("AttributeError: 'NoneType' object has no attribute 'to'", None),
        ("TypeError: default_collate: found <class 'NoneType'>", "let `__getitem__` return"),
        ("argument --lr: invalid float value: 'x'", "hyperparameters become"),
    ],
)
def test_what_to_try_fits_the_cause(cause: str, fix: str | None) -> None:
    report = report_of(cause)
    assert report.fix is None if fix is None else fix in (report.fix or "")


def test_a_host_alone_is_not_sent_to_the_logs_of_others() -> None:
    reason = "host algo-1 (alone), rank 0: TimeoutError: timed out"
    assert report_failure(reason, [], {"algo-1": "alone"}, ()).fix is None


@pytest.mark.parametrize(
    ("quoted", "error", "fix"),
    [
        ("KeyError('SM_CHANNEL_VALID')", "KeyError: 'SM_CHANNEL_VALID'", "add the channel"),
        (
            "FileNotFoundError(2, 'No such file or directory')",
            "FileNotFoundError: [Errno 2] No such file or directory: '/opt/ml/input/data/x/a.csv'",
            "read channels from",
        ),
    ],
)
def test_an_error_of_a_dataset_is_shown_as_python_does(quoted: str, error: str, fix: str) -> None:
    cause = f"the dataset pipeline:train_set could not be imported: {quoted} (on data host algo-1)"
    report = report_of(cause, text=trace(MAIN, error=error))
    assert (report.headline, report.doing) == (
        f"algo-1 (data_group): {error}",
        "the dataset pipeline:train_set",
    )
    assert fix in (report.fix or "")


def test_a_program_that_is_not_there_is_no_file_of_the_source() -> None:
    error = "FileNotFoundError: [Errno 2] No such file or directory: 'ffmpeg'"
    start = frame("/usr/lib/python3.11/subprocess.py", 1950, "_execute_child", "raise x")
    assert report_of(error, text=trace(MAIN, start, error=error)).fix is None


WORKER = trace(
    frame(f"{TORCH}/utils/data/fetch.py", 54, "fetch", "self.dataset[i]"),
    frame(f"{CODE}/train.py", 3, "__getitem__", "open(name)"),
    error="FileNotFoundError: x.png",
)


def test_an_error_of_torchs_data_workers_is_the_cause_with_its_own_frames() -> None:
    caught = "FileNotFoundError: Caught FileNotFoundError in DataLoader worker process 1."
    text = f"{trace(MAIN, error=caught)}\nOriginal {WORKER}"
    report = report_of(caught, text=text)
    assert report.cause == "FileNotFoundError: x.png (in DataLoader worker process 1)"
    assert report.lines[-2:] == ('  File "train.py", line 3, in __getitem__', "    open(name)")


def test_an_error_of_a_spawned_process_is_the_cause() -> None:
    caught = "torch.multiprocessing.spawn.ProcessRaisedException: "
    text = f"{trace(MAIN, error=caught)}\n\n-- Process 1 terminated with the following error:\n"
    report = report_of(caught, text=f"{text}{WORKER}")
    assert report.cause == "FileNotFoundError: x.png (in a spawned process)"


def test_an_error_of_a_pools_process_is_shown_once_with_the_frames_of_both() -> None:
    again = "The above exception was the direct cause of the following exception:"
    remote = f'multiprocessing.pool.RemoteTraceback: \n"""\n{WORKER}\n"""'
    text = f"{remote}\n\n{again}\n\n{trace(MAIN, error='FileNotFoundError: x.png')}"
    report = report_of("FileNotFoundError: x.png", text=text)
    assert report.lines[:2] == SHOWN
    assert report.lines[-2:] == ('  File "train.py", line 3, in __getitem__', "    open(name)")


def test_words_on_exit_are_shown_as_they_were_printed() -> None:
    report = report_of("the script called sys.exit('wrong:\\n  it\\'s the rate\\n')")
    assert (report.cause, report.lines) == ("wrong:", ("  it's the rate",))
    assert report_of("the script called sys.exit('')").cause == "the script called sys.exit('')"


def test_a_traceback_that_a_script_prints_before_it_exits_has_the_cause() -> None:
    printed = tuple(trace(MAIN, error="ValueError: no data").splitlines())
    report = report_of("the script called sys.exit(1)", printed=printed)
    assert (report.cause, report.lines) == ("ValueError: no data (exit code 1)", SHOWN)


def test_a_traceback_that_a_script_printed_long_before_is_not_its_failure() -> None:
    printed = (*trace(MAIN, error="ValueError: handled").splitlines(), *["goes on"] * 9)
    report = report_of("the script called sys.exit(4)", printed=printed)
    assert report.cause == "exit code 4"
    assert report.traceback == ()


def test_clicks_own_words_are_the_cause() -> None:
    printed = ("Usage: train.py [OPTIONS]", "Error: No such option '--epohcs'.")
    report = report_of("the script called sys.exit(2)", printed=printed)
    assert report.cause == "No such option '--epohcs'. (exit code 2)"
    assert "hyperparameters become" in (report.fix or "")


def test_a_line_that_begins_like_clicks_long_before_the_exit_is_not_the_cause() -> None:
    printed = ("Error: no cache found, downloading", *(f"epoch {number}" for number in range(30)))
    assert report_of("the script called sys.exit(2)", printed=printed).cause == "exit code 2"
    printed = ("Error: no cache found, downloading",)
    assert report_of("the script called sys.exit(3)", printed=printed).cause == "exit code 3"


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "line",
    [
        "  " + "^" * 1_000_000,
        '  File "' + f"{CODE}/" * 30_000,
        f'  File "{CODE}/' + "a" * 1_000_000,
        " " * 1_000_000,
        "[" * 1_000_000,
    ],
    ids=["marks", "folders", "a file", "blanks", "brackets"],
)
def test_lines_of_any_length_are_read_in_time_that_grows_with_it(line: str) -> None:
    printed = ("Current thread 0x02 (most recent call first):", *[line] * 20)
    report_of("killed by SIGSEGV", printed=printed)
    text = trace(MAIN, *[line] * 20, error=f"ValueError: {line}")
    report_of("ValueError: wrong", text=text)
    advice(line[:8192], (), unsuitable=())


def test_of_a_crash_the_lines_that_faulthandler_printed_are_shown() -> None:
    printed = (
        "Fatal Python error: Segmentation fault",
        "",
        "Thread 0x01 (most recent call first):",
        f'  File "{CODE}/other.py", line 1 in waits',
        "",
        "Current thread 0x02 (most recent call first):",
        '  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at',
        f'  File "{CODE}/train.py", line 4 in inner',
        f'  File "{CODE}/train.py", line 6 in <module>',
        f'  File "{LIBRARY}/runtime/launch/rank.py", line 45 in main',
        "",
        "Extension modules: numpy",
    )
    report = report_of("killed by SIGSEGV", printed=printed)
    assert report.lines == (
        '  File "train.py", line 6, in <module>',
        '  File "train.py", line 4, in inner',
    )
    assert "PYTHONFAULTHANDLER" not in (report.fix or "")


def test_files_of_packages_are_shown_from_their_package_on() -> None:
    package = "/opt/conda/lib/python3.11/site-packages/torch/nn/linear.py"
    text = trace(MAIN, frame(package, 3, "forward", "linear()"), error="RuntimeError: x")
    report = report_of("RuntimeError: x", text=text)
    assert report.lines[2] == '  File "torch/nn/linear.py", line 3, in forward'


def test_of_a_deep_traceback_the_users_frames_are_kept() -> None:
    case = CASES["shapes that do not fit"]
    lines = report_failure(case.reason, case.log, GROUPS, ()).traceback
    assert lines[:2] == SHOWN
    assert [line for line in lines if "File" in line][1:] == [
        '  File "model.py", line 3, in forward',
        '  File "torch/mm.py", line 1, in mm',
    ]


def test_a_library_that_calls_the_user_again_takes_no_line() -> None:
    package = "/opt/conda/lib/python3.11/site-packages/lightning/trainer.py"
    hook = frame(f"{CODE}/callbacks.py", 4, "on_step", "int('x')")
    text = trace(MAIN, frame(package, 3, "fit", "call()"), hook, error="ValueError: x")
    lines = report_of("ValueError: x", text=text).lines
    assert lines == (*SHOWN, '  File "callbacks.py", line 4, in on_step', "    int('x')")


def test_the_last_traceback_of_several_is_the_cause() -> None:
    first = trace(MAIN, error="KeyError: 1")
    second = trace(frame(f"{CODE}/b.py", 1, "f", "raise"), error="ValueError: two")
    text = f"{first}\n\nDuring handling of the above exception, ...:\n\n{second}"
    case = Planted(cause="ValueError: two", shown="ValueError: two", text=text)
    report = report_failure(case.reason, case.log, GROUPS, ())
    assert report.lines == ('  File "b.py", line 1, in f', "    raise")


def test_a_reason_of_the_platform_alone_takes_the_cause_from_the_first_host_that_failed() -> None:
    first = CASES["a crash"].log
    later = format_event("host_failed", host="algo-3", cause="peer lost", of_rank=1)
    log = [*first, LogLine(group="train_group", host="algo-3", text=later, time=1.0)]
    report = report_failure("AlgorithmError: , exit code: 1", log, GROUPS, ())
    assert report.headline == "algo-2 (train_group): killed by SIGSEGV"


def test_where_nobody_has_said_that_it_failed_nobody_is_accused() -> None:
    log = [LogLine(group="train_group", host="algo-2", text="two", time=0.0)]
    report = report_failure("AlgorithmError: , exit code: 1", log, GROUPS, ())
    assert report.headline == "AlgorithmError: , exit code: 1"
    assert report.lines == ()


@pytest.mark.parametrize(
    ("reason", "host"),
    [
        ("AlgorithmError: host algo-12 (train_group), rank 1: killed by SIGKILL", "algo-12"),
        ("host algo-2 (data): lost; algo-1 saw it", "algo-2"),
        ("algo-7 is not a host of this job", None),
        ("AlgorithmError: , exit code: 1", None),
    ],
)
def test_the_first_host_that_the_reason_names(reason: str, host: str | None) -> None:
    assert host_of_reason(reason, ["algo-1", "algo-2", "algo-12"]) == host


def test_a_job_of_one_host_needs_no_name() -> None:
    assert host_of_reason("AlgorithmError: , exit code: 1", ["algo-1"]) == "algo-1"


def test_of_a_sample_the_host_that_prepared_it_has_more() -> None:
    case = CASES["a file of a sample"]
    printed = LogLine(group="data_group", host="algo-1", time=0.0, text="opening 7.png")
    report = report_failure(case.reason, [*case.log, printed], GROUPS, ())
    assert report.host == "algo-1"
    failed = report.failed_host
    assert failed is not None
    assert (failed["host"], failed["group"]) == ("algo-1", "data_group")
    assert failed["last_lines"] == ["opening 7.png"]
    assert '  File "pipeline.py", line 6, in __getitem__' in report.traceback


def test_workers_that_die_are_those_of_their_host_with_what_has_ended_them() -> None:
    reason = (
        "host algo-2 (train_group), rank 0: launcher.errors.DatasetError: data workers died "
        "repeatedly while they prepared a batch of p:s, at or soon after samples 0, 1; the events "
        "worker_died in the data hosts' logs give the causes"
    )
    assert NEEDS_ALL_HOSTS in reason
    death = format_event("worker_died", host="algo-1", worker=0, how="killed by SIGSEGV")
    log = [
        LogLine(group="data_group", host="algo-1", text="decoding", time=0.0),
        LogLine(group="data_group", host="algo-1", text=death, time=0.0),
        LogLine(group="train_group", host="algo-2", text="waiting", time=0.0),
    ]
    report = report_failure(reason, log, GROUPS, ())
    assert report.host == "algo-1"
    assert report.failed_host == {
        "group": "data_group",
        "host": "algo-1",
        "last_lines": ["decoding"],
    }
    assert report.cause == (
        "killed by SIGSEGV, repeatedly: data workers died while they prepared a batch of p:s, at "
        "or soon after samples 0, 1"
    )
    assert "a native library has crashed" in str(report.fix)
    alone = report_failure(reason, (), GROUPS, ())
    assert alone.headline.startswith("algo-2 (train_group): data workers died repeatedly")
