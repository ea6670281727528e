"""Ordinary torch scripts with three lines changed: the same losses with and without data hosts."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hosts import Hosts

pytest.importorskip("torch")

SCRIPTS = Path(__file__).parent / "torch_scripts"

#: The lines that change in each script. What reads them is as its documentation writes it.
PORTS = {
    "vision": {
        "from torch.utils.data import DataLoader": "from launcher.data import DataLoader",
        "DataLoader(training_data(), ": 'DataLoader("images:training_data", ',
        "DataLoader(test_data(), ": 'DataLoader("images:test_data", ',
    },
    "text": {
        "from torch.utils.data import DataLoader": "from launcher.data import DataLoader",
        "DataLoader(train_set(), batch_size=8, shuffle=True, collate_fn=collate_batch)": (
            'DataLoader("reviews:train_set", 8, shuffle=True, collate_fn="reviews:collate_batch")'
        ),
        "DataLoader(test_set(), batch_size=8, collate_fn=collate_batch)": (
            'DataLoader("reviews:test_set", 8, collate_fn="reviews:collate_batch")'
        ),
    },
    "tabular": {
        "from torch.utils.data import DataLoader": "from launcher.data import DataLoader",
        "DataLoader(train_set(), ": 'DataLoader("table:train_set", ',
        "DataLoader(validation_set(), ": 'DataLoader("table:validation_set", ',
    },
}


def ported(kind: str) -> str:
    """Return a script with its three lines changed."""
    before = (SCRIPTS / kind / "train_before.py").read_text()
    after = before
    for line, change in PORTS[kind].items():
        assert after.count(line) == 1
        after = after.replace(line, change)
    lines = zip(before.splitlines(), after.splitlines(), strict=True)
    assert sum(old != new for old, new in lines) == 3
    return after


@pytest.mark.parametrize("kind", PORTS)
def test_the_script_runs_with_torch_before_it_is_changed(kind: str) -> None:
    script = SCRIPTS / kind / "train_before.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "epoch" in done.stdout


def with_import_alone(kind: str) -> str:
    """Return a script with its first changed line alone: its datasets are objects."""
    line, change = next(iter(PORTS[kind].items()))
    return (SCRIPTS / kind / "train_before.py").read_text().replace(line, change)


@pytest.mark.parametrize("kind", PORTS)
def test_a_script_prints_the_same_losses_with_and_without_data_hosts(
    make_hosts: Callable[..., Hosts], kind: str
) -> None:
    (module,) = (file for file in (SCRIPTS / kind).glob("*.py") if file.stem != "train_before")
    seen = []
    for data, script in ((0, ported(kind)), (1, ported(kind)), (0, with_import_alone(kind))):
        files = {"train.py": script, module.name: module.read_text()}
        hosts = make_hosts(files, data=data, datasets=())
        hosts.start()
        assert set(hosts.wait().values()) == {0}, hosts.output()
        seen.append(re.findall(r"^(?!launcher:).*(?:loss|accuracy).*$", hosts.output(), re.M))
    assert len(seen[0]) > 3
    assert seen[0] == seen[1] == seen[2]
