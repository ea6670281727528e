"""What ranks print, as it stands in a host's log."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.runtime import REPORTS_VARIABLE

LINES = """
import sys
print("epoch", 0, "loss", 0.5)
print("a line ", end="")
print("in two parts")
print("a", "warning", file=sys.stderr)
print("begun", end="")
"""

#: A rank that ends when its host, which was asked to stop, has removed the reports.
LATE = f"""
import os, shutil
shutil.rmtree(os.environ["{REPORTS_VARIABLE}"])
raise SystemExit(3)
"""


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_a_printed_line_is_one_write_so_that_ranks_do_not_mix_theirs(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(LINES)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # keeps writes apart
    with ours, theirs:
        command = [sys.executable, "-u", "-m", "launcher.runtime.launch.rank", str(script)]
        subprocess.run(command, stdout=theirs, stderr=theirs, check=True, timeout=540)
        theirs.close()
        writes = list(iter(lambda: ours.recv(4096), b""))
    assert writes == [
        b"epoch 0 loss 0.5\n",
        b"a line in two parts\n",
        b"a warning\n",
        b"begun",
    ]


@pytest.mark.long
def test_a_rank_that_ends_without_a_reader_of_reports_leaves_no_traceback(
    tmp_path: Path,
) -> None:
    script = tmp_path / "train.py"
    script.write_text(LATE)
    reports = tmp_path / "reports"
    reports.mkdir()
    run = subprocess.run(
        [
            *(sys.executable, "-m", "launcher.runtime.launch.torchrun", "--rdzv-backend=static"),
            *("--nnodes=1", "--node-rank=0", f"--master-port={_free_port()}"),
            *("--master-addr=127.0.0.1", "--module", "launcher.runtime.launch.rank", str(script)),
        ],
        env={**os.environ, REPORTS_VARIABLE: str(reports)},
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert run.returncode == 1
    assert "Traceback" not in run.stderr
    assert "exitcode" not in run.stderr  # the host says so
