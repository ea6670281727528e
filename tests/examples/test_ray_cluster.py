"""The cluster of Ray Data, as far as it needs no Ray."""

from __future__ import annotations

import os
import subprocess
import sys

START = "from launcher.data import ray; ray.PATIENCE = 0; ray.start_node(cpus=1)"


def test_a_node_tries_again_while_the_heads_host_has_no_name() -> None:
    """A host that has not started yet may have no name in the network either."""
    job = {
        "LAUNCHER_TOKEN": "token",
        "LAUNCHER_HOST_ADDRESS": "127.0.0.1",
        "LAUNCHER_HOSTS_DATA_GROUP": "algo-1.invalid,127.0.0.1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", START],
        env={**os.environ, **job},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.splitlines()[-1] == "RuntimeError: ray start has failed for 0 s"
