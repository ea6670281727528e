"""What requirements.txt lists is there when the script starts, and is installed once."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import signal
import time
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from bench import fit, platform_and_keeper, printed
from packages import Index, make_wheel, serve_index
from waiting import wait_until

from launcher import DataService, InstanceGroup, Job, JobFailed, JobStopped, LocalSession
from launcher.client.sessions import UNUSED_SECONDS, Overlay, remove_unused
from launcher.shared import parse_event

HAS = "from importlib.util import find_spec\nhas = lambda name: bool(find_spec(name))\n"
TELLS = HAS + 'print("a", has("small_a"), "b", has("small_b"))\n'


@pytest.fixture(autouse=True)
def own_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """pip as on a machine without a configuration."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with serve_index(tmp_path / "index") as index:
        yield index


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    return folder


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        stem, _, suffix = name.rpartition("_")
        (folder / f"{stem.replace('_', '-') if suffix == 'txt' else stem}.{suffix}").write_text(
            text
        )


def run(
    source: Path,
    name: str,
    index: Index | None = None,
    *,
    isolation: str | None = "process",
    environment: Mapping[str, str] | None = None,
    install: bool = True,
    **fields: Any,
) -> Job:
    """A job of one host that runs train.py; not at its end."""
    address = {} if index is None else {"PIP_INDEX_URL": index.url}
    session = LocalSession(source.parent / "home", isolation, install=install)
    environment = {**address, **(environment or {})}
    return fit(session, source, {}, name, environment=environment, wait=False, **fields)


def lines_of(job: Job) -> dict[str, list[str]]:
    """What the hosts of a job have printed of their own at its end, which is a good one."""
    end(job)
    return printed(job)


def end(job: Job) -> None:
    job.wait(logs=False)
    job.raise_for_status()


PIPELINE = """\
import small_b

class Samples:
    def __len__(self):
        return 4
    def __getitem__(self, index):
        return float(small_b.VERSION) + index

def samples():
    return Samples()
"""
TRAINS = """
from launcher.data import DataLoader
print([float(x) for batch in DataLoader("pipeline:samples", batch_size=2) for x in batch])
"""
OF_TWO_GROUPS = {
    "instance_groups": [
        InstanceGroup("gpus", "local", role="train"),
        InstanceGroup("cpus", "local", role="data", requirements="requirements-data.txt"),
    ],
    "data_service": DataService(datasets=("pipeline:samples",), workers_per_host=1),
}


@pytest.mark.long
def test_a_group_has_what_it_asks_for_and_the_second_run_installs_nothing(
    source: Path, index: Index
) -> None:
    index.add("small_a")
    index.add("small_b")
    write(
        source,
        train_py=TELLS + TRAINS,
        pipeline_py=PIPELINE,
        requirements_txt="small-a\n",
        requirements_data_txt="small-b==1.0\n",
    )
    first = lines_of(run(source, "first", index, isolation=None, **OF_TWO_GROUPS))
    asked = len(index.asked)
    second = lines_of(run(source, "second", index, isolation=None, **OF_TWO_GROUPS))

    assert first["algo-1"] == ["a True b False", "[1.0, 2.0, 3.0, 4.0]"]
    assert first == second
    assert asked > 0
    assert len(index.asked) == asked, "the second run asked the index"


@pytest.mark.long
def test_different_versions_of_data_and_train_hosts_are_reported(
    source: Path, index: Index
) -> None:
    for each in ("1.0", "2.0"):
        index.add("small_b", each)
    write(
        source,
        train_py=TRAINS,
        pipeline_py=PIPELINE,
        requirements_txt="small-b==2.0\n",
        requirements_data_txt="small-b==1.0\n",
    )

    job = run(source, "differs", index, **OF_TWO_GROUPS)

    assert lines_of(job)["algo-1"] == ["[1.0, 2.0, 3.0, 4.0]"]
    found = [parse_event(line.text) for line in job.logs(host="algo-1")]
    (differs,) = [fields for name, fields in filter(None, found) if name == "versions_differ"]
    assert differs["package"] == "small_b"
    assert differs["by_group"] == {"cpus": "1.0", "gpus": "2.0"}
    (own,) = [fields for name, fields in filter(None, found) if name == "host_versions"]
    assert own["versions"]["python"] == platform.python_version()
    assert own["versions"]["torch"] == version("torch")


