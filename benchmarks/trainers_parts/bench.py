"""What every row gets: how much to measure, and ranks to measure with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from table.rows import Invalid
from trainers_parts.inside.conversation import RESULT, SETTINGS

_REPOSITORY = Path(__file__).parents[2]
#: Seconds that the ranks of one run may take, on a machine that is busy.
_PATIENCE = 240


@dataclass(frozen=True, kw_only=True)
class Bench:
    """rounds: of every run of ranks. is_quick: only to see that it works; the figures are void.

    package: of the modules that ranks run. environment: what those have besides this process's.
    """

    rounds: int
    is_quick: bool
    folder: Path
    package: str = "trainers_parts.inside"
    environment: Mapping[str, str] = field(default_factory=dict)

    def pick(self, usual: Any, quick: Any) -> Any:
        """A length, a count or a choice: the usual one, or the one of a quick run."""
        return quick if self.is_quick else usual

    def run(self, module: str, *, ranks: int, **settings: Any) -> Any:
        """What rank 0 of a module of the package tells; raises Invalid when the ranks fail.

        Each rank computes with one thread.
        """
        result = self.folder / "result.json"
        result.unlink(missing_ok=True)
        under = ["-m", "torch.distributed.run", "--nnodes=1", f"--nproc-per-node={ranks}"]
        under += ["--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0"]
        try:
            done = subprocess.run(
                [sys.executable, *under, "-m", f"{self.package}.{module}"],
                env={
                    **os.environ,
                    "PYTHONPATH": f"{_REPOSITORY}:{_REPOSITORY / 'benchmarks'}",
                    "OMP_NUM_THREADS": "1",
                    **self.environment,
                    SETTINGS: json.dumps(settings),
                    RESULT: str(result),
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=_PATIENCE,
            )
        except subprocess.TimeoutExpired as error:
            raise Invalid(f"{module} on {ranks} ranks took more than {_PATIENCE} s") from error
        if done.returncode or not result.exists():
            raise Invalid(f"{module} on {ranks} ranks failed:\n{done.stdout[-3000:]}")
        return json.loads(result.read_text())
