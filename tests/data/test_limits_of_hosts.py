"""What a host lacks is said at once, and not found out by a hang."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.data.receiver import host_limits
from launcher.errors import DataError

CHECK = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[1])))
from launcher.data.receiver import host_limits
host_limits.check_descriptors()
"""


def test_the_memory_of_a_container_is_its_limit(tmp_path: Path) -> None:
    whole = host_limits.memory_bytes(())
    limited, unlimited = tmp_path / "memory.max", tmp_path / "unlimited"
    limited.write_text("1048576\n")
    unlimited.write_text("max\n")
    assert host_limits.memory_bytes((unlimited, tmp_path / "absent")) == whole
    assert host_limits.memory_bytes((unlimited, limited)) == 1048576


def test_a_prefetch_that_cannot_be_held_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DataError, match=r"lower data_service\.prefetch_bytes"):
        host_limits.check_memory(1 << 30, 1 << 30)
    host_limits.check_memory(600 << 20, 1 << 30)
    assert "memory_low" in capsys.readouterr().err
    host_limits.check_memory(500 << 20, 1 << 30)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("files", "code"), [(100, 1), (320, 0)])
def test_too_few_descriptors_are_refused(files: int, code: int) -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft > 320
    done = subprocess.run(
        [sys.executable, "-c", CHECK, str(files)], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    assert ("raise the limit (ulimit -n" in done.stderr) == bool(code)
