"""What is said of a SIGKILL, from the files in which Linux has its counts, in three versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.runtime.host import processes

GIB = 1 << 30
MACHINE = {"/proc/meminfo": "MemTotal:  24117248 kB\nMemAvailable:  23068672 kB\n"}
V1 = {
    **MACHINE,
    "/proc/self/cgroup": "4:memory:/box\n",
    "/sys/fs/cgroup/memory/box/memory.limit_in_bytes": f"{4 * GIB}\n",
    "/sys/fs/cgroup/memory/box/memory.usage_in_bytes": f"{GIB}\n",
}
V2 = {
    **MACHINE,
    "/proc/self/cgroup": "0::/\n",
    "/sys/fs/cgroup/memory.max": f"{4 * GIB}\n",
    "/sys/fs/cgroup/memory.current": f"{4 * GIB - 1}\n",
}
OOM = "the kernel's OOM killer: memory ran out"


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (MACHINE, "memory was not short: 1.0 of 23.0 GiB in use"),
        ({**MACHINE, "/proc/vmstat": "oom_kill 1\n"}, OOM),
        (V1, "memory was not short: 1.0 of 4.0 GiB in use"),
        ({**V1, "/sys/fs/cgroup/memory/box/memory.oom_control": "under_oom 0\noom_kill 2\n"}, OOM),
        (V2, "memory was short: 4.0 of 4.0 GiB in use"),
        ({**V2, "/sys/fs/cgroup/memory.events": "oom 1\noom_kill 1\n"}, OOM),
        (
            {**V2, "/sys/fs/cgroup/memory.events": "oom_kill 0\n", "/proc/vmstat": "oom_kill 9\n"},
            "memory was short: 4.0 of 4.0 GiB in use",
        ),
        ({}, "how much memory was in use is not known"),
    ],
    ids=["free", "vmstat", "v1", "v1 killed", "v2 short", "v2 killed", "another's", "no Linux"],
)
def test_the_kernels_count_decides_and_then_what_was_in_use(
    monkeypatch: pytest.MonkeyPatch, files: dict[str, str], words: str
) -> None:
    def read(path: Path) -> str:
        return files.get(str(path), "")

    monkeypatch.setattr(processes, "_text", read)
    monkeypatch.setattr(processes, "_KILLS_BEFORE", 0)
    monkeypatch.setattr(processes.resource, "getrusage", lambda _: NoPeak())
    assert processes.sigkill_words() == words


class NoPeak:
    """The usage of children of which none has ended."""

    ru_maxrss = 0
