"""What a job of a schedule finds on its hosts: the user's code, its document, its variables."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from schedule import Schedule

from launcher.runtime import RECEIVER_VARIABLE
from launcher.shared import (
    ADDRESSES_VARIABLE,
    DOCUMENT_FILE,
    ML_ROOT_VARIABLE,
    TOKEN_VARIABLE,
    DataPart,
    JobDocument,
    MlPaths,
    Role,
    TrainerPart,
)

TRAINER = "noting_trainer.py"
_DATASETS = "noisy_samples.py"
_FOLDERS = ("logs", "work", "slow")


@dataclass(frozen=True, kw_only=True)
class JobFiles:
    """groups: the hosts of each group. addresses: of all hosts."""

    schedule: Schedule
    folder: Path
    token: str
    groups: Mapping[str, Sequence[str]]
    addresses: Mapping[str, str]

    @property
    def paths(self) -> MlPaths:
        return MlPaths(self.folder / "ml")

    def lay_out(self) -> None:
        code_channel = self.paths.channels / "code"
        for path in (code_channel, self.paths.code, *map(self.folder.joinpath, _FOLDERS)):
            path.mkdir(parents=True)
        (code_channel / DOCUMENT_FILE).write_text(self._document().to_json())
        for name in (_DATASETS, TRAINER):
            shutil.copy(Path(__file__).with_name(name), self.paths.code)

    def _document(self) -> JobDocument:
        drawn = self.schedule
        return JobDocument(
            roles={"data_group": Role.DATA, "train_group": Role.TRAIN},
            trainer=TrainerPart(entry_point=TRAINER),
            data=DataPart(
                datasets=(drawn.dataset,),
                workers_per_host=drawn.workers_per_host,
                prefetch_bytes=drawn.prefetch,
                local_workers=drawn.local_workers,
            ),
            start_timeout=60.0,
        )

    def variables(self, host: str) -> dict[str, str]:
        """Of all processes on a host."""
        drawn = self.schedule
        trainer = {
            "loader": {**drawn.stream, "epochs": drawn.epochs},
            "epochs": drawn.epochs,
            "seconds": drawn.step_seconds,
            "save_every": drawn.save_every,
        }
        # Each host has its own abstract sockets, so that all train hosts can have one name.
        is_train = host in self.groups["train_group"]
        receiver = {RECEIVER_VARIABLE: f"launcher-{self.token}"} if is_train else {}
        return {
            **receiver,
            "PATH": os.environ["PATH"],
            "HOME": os.environ.get("HOME", "/"),
            "TRAINING_JOB_NAME": "small-job",
            ML_ROOT_VARIABLE: str(self.paths.root),
            TOKEN_VARIABLE: self.token,
            ADDRESSES_VARIABLE: json.dumps(dict(self.addresses)),
            "SM_RESOURCE_CONFIG": json.dumps(self._resources(host)),
            "SM_CURRENT_HOST": host,
            "CHAOS_FOLDER": str(self.folder),
            "CHAOS_TRAINER": json.dumps(trainer),
            "CHAOS_DATA": f"{drawn.length} {drawn.sample_bytes} {drawn.sample_seconds}",
        }

    def _resources(self, host: str) -> dict[str, object]:
        return {
            "current_host": host,
            "instance_groups": [
                {"instance_group_name": name, "instance_type": "local", "hosts": list(hosts)}
                for name, hosts in self.groups.items()
            ],
        }
