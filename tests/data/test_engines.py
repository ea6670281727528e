"""A data engine of another package: one module and its entry point, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hosts import Hosts
from programs import PIPELINE, READER

from launcher.data import DataLoader
from launcher.data.engines import find_engine
from launcher.errors import DataError
from launcher.shared import DEFAULT_ENGINE, ENGINE_ENTRY_POINTS, TF_ENGINE

MakeHosts = Callable[..., Hosts]

ENGINE = """
import os

from launcher.runtime.launch.data_role import supervise_workers

class MadeUpEngine:
    packages = ("numpy",)

    def start(self, host):
        host.start_service("pump", "made_up_process", ["pump"])
        host.variables["MADE_UP"] = "here"

    def serve(self, host):
        supervise_workers(host, "made_up_process", 1, {})

    def stop_reading(self, host):
        host.close_service("pump")

    def stop(self, host):
        print("made-up engine stopped", flush=True)

    def open_source(self, pinning):
        from launcher.data.sources import LocalSource

        class MadeUpSource(LocalSource):
            def batches(self, plan):
                print(f"made-up batches: {os.environ.get('MADE_UP')}", flush=True)
                return super().batches(plan)

            def report(self, stream, figures):
                print(f"made-up figures of {stream}", flush=True)

        return MadeUpSource(pinning)
"""

PROCESS = """
import os, signal, sys
print("made-up process", sys.argv[1], flush=True)
if sys.argv[1] == "0" and "STARTED" in os.environ:
    open(os.environ["STARTED"], "w").close()
signal.sigwait({signal.SIGUSR1, signal.SIGTERM})
"""

#: Waits for that process of the data host.
WAIT_FOR_PROCESS = """
import os, time
while not os.path.exists(os.environ["STARTED"]):
    time.sleep(0.01)
"""


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


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder where such a package is installed."""
    folder = tmp_path / "site"
    info = folder / "made_up-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "made_up_engine.py").write_text(ENGINE)
    (folder / "made_up_process.py").write_text(PROCESS)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: made-up\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[{ENGINE_ENTRY_POINTS}]\nmade-up = made_up_engine:MadeUpEngine\n"
    )
    return folder


def hashes(hosts: Hosts) -> list[str]:
    return [line for line in hosts.output().splitlines() if "sha256=" in line]


def test_a_job_reads_the_same_batches_through_another_engine(
    make_hosts: MakeHosts, package: Path
) -> None:
    files = {"pipeline.py": PIPELINE, "train.py": READER}
    alone = make_hosts(files)
    # its ranks read by themselves, and would not wait for the process of the data host
    files["train.py"] = WAIT_FOR_PROCESS + READER
    variables = {"PYTHONPATH": str(package), "STARTED": str(package / "started")}
    there = make_hosts(files, data=1, engine="made-up", environment=variables)
    alone.start()
    there.start()
    assert set(alone.wait().values()) == {0}, alone.output()
    assert set(there.wait().values()) == {0}, there.output()
    assert hashes(there) == hashes(alone) != []
    assert "made-up process 0" in there["algo-1"].output
    train = there["algo-2"].output
    for line in ("made-up process pump", "made-up batches: here", "made-up engine stopped"):
        assert line in train
    assert "made-up figures of pipeline:train_set" in train
    assert there.processes() == []


def test_a_loader_reads_through_the_engine_of_its_process(
    package: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (package / "engine_numbers.py").write_text("def numbers():\n    return [3, 1, 4, 1]\n")
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.setenv("LAUNCHER_DATA_ENGINE", "made-up")
    monkeypatch.setenv("MADE_UP", "by hand")
    loader = DataLoader("engine_numbers:numbers", batch_size=2, tensors=False)
    assert [batch.tolist() for batch in loader] == [[3, 1], [4, 1]]
    assert "made-up batches: by hand" in capsys.readouterr().out


def test_a_process_forked_by_an_engines_own_lives_until_that_is_closed(
    make_hosts: MakeHosts, package: Path
) -> None:
    """Otherwise each end of the job would wait for it, as for a script that saves."""
    (package / "made_up_process.py").write_text(FORKING)
    options = {"engine": "made-up", "environment": {"PYTHONPATH": str(package)}}
    hosts = make_hosts({"train.py": FAILING}, local_workers=1, **options)
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


def test_an_engine_that_is_not_there_is_refused_by_every_host(make_hosts: MakeHosts) -> None:
    hosts = make_hosts({"train.py": READER, "pipeline.py": PIPELINE}, data=1, engine="no-such")
    hosts.start()
    assert set(hosts.wait().values()) == {1}
    for host in hosts.hosts.values():
        assert host.failure is not None
        assert 'no data engine "no-such" is installed, only launcher, tf' in host.failure


def test_ours_is_found_by_its_line_and_others_are_named() -> None:
    assert find_engine(DEFAULT_ENGINE).packages == ("numpy",)
    with pytest.raises(
        DataError, match=r'no data engine "tf\.data" is installed, only launcher, tf'
    ):
        find_engine("tf.data")
