"""Ordinary torch scripts with three lines changed: the same losses with and without data hosts."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from forked_ranks import REPOSITORY, run_ranks
from made_hosts import MakeHosts

pytest.importorskip("torch")

SCRIPTS = Path(__file__).parent / "torch_scripts"
#: Sums of as many threads as cores differ from those of one in their last bits, and so do those of
#: OpenBLAS's kernels for another kind of CPU, which this machine may have chosen.
SAME_SUMS = {
    "OMP_NUM_THREADS": "1",
    **{name: value for name, value in os.environ.items() if name.startswith("OPENBLAS_")},
}

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


def run_alone(script: Path) -> str:
    """Run a script as plain Python does, in a fork; what it printed."""
    done = run_ranks(
        str(script),
        ranks=1,
        variables={**os.environ, "PYTHONPATH": str(REPOSITORY), **SAME_SUMS},
        output=script.with_suffix(".log"),
        folder=script.parent,
        patience=120,
    )
    assert done.code == 0, done.output
    return done.output


@pytest.mark.long
@pytest.mark.parametrize("kind", PORTS)
def test_the_script_runs_with_torch_before_it_is_changed(kind: str, tmp_path: Path) -> None:
    folder = shutil.copytree(SCRIPTS / kind, tmp_path / kind)
    assert "epoch" in run_alone(folder / "train_before.py")


def with_import_alone(kind: str) -> str:
    """Return a script with its first changed line alone: its datasets are objects."""
    line, change = next(iter(PORTS[kind].items()))
    return (SCRIPTS / kind / "train_before.py").read_text().replace(line, change)


@pytest.mark.long
@pytest.mark.parametrize("kind", PORTS)
def test_a_script_prints_the_same_losses_with_and_without_data_hosts(
    make_hosts: MakeHosts, tmp_path: Path, kind: str
) -> None:
    (module,) = (file for file in (SCRIPTS / kind).glob("*.py") if file.stem != "train_before")
    files = {"train.py": ported(kind), module.name: module.read_text()}
    hosts = make_hosts(files, data=1, datasets=(), environment=SAME_SUMS)
    hosts.run()
    served = losses(hosts.output())
    assert len(served) > 3

    shutil.copy(module, tmp_path)
    for name, script in (("ported", ported(kind)), ("import_alone", with_import_alone(kind))):
        (tmp_path / f"{name}.py").write_text(script)
        assert losses(run_alone(tmp_path / f"{name}.py")) == served, name


def losses(output: str) -> list[str]:
    return re.findall(r"^(?!launcher:).*(?:loss|accuracy).*$", output, re.MULTILINE)