@pytest.mark.long
def test_a_package_that_does_not_exist_fails_with_the_words_of_pip(
    source: Path, index: Index
) -> None:
    write(source, train_py="", requirements_txt="no-such-package==1\n")

    job = run(source, "bad", index)
    with pytest.raises(JobFailed) as failed:
        end(job)

    assert "pip could not install requirements.txt: exit code 1" in str(failed.value)
    assert "No matching distribution found for no-such-package==1" in str(failed.value)
    assert printed(job) == {}, "a host was started"
    write(source, requirements_txt="")
    assert lines_of(run(source, "mended", index)) == {"algo-1": []}


@pytest.mark.long
def test_a_secret_in_the_output_of_pip_is_in_no_log_and_no_reason(
    source: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "hunter2-very-secret")
    backend = '[build-system]\nrequires = []\nbuild-backend = "fails"\nbackend-path = ["."]\n'
    fails = 'import os, sys\nsys.exit("refused " + os.environ["TOKEN"])\n'
    write(source, train_py="", pyproject_toml=backend, fails_py=fails, requirements_txt=".\n")

    job = run(source, "bad", index, secrets={"TOKEN": "env"})
    with pytest.raises(JobFailed, match=r"refused \*\*\*"):
        end(job)

    (log,) = (source.parent / "home").rglob("requirements.log")
    assert "refused ***" in log.read_text()
    assert "hunter2" not in log.read_text()


@pytest.mark.long
def test_what_is_installed_in_a_satisfying_version_is_not_installed_again(
    source: Path, index: Index
) -> None:
    for each in ("1.0", "99.0"):
        index.add("numpy", each)
    write(source, train_py=HAS + "import numpy\nprint(numpy.__file__)\n")
    write(source, requirements_txt="numpy>=1\n")

    (path,) = lines_of(run(source, "satisfied", index))["algo-1"]
    assert "overlays" not in path

    write(source, requirements_txt="numpy==99.0\n")
    (path,) = lines_of(run(source, "newer", index))["algo-1"]
    assert "overlays" in path


@pytest.mark.long
def test_torch_is_replaced_only_for_those_who_ask_for_it(source: Path, index: Index) -> None:
    index.add("torch", "99.0")
    index.add("wants_torch", requires="torch>=99")
    write(source, train_py="import torch\nprint(torch.VERSION)\n", requirements_txt="wants-torch\n")

    with pytest.raises(JobFailed, match="the installed torch is kept, unless"):
        end(run(source, "kept", index))

    write(source, requirements_txt="wants-torch\ntorch==99.0\n")
    assert lines_of(run(source, "replaced", index)) == {"algo-1": ["99.0"]}


#: Lines of a file, and what a host of a group with that file prints.
LINES = {
    "nested": ("{index}-r more/nested.txt", "a True b True 1.0"),
    "constraint": ("{index}small-a\n-c more/old.txt", "a True b False 1.0"),
    "markers": (
        "{index}small-a ; python_version < '3'\nsmall-b ; python_version > '3'",
        "a False b True",
    ),
    "find-links": ("--no-index\n--find-links wheels\nsmall-b", "a False b True"),
    "path": ("./wheels/small_b-1.0-py3-none-any.whl", "a False b True"),
    "hash": ("{index}small-a==1.0 \\\n  --hash=sha256:{hash}", "a True b False 1.0"),
    "url": ("small-a @ {url}small-a/small_a-1.0-py3-none-any.whl", "a True b False 1.0"),
    "comments": (
        "\ufeff# a comment\r\n{index}small-a<3  # another\r\n\r\n# small-b\r\n",
        "a True b False 2.0",
    ),
    "extras": ("{index}small-a[more]==3.0", "a True b True 3.0"),
}
ORDER = "if has('small_a'):\n    import small_a\n    print(small_a.VERSION)\n"


