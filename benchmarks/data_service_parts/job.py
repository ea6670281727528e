"""Our side: a real job on this machine, with a data group and a train group.

The hosts are those of the job world's tests: folders as a platform lays them out, and launch.py in
each. Nothing knows that it is being measured.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_service_parts.processes import Tree, running_module
from launcher.shared import DataPart, JobDocument, Ports, Role, TrainerPart
from table.rows import Invalid

_REPOSITORY = Path(__file__).parents[2]
sys.path.append(str(_REPOSITORY / "tests" / "kit"))

from hosts import Hosts  # noqa: E402 - where it lives is no package

INSIDE = Path(__file__).parent / "inside"
_ROLES = {"data_group": Role.DATA, "train_group": Role.TRAIN}
_NUMBERS = itertools.count()


@dataclass
class Job:
    """One train host, and one data host with so many workers.

    script and dataset: of benchmarks/data_service_parts/inside. prefetch_bytes: as a job has it
    when nothing is said. local_workers: of the train host, beside those. code: folders of modules
    beside those of `inside`.
    """

    folder: Path
    script: str
    dataset: str
    name: str = "ours"
    workers_per_host: int = 1
    prefetch_bytes: int = DataPart.prefetch_bytes
    local_workers: int = 0
    code: Sequence[Path] = ()

    def lay_out(self, variables: Mapping[str, str]) -> None:
        """Write what the hosts find when they start."""
        document = JobDocument(
            roles=_ROLES,
            trainer=TrainerPart(entry_point=self.script, hang_timeout=0),
            data=DataPart(
                datasets=(self.dataset,),
                workers_per_host=self.workers_per_host,
                prefetch_bytes=self.prefetch_bytes,
                local_workers=self.local_workers,
            ),
        )
        self._hosts = Hosts(
            self.folder / f"job-{next(_NUMBERS)}",
            document,
            dict.fromkeys(_ROLES, 1),
            {
                path.name: path.read_text()
                for folder in (INSIDE, *self.code)
                for path in folder.glob("*.py")
            },
            environment=variables,
        )

    def start(self, variables: Mapping[str, str]) -> None:
        """Start all hosts."""
        self.lay_out(variables)
        self._hosts.start()

    def start_group(self, group: str) -> None:
        """Start the hosts of one group of a job that is laid out."""
        self._hosts.start(*self._hosts.members[group])

    def stop(self) -> None:
        self._hosts.kill()

    def output(self) -> str:
        return str(self._hosts.output())

    @property
    def trainer(self) -> Tree:
        return self._tree("train_group")

    @property
    def data(self) -> Tree:
        return self._tree("data_group")

    @property
    def dispatcher_address(self) -> tuple[str, int]:
        leader = self._hosts.addresses[self._host("train_group")]
        return leader, Ports(self._hosts.port_base).dispatcher

    @property
    def token(self) -> str:
        return str(self._hosts.token)

    def pids(self, module: str) -> list[int]:
        """The processes of the train host that run a module."""
        return running_module(self.trainer.pids(), module)

    def workers(self) -> list[int]:
        """The workers that have joined and are still there; a lost one may have come back."""
        leader = self._hosts[self._host("train_group")]
        times = Counter(event["pid"] for event in leader.events("worker_joined"))
        times.subtract(event["pid"] for event in leader.events("worker_left"))
        return [pid for pid, more in times.items() if more > 0]

    def await_workers(self, count: int, patience: float = 120.0) -> None:
        self.wait_until(lambda: len(self.workers()) >= count, f"{count} workers", patience)

    def wait_until(self, is_so: Callable[[], Any], what: str, patience: float = 60.0) -> None:
        deadline = time.monotonic() + patience
        while not is_so():
            if time.monotonic() > deadline:
                raise Invalid(f"no {what} within {patience:.0f} s:\n{self.output()[-3000:]}")
            time.sleep(0.05)

    # ---------------------------------------------------------------------------------------

    def _host(self, group: str) -> str:
        return str(self._hosts.members[group][0])

    def _tree(self, group: str) -> Tree:
        """The processes of a group's host."""
        return Tree.of(SAGEMAKER_BASE_DIR=str(self._hosts[self._host(group)].paths.root))
