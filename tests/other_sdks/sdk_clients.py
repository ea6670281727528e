"""Programs of other SDKs, which know an endpoint by its variables alone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from customer import Customer


def run_client(customer: Customer, folder: Path, *command: str | Path) -> str:
    """What a client prints, which has nothing but the endpoint's variables."""
    variables = {"HOME": str(folder), "PATH": os.environ["PATH"], **customer.endpoint.environment}
    result = subprocess.run(
        command,
        cwd=folder,
        env=variables,
        timeout=300,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout
