"""A host says what it does before its script trains: it imports torch, it waits for data hosts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hosts import Hosts
from waiting import wait_until

from launcher.shared import Launch

MakeHosts = Callable[..., Hosts]
PIPELINE = "def train_set():\n    return list(range(4))\n"
READS = """
from launcher.data import DataLoader
print([batch.tolist() for batch in DataLoader("pipeline:train_set", batch_size=2)])
"""


def phases(hosts: Hosts, host: str = "algo-1") -> list[object]:
    return [event["doing"] for event in hosts[host].events("host_phase")]


@pytest.mark.parametrize(
    "launch", [Launch.PYTHON, pytest.param(Launch.TORCHRUN, marks=pytest.mark.long)]
)
def test_a_long_import_is_reported_by_the_package_of_the_script(
    make_hosts: MakeHosts, tmp_path: Path, launch: Launch
) -> None:
    heavy = tmp_path / "packages" / "heavy"
    heavy.mkdir(parents=True)
    (heavy / "__init__.py").write_text("import heavy.inside\n")
    (heavy / "inside.py").write_text("import time\ntime.sleep(2.5)\n")
    files = {"train.py": "import mine\n", "mine.py": "import heavy\nprint('trains')\n"}
    hosts = make_hosts(files, launch=launch, environment={"PYTHONPATH": str(heavy.parent)})
    hosts.run()
    imports = [phase for phase in phases(hosts) if "importing" in str(phase)]
    assert imports == ["importing heavy"]


def test_the_wait_for_data_hosts_is_reported(make_hosts: MakeHosts) -> None:
    hosts = make_hosts({"pipeline.py": PIPELINE, "train.py": READS}, data=1)
    hosts.start("algo-2")
    wait_until(lambda: "waiting for the data service" in phases(hosts, "algo-2"))
    hosts.start("algo-1")
    assert set(hosts.wait().values()) == {0}, hosts.output()
    assert "[[0, 1], [2, 3]]" in hosts["algo-2"].output


def test_slow_ranks_and_no_shell_script_are_reported(make_hosts: MakeHosts, tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "sitecustomize.py").write_text(
        "import os, sys, time\nif 'launcher.runtime.launch.rank' in sys.orig_argv: time.sleep(3)\n"
    )
    lasts = "import time\ntime.sleep(3)\n"  # longer than between two looks at the ranks
    hosts = make_hosts({"train.py": lasts}, environment={"PYTHONPATH": str(slow)})
    hosts.run()
    assert phases(hosts) == ["starting its ranks", ""]
    files = {"run.sh": "sleep 2.5; echo runs\n"}
    hosts = make_hosts(files, entry_point="run.sh", environment={"PYTHONPATH": str(slow)})
    hosts.run()
    assert phases(hosts) == []
