"""A cluster of real hosts for tests of the job world alone: folders, launch.py, and no SDK.

It writes what a platform writes and starts one process per host, with loopback addresses of their
own. The local session does the same job for users; this one has no part of it, so that the job
world is tested against the contract and in interpreters that have nothing but numpy.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from waiting import PATIENCE

from launcher.shared import (
    ADDRESSES_VARIABLE,
    BUNDLE_CODE,
    BUNDLE_FILE,
    BUNDLE_LIBRARY,
    CPUS_VARIABLE,
    DOCUMENT_FILE,
    JOB_WORLD,
    LAUNCH_SCRIPT,
    PORT_BASE_VARIABLE,
    TOKEN_VARIABLE,
    JobDocument,
    MlPaths,
    Ports,
    parse_event,
)

REPOSITORY = Path(__file__).parents[2]
#: Subnets 127.k.0.x of this process's clusters, away from those of the local session. Processes of
#: one test run have neighbouring numbers: theirs start 37 apart.
_SUBNETS = itertools.count(os.getpid() * 37)


@dataclass
class Host:
    name: str
    paths: MlPaths
    log: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def output(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    @property
    def failure(self) -> str | None:
        return self.paths.failure.read_text() if self.paths.failure.exists() else None

    def events(self, name: str) -> list[dict[str, object]]:
        """The fields of this host's event lines of one name."""
        parsed = (parse_event(line) for line in self.output.splitlines())
        return [fields for event, fields in filter(None, parsed) if event == name]

    def wait(self, seconds: float = PATIENCE) -> int:
        assert self.process is not None
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"{self.name}: no end after {seconds:.0f} s:\n{self.output}"
            ) from None