@pytest.mark.long
@pytest.mark.parametrize("names", [[*LINES][:5], [*LINES][5:]], ids=", ".join)
def test_lines_mean_what_they_mean_to_pip(source: Path, index: Index, names: list[str]) -> None:
    index.add("small_a")
    index.add("small_a", "2.0")
    index.add("small_a", "3.0", requires="small-b; extra == 'more'\nProvides-Extra: more")
    index.add("small_b")
    wheel = index.folder / "simple" / "small-a" / "small_a-1.0-py3-none-any.whl"
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    make_wheel(source / "wheels", "small_b")
    (source / "more").mkdir()
    (source / "more" / "nested.txt").write_text("small-a==1.0\n-r ../last.txt\n")
    (source / "more" / "old.txt").write_text("small-a<2\nsmall-b<2\n")
    write(source, train_py=TELLS + ORDER, last_txt="small-b\n")
    own_index = f"--index-url {index.url}\n"
    for name in names:
        text = LINES[name][0].format(hash=digest, url=index.url, index=own_index)
        (source / f"{name}.txt").write_bytes(text.encode())

    groups = [InstanceGroup(name, "local", requirements=f"{name}.txt") for name in names]
    printed_lines = lines_of(run(source, "lines", instance_groups=groups)).values()
    found = dict(zip(names, map(" ".join, printed_lines), strict=True))
    assert found == {name: LINES[name][1] for name in names}


SETUP = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
#: A build of one module in the standard library alone, since nothing can be downloaded here.
BACKEND = """\
import os, zipfile

def build_editable(folder, settings=None, metadata=None):
    name = "own_package-1.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        info = "own_package-1.0.dist-info"
        wheel.writestr("own_package.pth", os.path.join(os.getcwd(), "inside"))
        words = "Metadata-Version: 2.1\\nName: own-package\\nVersion: 1.0\\n"
        wheel.writestr(f"{info}/METADATA", words)
        words = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
        wheel.writestr(f"{info}/WHEEL", words)
        wheel.writestr(f"{info}/RECORD", "")
    return name
"""


@pytest.mark.long
def test_an_editable_package_of_the_source_is_found_and_follows_its_content(
    source: Path, index: Index
) -> None:
    (source / "inside").mkdir()
    write(
        source,
        train_py="import own_module\nprint(own_module.WORD)\n",
        pyproject_toml=SETUP,
        backend_py=BACKEND,
        requirements_txt="-e .\n",
    )
    for word in ("one", "two"):
        (source / "inside" / "own_module.py").write_text(f"WORD = {word!r}\n")
        assert lines_of(run(source, word, index))["algo-1"] == [word]


SETUP_PY = """\
from setuptools import setup
setup(name="mine", version="2.0", package_dir={"": "lib"}, py_modules=["of_mine"],
      install_requires=["small-a"])
"""


@pytest.mark.long
@pytest.mark.skipif(find_spec("setuptools") is None, reason="setuptools is not installed")
def test_a_setup_py_is_installed_unless_the_user_asks_for_nothing(
    source: Path, index: Index
) -> None:
    index.add("small_a")
    (source / "lib").mkdir()
    (source / "lib" / "of_mine.py").write_text("NAME = 'mine'")
    write(source, setup_py=SETUP_PY, train_py=HAS + "print(has('of_mine'), has('small_a'))\n")
    assert lines_of(run(source, "installs", index)) == {"algo-1": ["True True"]}
    with pytest.warns(UserWarning, match=r"setup.py .* is not installed, as you asked"):
        job = run(source, "asks", index, install=False)
    assert lines_of(job) == {"algo-1": ["False False"]}


@pytest.mark.long
def test_without_installation_it_is_said_what_is_missing(source: Path, index: Index) -> None:
    write(source, train_py=TELLS, requirements_txt="small-a>=2\nnumpy>=1\nnumpy<1\n")

    with pytest.warns(UserWarning, match="requirements.txt") as warned:
        job = run(source, "left", index, install=False)

    assert lines_of(job) == {"algo-1": ["a False b False"]}
    text = "\n".join(str(each.message) for each in warned)
    assert "small-a>=2 is not installed" in text
    assert f"numpy<1 is not satisfied: {version('numpy')} is installed" in text
    assert index.asked == []


@pytest.mark.long
def test_two_jobs_at_once_install_once(source: Path, index: Index) -> None:
    index.add("small_a")
    write(source, train_py=TELLS, requirements_txt="small-a\n")

    jobs = [run(source, f"job-{number}", index) for number in range(2)]

    assert [lines_of(job) for job in jobs] == [{"algo-1": ["a True b False"]}] * 2
    wheels = [path for path in index.asked if path.endswith(".whl")]
    assert len(wheels) == 1


