"""One host of the probe: inspect it, connect to the other host, print and store the answers.

Standard library only. The exit code is 0 whatever is found: a failed job may keep no output.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import meeting

ROOT = Path(os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml"))
#: Seconds of the main host without the other. No platform watches it on this machine.
LINGER = 1.0 if os.environ.get("AWS_REGION") == "local" else 60.0
LIMITS = ("NOFILE", "NPROC", "MEMLOCK", "STACK", "CORE", "AS")
SECRET = re.compile(r"TOKEN|KEY|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
ACCOUNT = re.compile(r"(?<!\d)\d{12}(?!\d)")


def main(wait: float) -> None:
    config = {path.name: read(path) for path in files(ROOT / "input" / "config")}
    resources = config.get("resourceconfig.json") or {}
    hosts, host = resources.get("hosts", []), resources.get("current_host", "unknown")
    group = group_of(host, resources)
    platform, machine = platform_answers(config, hosts), machine_answers()
    for folder in (ROOT / "model", ROOT / "output" / "data"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "same-name.txt").write_text(host)  # which one is kept?
        (folder / f"of-{host}.txt").write_text(host)
    other = next((name for name in hosts if name != host), host)
    met = meeting.run(host, other, is_main=group == "main_group", wait=wait, linger=LINGER)
    platform["Can every host bind the same port on all its addresses?"] = met.pop("bound")
    platform["What happens when a helper host ends first, with exit code 0?"] = met
    answers = redacted({"host": host, "group": group, "platform": platform, "machine": machine})
    for question, answer in (answers["platform"] | answers["machine"]).items():
        print(f"{question} {json.dumps(answer, sort_keys=True)}", flush=True)
    (ROOT / "output" / "data" / f"probe-{host}.json").write_text(json.dumps(answers, indent=2))


def group_of(host: str, resources: dict[str, Any]) -> str:
    """The host's group, from the list of groups or from the host's own entry."""
    for group in resources.get("instance_groups", ()):
        if host in group.get("hosts", ()):
            return str(group["instance_group_name"])
    return str(resources.get("current_group_name", "unknown"))


# What the platform gives a host ------------------------------------------------------------------


def platform_answers(config: dict[str, Any], hosts: list[str]) -> dict[str, Any]:
    """Answers that do not depend on the machine."""
    data, first = ROOT / "input" / "data", Path("/proc", str(first_process()))
    variables = (first / "environ").read_text(errors="replace").rstrip("\0").split("\0")
    return {
        "Which channels does a host see?": sorted(path.name for path in data.glob("*")),
        "How is a sharded channel dealt out over groups?": [
            path.name for path in files(data / "sharded")
        ],
        "Which files are in input/config?": config,
        "Which folders are in /opt/ml?": sorted(folders()),
        "What is a host's own name?": socket.gethostname(),
        "Do the names of hosts resolve?": {name: meeting.resolve(name) for name in hosts},
        "Which variables are in the environment?": dict(
            variable.split("=", 1) for variable in variables
        ),
        "Where does the program start, and is it process 1?": [
            str((first / "cwd").readlink()).replace(str(ROOT), "/opt/ml"),
            first.name == "1",
        ],
    }


def first_process() -> int:
    """launch.py, whose environment and folder are the platform's, and not those of a script."""
    process = os.getpid()
    while process:
        words = Path(f"/proc/{process}/cmdline").read_text().split("\0")
        if any(word.endswith("/launch.py") for word in words):
            return process
        status = Path(f"/proc/{process}/status").read_text()
        process = int(status.partition("PPid:")[2].split()[0])
    return os.getpid()  # this script runs alone


def read(path: Path) -> Any:
    """A file's JSON, or its text, or why it cannot be read."""
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        return {"unreadable": error.strerror}
    try:
        return json.loads(text)
    except ValueError:
        return text


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if path.is_file())


def folders() -> Iterator[str]:
    """Folders that the platform made, among them not Launcher's library, nor those of this code."""
    for path in (*ROOT.glob("[!l]*"), *ROOT.glob("[!cl]*/*"), *ROOT.glob("input/data/*")):
        if path.is_dir():
            yield str(path.relative_to(ROOT)) + ("" if os.access(path, os.W_OK) else " (read-only)")


# What the machine has ----------------------------------------------------------------------------


def machine_answers() -> dict[str, Any]:
    """Answers that differ from machine to machine; sizes in bytes."""
    release = str(read(Path("/etc/os-release")))
    return {
        "How large are /dev/shm and the disk of /opt/ml?": {
            str(folder): size(folder) for folder in (Path("/dev/shm"), ROOT)
        },
        "What does the machine have?": {
            "cpus": [len(os.sched_getaffinity(0)), os.cpu_count()],
            "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "cgroup": {
                path.name: read(path)
                for path in map(Path("/sys/fs/cgroup").joinpath, ("cpu.max", "memory.max"))
            },
            "accelerators": accelerators(),
            "interfaces": sorted(path.name for path in Path("/sys/class/net").glob("*")),
        },
        "What runs there, as whom?": {
            "python": platform.python_version(),
            "system": [*re.findall('PRETTY_NAME="(.*)"', release), platform.release()],
            "user": [os.getuid(), os.getgid(), os.getgroups()],
            "programs": {name: shutil.which(name) for name in ("mpirun", "sshd", "torchrun", "ip")},
        },
        "What is mounted?": mounts(),
        "Which limits does a process have?": {
            name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}")) for name in LIMITS
        },
    }


def size(folder: Path) -> dict[str, int] | None:
    try:
        return shutil.disk_usage(folder)._asdict()
    except OSError:
        return None


def accelerators() -> list[str]:
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return []
    # "GPU 0: Tesla T4 (UUID: GPU-...)": drop the identifier, which is private
    return [line.partition(" (UUID")[0] for line in listed.stdout.splitlines()]


def mounts() -> list[str]:
    """Mounts at and below the ML root, and at /dev/shm; one that another hides is not listed."""
    lines = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    visible = {
        place: f"{place} {kind} {options[:2]}"
        for _, place, kind, options, *_ in lines
        if place == "/dev/shm" or Path(place).is_relative_to(ROOT)
    }
    return sorted(visible.values())


# The answers may be published --------------------------------------------------------------------


def redacted(value: Any, name: str = "") -> Any:
    """The value without secrets and account numbers; `name` is its key, which may mark a secret."""
    if SECRET.search(name):
        return "<redacted>"
    if isinstance(value, dict):
        return {key: redacted(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [redacted(item) for item in value]
    return redacted_text(value) if isinstance(value, str) else value


def redacted_text(text: str) -> str:
    """A text, which may itself hold JSON, as variables of SageMaker do."""
    if text[:1] in ("{", "["):
        try:
            return json.dumps(redacted(json.loads(text)))
        except ValueError:
            pass  # not JSON after all
    return ACCOUNT.sub("<account>", text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wait_seconds", type=float, help="to wait for the other host")
    main(parser.parse_args().wait_seconds)
