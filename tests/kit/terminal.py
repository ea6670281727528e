"""The command line, run in this process or in one of its own, on jobs of its own."""

import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest
from click.testing import CliRunner, Result

from launcher.client.cli import main

#: One host of this machine runs train.py.
ONE_HOST = """\
entry_point: train.py
source_dir: .
instance_type: local
instance_count: 1
"""


class Terminal:
    """Runs verbs in this process, or as a process of their own; writes the folder's files."""

    one_host = ONE_HOST

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        self.environment = {"LAUNCHER_HOME": str(home), "NO_COLOR": "1"}
        self.home = home

    def __call__(self, *arguments: object) -> Result:
        runner = CliRunner(env=self.environment)
        return runner.invoke(main, [str(word) for word in arguments], catch_exceptions=False)

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "launcher", *map(str, arguments)],
            env={**os.environ, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def write(self, script: str = "print('hello')\n", job: str = ONE_HOST) -> Path:
        """A job folder; the path of its job file."""
        (self.folder / "train.py").write_text(script)
        (self.folder / "job.yaml").write_text(job)
        return self.folder / "job.yaml"

    @staticmethod
    def wait_for(stream: IO[str], text: str) -> None:
        """Read a process's lines until one has the text; its end is a failure."""
        lines = []
        for line in stream:
            lines.append(line)
            if text in line:
                return
        pytest.fail(f"{text!r} never came:\n{''.join(lines)}")


@pytest.fixture
def terminal(tmp_path) -> Terminal:
    folder = tmp_path / "project"
    folder.mkdir()
    return Terminal(folder, tmp_path / "home")
