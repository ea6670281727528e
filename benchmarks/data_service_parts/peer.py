"""A peer: a server process and a client process of its own making, of one module below peers/."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from data_service_parts.job import INSIDE
from data_service_parts.processes import Tree
from table.rows import Invalid

_PEERS = Path(__file__).parent / "peers"
#: Let malloc use freed blocks of every size again (mallopt(3)), as it does in our own workers:
#: those who make memory for each batch, once or several times, were measured at 38 and 64 MB to
#: reach 1.2x (tf.data), 1.6x (gRPC) and 2.2x (AWS's pattern) the rate, and no less at 4 MB.
_KEEP_ALL = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}
#: Of up to 32 MiB, the highest threshold: torch's loader, whose batches come in shared memory, was
#: measured to lose a sixth of its rate by the other.
_KEEP_SMALL = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(256 << 20)}


@dataclass
class Peer:
    """`python peers/MODULE.py serve` says its port; `... read PORT VARIANT` has the consumer.

    has_server: else the client does everything. malloc: its settings, as environment variables.
    modules: the folder of MODULE. code: folders of what it imports, beside `inside`.
    """

    name: str
    python: str
    module: str
    folder: Path
    arguments: Sequence[str] = ()
    has_server: bool = True
    malloc: Mapping[str, str] = field(default_factory=lambda: _KEEP_ALL)
    modules: Path = _PEERS
    code: Sequence[Path] = ()

    @property
    def trainer(self) -> Tree:
        return self._tree("trainer")

    @property
    def data(self) -> Tree:
        return self._tree("data")

    def start(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self._log = self.folder / f"{self.name.replace(' ', '-')}.log"
        port = "0"
        if self.has_server:
            server = self._run("data", ["serve", *self.arguments], subprocess.PIPE)
            assert server.stdout is not None
            port = server.stdout.readline().decode().strip()
            if not port:
                raise Invalid(f"{self.name}: its server did not start\n{self.output()[-2000:]}")
        self._run("trainer", ["read", port, *self.arguments])

    def stop(self) -> None:
        self.trainer.kill()
        self.data.kill()

    def output(self) -> str:
        return self._log.read_text()

    # ---------------------------------------------------------------------------------------

    def _tree(self, part: str) -> Tree:
        return Tree.of(BENCH_SIDE=self.name, BENCH_PART=part, BENCH_OWNER=str(os.getpid()))

    def _run(
        self, part: str, words: Sequence[str], stdout: int | IO[bytes] | None = None
    ) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [self.python, str(self.modules / f"{self.module}.py"), *words],
                env={
                    **os.environ,
                    **self.malloc,
                    **self._variables,
                    "PYTHONPATH": os.pathsep.join(map(str, (INSIDE, *self.code))),
                    "BENCH_PART": part,
                    "BENCH_OWNER": str(os.getpid()),
                },
                stdin=subprocess.DEVNULL,
                stdout=stdout or log,
                stderr=log,
            )


def torch_loader(folder: Path, pipeline: str) -> Peer:
    """torch's DataLoader, which has no server: its client starts the workers itself."""
    return Peer(
        name="torch",
        python=sys.executable,
        module="torch_loader",
        folder=folder,
        arguments=[pipeline],
        has_server=False,
        malloc=_KEEP_SMALL,
    )
