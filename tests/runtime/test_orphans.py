"""A host's first process waits for orphans, as a container's init does: none stays a zombie."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hosts import Hosts
from waiting import PATIENCE

from launcher.shared import CommandPart, JobDocument, Launch, Lifetime, Role, TrainerPart

#: Leaves orphans of several kinds behind, and waits until none of them is there any more.
LEAVES = f"""
import os, subprocess, sys, time
from pathlib import Path
shells = ["sleep 0.1 & echo $!", "setsid sleep 0.1 & echo $!", "(exit 3) & echo $!; sleep 0.2"]
for words in shells:
    subprocess.run(["sh", "-c", words], stdout=open("pids", "a"), check=True)
deadline = time.monotonic() + {PATIENCE}
pids = Path("pids").read_text().split()
while left := [pid for pid in pids if Path("/proc", pid).exists()]:
    if time.monotonic() > deadline:
        sys.exit(f"zombies: {{left}} of {{pids}}")
    time.sleep(0.02)
print("all", len(pids), "are gone")
sys.exit(7)
"""


@pytest.mark.parametrize(
    "launch", [Launch.PYTHON, pytest.param(Launch.TORCHRUN, marks=pytest.mark.long)]
)
def test_orphans_of_a_script_are_waited_for(
    make_hosts: Callable[..., Hosts], launch: Launch
) -> None:
    hosts = make_hosts({"train.py": LEAVES}, launch=launch)
    hosts.fail()
    assert "\nall 3 are gone\n" in hosts["algo-1"].output
    assert "the script called sys.exit(7)" in str(hosts["algo-1"].failure)


def test_orphans_of_a_command_are_waited_for_and_its_own_exit_code_is_kept(
    make_cluster: Callable[..., Hosts],
) -> None:
    document = JobDocument(
        roles={"train_group": Role.TRAIN, "server_group": Role.COMMAND},
        trainer=TrainerPart(entry_point="train.py"),
        commands={
            "server_group": CommandPart(command=("python", "leaves.py"), lifetime=Lifetime.OWN)
        },
    )
    files = {"train.py": "", "leaves.py": LEAVES}
    hosts = make_cluster(document, {"train_group": 1, "server_group": 1}, files)
    hosts.codes()
    assert "\nall 3 are gone\n" in hosts["algo-2"].output
    assert "the command ended before training did: exit code 7" in str(hosts["algo-2"].failure)
