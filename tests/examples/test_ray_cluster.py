"""The cluster of Ray Data, as far as it needs no Ray."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import launcher.data.ray as ray

START = "from launcher.data import ray; ray.PATIENCE = 0; ray.start_node('algo-1.invalid', [])"


def test_a_node_tries_again_while_the_heads_host_has_no_name() -> None:
    """A host that has not started yet may have no name in the network either."""
    job = {
        "LAUNCHER_TOKEN": "token",
        "LAUNCHER_HOST_ADDRESS": "127.0.0.1",
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


def test_a_group_that_the_job_does_not_have_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAUNCHER_TOKEN", "token")
    monkeypatch.setenv("LAUNCHER_HOSTS", '{"cpu": ["127.0.0.1"], "gpu": ["127.0.0.1"]}')
    with pytest.raises(ValueError, match=r"no group 'data_group'; its groups are \['cpu', 'gpu'\]"):
        ray.join_cluster()