@pytest.mark.long
def test_a_killed_installation_is_never_used(source: Path, index: Index) -> None:
    index.add("small_a")
    write(source, train_py=TELLS, requirements_txt="small-a\n")
    with index.blocked():
        job = run(source, "killed", index)
        wait_until(lambda: index.asked)
        folder = source.parent / "home" / "jobs" / "killed"
        for pid in platform_and_keeper(folder):
            os.kill(pid, signal.SIGKILL)
        assert not list((source.parent / "home" / "overlays").glob("*/complete"))
    with pytest.raises(JobFailed, match="the local platform process died"):
        end(job)

    assert lines_of(run(source, "next", index)) == {"algo-1": ["a True b False"]}


@pytest.mark.long
def test_a_killed_pip_fails_the_job_and_leaves_nothing(source: Path, index: Index) -> None:
    index.add("small_a")
    write(source, train_py=TELLS, requirements_txt="small-a\n")
    with index.blocked():
        job = run(source, "killed", index)
        wait_until(lambda: index.asked)
        overlay = str(source.parent / "home" / "overlays")
        (pip,) = [pid for pid in all_processes() if overlay in command_line(pid)]
        os.kill(pip, signal.SIGKILL)
    with pytest.raises(JobFailed, match=r"could not install requirements\.txt: killed by SIGKILL"):
        end(job)
    assert not list((source.parent / "home" / "overlays").glob("*/env"))

    assert lines_of(run(source, "next", index)) == {"algo-1": ["a True b False"]}


def all_processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:  # it has ended
        return ""


@pytest.mark.long
def test_where_else_pip_would_install_for_the_user_does_not_apply(
    source: Path, index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.add("small_a")
    monkeypatch.setenv("PIP_TARGET", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("PIP_USER", "1")
    write(source, train_py=TELLS, requirements_txt="small-a\n")
    assert lines_of(run(source, "here", index)) == {"algo-1": ["a True b False"]}


def test_what_was_not_used_for_30_days_is_removed_unless_a_job_uses_it(tmp_path: Path) -> None:
    old, used, fresh = (Overlay(tmp_path / name) for name in ("old", "used", "fresh"))
    for overlay in (old, used, fresh):
        with overlay.try_lock():
            overlay.mark_complete()
    killed = Overlay(tmp_path / "killed")
    killed.environment.mkdir(parents=True)
    for overlay in (old, used, killed):
        for path in (overlay.path / "complete", overlay.path):
            if path.exists():
                os.utime(path, (0, 0))
    assert used.use()
    os.utime(used.path / "complete", (0, 0))  # for longer than 30 days
    (tmp_path / "a file").touch()

    assert remove_unused(tmp_path, time.time() - UNUSED_SECONDS) == 2

    assert [each.path.exists() for each in (old, used, fresh, killed)] == [False, True, True, False]
    assert not old.use()


@pytest.mark.long
def test_a_job_can_be_stopped_while_it_installs(source: Path, index: Index) -> None:
    write(source, train_py=TELLS, requirements_txt="small-a\n")
    with index.blocked():
        job = run(source, "stopped", index)
        wait_until(lambda: index.asked)
        assert "Installing requirements.txt" in str(job.description())
        job.stop()
        with pytest.raises(JobStopped):
            end(job)


def test_a_request_whose_time_limit_is_none_fails_with_these_words(
    source: Path, index: Index
) -> None:
    """One of another SDK, which no rule of a job file has seen."""
    write(source, train_py=TELLS, requirements_txt="small-a\n")
    run(source, "first", index).stop()
    session = LocalSession(source.parent / "home", "process")
    request = json.loads((source.parent / "home/jobs/first/request.json").read_text())
    request["Environment"]["LAUNCHER_INSTALL_TIMEOUT"] = "30m"
    session.create_training_job(**{**request, "TrainingJobName": "second"})
    words = "LAUNCHER_INSTALL_TIMEOUT is '30m', and must be a number of seconds"
    with pytest.raises(JobFailed, match=words):
        end(Job("second", session))


@pytest.mark.long
def test_an_installation_has_a_time_limit(source: Path, index: Index) -> None:
    write(source, train_py=TELLS, requirements_txt="small-a\n")
    with index.blocked(), pytest.raises(JobFailed, match=r"within 1 s: set LAUNCHER_INSTALL_TIME"):
        end(run(source, "late", index, environment={"LAUNCHER_INSTALL_TIMEOUT": "1"}))
