"""A data engine of another package: one module and its entry point, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_hosts import MakeHosts

from launcher.data import DataLoader
from launcher.data.engines import find_engine
from launcher.errors import DataError
from launcher.shared import DEFAULT_ENGINE, TF_ENGINE

#: Its process has forked another one, which does not end at SIGTERM.
FORKING = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})  # or it would end this process
child = os.fork() or signal.pause()
open(os.path.join(os.environ["TMPDIR"], "forked"), "w").close()
signal.sigwait({signal.SIGUSR1})
print("closed with its fork alive:", os.waitpid(child, os.WNOHANG) == (0, 0), flush=True)
"""

#: Fails once that process has forked.
FAILING = """
import os, time
while not os.path.exists(os.path.join(os.environ["TMPDIR"], "forked")):
    time.sleep(0.05)
raise ValueError("enough")
"""

#: Stands in for tf.data's service, of which no server ever starts.
TENSORFLOW = """
import os

class DispatcherConfig:
    def __init__(self, **options):
        pass

WorkerConfig = DispatcherConfig

def DispatchServer(config):
    return object()

def WorkerServer(config):
    os._exit(3)
"""

#: A rank for whose batch nobody works.
WAITING = """
import time
from launcher.data.tf.distributed_dataset import BatchWatchdog
turns = BatchWatchdog("train", 1.0).turns()
next(turns)
time.sleep(600)
"""


def test_a_loader_reads_through_the_engine_of_its_process(
    installed: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "engine_numbers.py").write_text("def numbers():\n    return [3, 1, 4, 1]\n")
    for folder in (str(tmp_path), *installed):
        monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("LAUNCHER_DATA_ENGINE", "counting")
    monkeypatch.setenv("COUNTED", "by hand")
    loader = DataLoader("engine_numbers:numbers", batch_size=2, tensors=False)
    assert [batch.tolist() for batch in loader] == [[3, 1], [4, 1]]
    assert "counted 2 batches by hand" in capsys.readouterr().out


def test_a_process_forked_by_an_engines_own_lives_until_that_is_closed(
    make_hosts: MakeHosts, installed: list[str], tmp_path: Path
) -> None:
    """Otherwise each end of the job would wait for it, as for a script that saves."""
    (tmp_path / "counting_idle.py").write_text(FORKING)
    variables = {"PYTHONPATH": ":".join([str(tmp_path), *installed])}
    hosts = make_hosts(
        {"train.py": FAILING}, local_workers=1, engine="counting", environment=variables
    )
    hosts.start()
    assert set(hosts.wait().values()) == {1}
    assert "closed with its fork alive: True" in hosts.output()
    assert hosts.processes() == []


@pytest.fixture
def tensorflow(tmp_path: Path) -> Path:
    """A folder where what stands in for TensorFlow is installed."""
    folder = tmp_path / "stand-in"
    place = folder / "tensorflow" / "data" / "experimental"
    place.mkdir(parents=True)
    for each in (place, place.parent, place.parent.parent):
        (each / "__init__.py").touch()
    (place / "service.py").write_text(TENSORFLOW)
    return folder


def test_servers_of_tensorflow_that_never_start_fail_the_job_at_once(
    make_hosts: MakeHosts, tensorflow: Path
) -> None:
    """Their parent, which has started each of them six times, is not started again."""
    options = {"engine": TF_ENGINE, "environment": {"PYTHONPATH": str(tensorflow)}}
    hosts = make_hosts({"train.py": "import time\ntime.sleep(600)\n"}, local_workers=1, **options)
    hosts.start()
    assert set(hosts.wait().values()) == {1}
    assert "the tf.data workers ended: exit code 70" in (hosts["algo-1"].failure or "")
    assert hosts.output().count("died 6 times within 30 s, last: exit code 3") == 1
    assert hosts.processes() == []


def test_a_batch_of_tensorflow_that_never_comes_is_the_reason(
    make_hosts: MakeHosts, tensorflow: Path
) -> None:
    hosts = make_hosts({"train.py": WAITING}, environment={"PYTHONPATH": str(tensorflow)})
    hosts.start()
    assert set(hosts.wait().values()) == {1}
    reason = "rank 0: DataServiceUnavailable: no batch of train arrived within 1 s"
    assert reason in (hosts["algo-1"].failure or ""), hosts.output()


def test_ours_is_found_by_its_line_and_others_are_named() -> None:
    assert find_engine(DEFAULT_ENGINE).packages == ("numpy",)
    with pytest.raises(
        DataError, match=r'no data engine "tf\.data" is installed, only launcher, tf'
    ):
        find_engine("tf.data")