@dataclass
class Hosts:
    """groups: {group name: number of hosts}; files: the user's code by name."""

    folder: Path
    document: JobDocument
    groups: Mapping[str, int]
    files: Mapping[str, str]
    hyperparameters: Mapping[str, object] = field(default_factory=dict)
    python: str = sys.executable
    environment: Mapping[str, str] = field(default_factory=dict)
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    cpus: int = 1

    def __post_init__(self) -> None:
        names = (f"algo-{number}" for number in itertools.count(1))
        self.members = {group: [next(names) for _ in range(n)] for group, n in self.groups.items()}
        subnet = next(_SUBNETS) % 100 + 100
        everyone = [host for hosts in self.members.values() for host in hosts]
        self.addresses = {h: f"127.{subnet}.0.{i}" for i, h in enumerate(everyone, 1)}
        self.port_base = _free_ports(list(self.addresses.values()))
        self.hosts = {host: self._lay_out(host) for host in everyone}

    def __getitem__(self, host: str) -> Host:
        return self.hosts[host]

    def start(self, *hosts: str) -> None:
        """Start the named hosts, or all."""
        for name in hosts or self.hosts:
            host = self.hosts[name]
            self._await_end(name)  # if it runs again
            with host.log.open("ab") as log:
                host.process = subprocess.Popen(
                    [self.python, str(host.paths.channels / "code" / LAUNCH_SCRIPT)],
                    env=self._variables(host),
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )

    def codes(self) -> dict[str, int]:
        """Start all hosts, and return their exit codes."""
        self.start()
        return self.wait()

    def run(self) -> str:
        """Start all hosts, which end well; returns what they printed."""
        assert set(self.codes().values()) == {0}, self.output()
        return self.output()

    def fail(self) -> None:
        """Start all hosts, which end badly."""
        assert set(self.codes().values()) == {1}, self.output()

    def hashes(self) -> list[str]:
        """What ranks have printed of the bytes of their batches."""
        found = sorted(line for line in self.output().splitlines() if "sha256=" in line)
        assert found, self.output()
        return found

    def await_output(self, text: str, *names: str, times: int = 1) -> None:
        """Wait until each named host has printed it, or all together where none is named.

        Fails with all that was printed, and at once where who should print it has ended.
        """
        for group in [[name] for name in names] or [list(self.hosts)]:
            waited = [self.hosts[name] for name in group]
            deadline = time.monotonic() + PATIENCE
            while True:
                ended = all(host.process and host.process.poll() is not None for host in waited)
                if sum(host.output.count(text) for host in waited) >= times:
                    break
                why = "the end" if ended else f"{PATIENCE:.0f} s"
                in_vain = ended or time.monotonic() > deadline
                assert not in_vain, f"no {text!r} of {group} before {why}:\n{self.output()}"
                time.sleep(0.05)

    def wait(self) -> dict[str, int]:
        """The exit codes of all started hosts."""
        deadline = time.monotonic() + PATIENCE
        started = {name: host.process for name, host in self.hosts.items() if host.process}
        try:
            return {
                name: process.wait(max(0.1, deadline - time.monotonic()))
                for name, process in started.items()
            }
        except subprocess.TimeoutExpired:
            raise AssertionError(f"no end after {PATIENCE:.0f} s:\n{self.output()}") from None

    def processes(self, host: str | None = None) -> list[int]:
        """Every living process of this cluster, or of one host, found by its environment."""
        markers = {f"{TOKEN_VARIABLE}={self.token}".encode()}
        if host is not None:
            markers.add(f"SAGEMAKER_BASE_DIR={self.hosts[host].paths.root}".encode())
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                alive = (entry / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
                if alive and markers <= set((entry / "environ").read_bytes().split(b"\0")):
                    found.append(int(entry.name))
        return found

    def terminate(self) -> None:
        """SIGTERM to every host, as the platform stops a job."""
        for host in self.hosts.values():
            assert host.process is not None
            host.process.send_signal(signal.SIGTERM)

    def kill(self, host: str | None = None) -> None:
        """SIGKILL to everything, or to one host, as when its machine is lost."""
        for pid in self.processes(host):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for name in [host] if host else self.hosts:
            self._await_end(name)

    def _await_end(self, host: str) -> None:
        if (process := self.hosts[host].process) is not None:
            process.wait(30)

    def output(self) -> str:
        return "\n".join(f"--- {name}\n{host.output}" for name, host in self.hosts.items())

    def _variables(self, host: Host) -> dict[str, str]:
        return {
            "PATH": f"{Path(self.python).parent}:{os.environ['PATH']}",
            "HOME": os.environ.get("HOME", "/"),
            "TMPDIR": str(host.log.parent),  # what a killed host leaves goes with the test
            "SAGEMAKER_BASE_DIR": str(host.paths.root),
            "TRAINING_JOB_NAME": "test-job",
            "AWS_REGION": "us-east-1",
            TOKEN_VARIABLE: self.token,
            ADDRESSES_VARIABLE: json.dumps(self.addresses),
            PORT_BASE_VARIABLE: str(self.port_base),
            CPUS_VARIABLE: str(self.cpus),
            **self.environment,
        }

    def _lay_out(self, name: str) -> Host:
        paths = MlPaths(self.folder / name / "ml")
        code = paths.channels / "code"
        for folder in (code, paths.config, paths.model, paths.output_data):
            folder.mkdir(parents=True)
        shutil.copy(REPOSITORY / "entrypoints" / LAUNCH_SCRIPT, code)
        (code / DOCUMENT_FILE).write_text(self.document.to_json())
        self._write_bundle(code / BUNDLE_FILE)
        (paths.root / BUNDLE_LIBRARY).symlink_to(_library())
        group = next(group for group, hosts in self.members.items() if name in hosts)
        write = {
            "resourceconfig.json": {
                "current_host": name,
                "current_group_name": group,
                "current_instance_type": "local",
                "hosts": sorted(self.addresses),
                "instance_groups": [
                    {"instance_group_name": group, "instance_type": "local", "hosts": hosts}
                    for group, hosts in self.members.items()
                ],
                "network_interface_name": "lo",
            },
            "hyperparameters.json": {k: json.dumps(v) for k, v in self.hyperparameters.items()},
            "inputdataconfig.json": {"code": {"TrainingInputMode": "File"}},
        }
        for file, content in write.items():
            (paths.config / file).write_text(json.dumps(content))
        return Host(name, paths, self.folder / name / "log")

    def _write_bundle(self, path: Path) -> None:
        """Pack the user's code; ours is there already."""
        staged = path.parent / "staged"
        for name, text in self.files.items():
            (staged / name).parent.mkdir(parents=True, exist_ok=True)
            (staged / name).write_text(text)
        with tarfile.open(path, "w:gz") as archive:
            archive.add(staged, BUNDLE_CODE)
        shutil.rmtree(staged)


@functools.cache
def _library() -> Path:
    """Copy the job world to where all hosts of this process find it.

    A bundle of a real job has it. To pack, unpack and compile it takes a second of processor time
    for each host, which the bytecode that the first hosts leave here saves the others.
    """
    library = Path(tempfile.mkdtemp(prefix="job-world-"))
    atexit.register(shutil.rmtree, library, ignore_errors=True)
    for part in JOB_WORLD:
        source, target = REPOSITORY / "launcher" / part, library / "launcher" / part
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            target.parent.mkdir(exist_ok=True)
            shutil.copy(source, target)
    return library


@contextlib.contextmanager
def running(hosts: Hosts, *names: str) -> Iterator[Hosts]:
    """Start hosts, and leave nothing of them behind."""
    hosts.start(*names)
    try:
        yield hosts
    finally:
        hosts.kill()


def _free_ports(addresses: list[str]) -> int:
    """The base of a block of 40 ports, of which nobody listens on those that are used."""
    for block in range(225):
        base = 21000 + (os.getpid() * 37 + block) % 225 * 40
        ports = Ports(base)
        try:
            for port in (ports.dispatcher, ports.receiver, ports.coordination, ports.start):
                socket.create_server((addresses[0], port)).close()
            of_tensorflow = (ports.tensorflow + number for number in range(2 * len(addresses)))
            for port in (ports.rendezvous, ports.tf_dispatcher, ports.tf_worker, *of_tensorflow):
                socket.create_server(("", port)).close()  # torchrun and TensorFlow listen on all
        except OSError:
            continue
        return base
    raise RuntimeError("no free ports")
