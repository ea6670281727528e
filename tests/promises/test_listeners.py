"""What listens while a local job runs: on addresses of the loopback alone, except what is named."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterator
from pathlib import Path

import pytest
from endings_remains import command, processes_of
from endings_stage import Stage
from waiting import wait_until

#: The state of a socket that listens, in /proc/net/tcp.
LISTENS = "0A"
#: Ranks that have met, and a rank with a store of its own, as scripts without torchrun have it.
COLLECTIVE = """
import os
import torch
import torch.distributed as dist
from faults import wait_for

dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
print(f"trains: rank {dist.get_rank()}", flush=True)
wait_for("go")
dist.barrier()
dist.destroy_process_group()
"""


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The address of a line of /proc/net/tcp, whose words are in the machine's byte order."""
    raw = bytes.fromhex(text)
    words = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
    return ipaddress.ip_address(words)


def listeners(folder: Path) -> Iterator[tuple[str, int, str]]:
    """(address, port, command) of each socket on which a job's processes listen."""
    inodes = {}
    for pid in processes_of(folder):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                inodes[str(entry.readlink())] = pid
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            pid = inodes.get(f"socket:[{fields[9]}]")
            if fields[3] == LISTENS and pid is not None:
                host, _, port = fields[1].partition(":")
                yield str(_address(host)), int(port, 16), command(pid)


def is_loopback(address: str) -> bool:
    parsed = ipaddress.ip_address(address)
    mapped = getattr(parsed, "ipv4_mapped", None)
    return (mapped or parsed).is_loopback


@pytest.mark.long
def test_a_job_listens_on_the_loopback_alone(stage: Stage) -> None:
    stage.start(script=COLLECTIVE, torchrun=True)
    for rank in (0, 1):
        stage.wait_for_line(f"trains: rank {rank}")
    found = list(listeners(stage.job_folder))
    stage.signal("go")
    wait_until(stage.is_over, what="the end of the job")

    assert stage.job.summary()["status"] == "Completed"
    stores = [each for each in found if "launcher.runtime.launch.torchrun" in each[2]]
    assert stores, f"torchrun's store listens: {found}"
    assert len(found) >= 5, "dispatcher, coordination, two receivers and the store"
    assert not [each for each in found if not is_loopback(each[0])]
