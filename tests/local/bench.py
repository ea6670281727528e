"""Real jobs on this machine: a bench with a session, a folder for data, and few words to run."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from containers import NUMPY_IMAGE, session_in
from waiting import wait_until

from launcher.client.sessions import (
    TERMINAL_STATUSES,
    HostFolder,
    Isolation,
    JobFolder,
    LocalHost,
    LocalSession,
    Settings,
)

if TYPE_CHECKING:
    from launcher import Job

#: Prepended to every host's script: who am I, and where is my /opt/ml.
PREAMBLE = """\
import json, os, signal, socket, subprocess, sys, time
from pathlib import Path
ml = Path(os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml"))
config = {p.stem: json.loads(p.read_text()) for p in (ml / "input/config").iterdir()}
me = config["resourceconfig"]
host, group = me["current_host"], me["current_group_name"]

def escape():
    # A process that leaves its parent's session and group, outlives it, and ignores SIGTERM.
    program = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", program], start_new_session=True)

def wait_for_go():
    while not (ml / "input/data/code/go").exists():
        time.sleep(0.02)

def on_sigterm(action):
    signal.signal(signal.SIGTERM, action if action == signal.SIG_IGN else lambda *_: action())

"""


def processes_mentioning(text: str) -> dict[int, str]:
    """Living processes whose command line or environment has a text: (pid, command line)."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes()
                if text.encode() in command + (entry / "environ").read_bytes():
                    found[int(entry.name)] = command.replace(b"\0", b" ").decode()
            except OSError:
                continue
    return found


def platform_and_keeper(job_folder: Path) -> tuple[int, int]:
    """The pids of a job's platform process, and of the keeper above it."""
    pids = {
        pid
        for pid, command in processes_mentioning(str(job_folder)).items()
        if "launcher.client.sessions.local.job.platform_process" in command
    }
    parents = {pid: int(Path(f"/proc/{pid}/stat").read_text().split()[3]) for pid in pids}
    (platform,) = [pid for pid in pids if parents[pid] in pids]
    return platform, parents[platform]


def group(name: str, count: int) -> dict[str, Any]:
    return {"InstanceGroupName": name, "InstanceType": "ml.c5.xlarge", "InstanceCount": count}


def channel(name: str, uri: str, **source: Any) -> dict[str, Any]:
    fields = {"S3DataType": "S3Prefix", "S3Uri": uri, **source}
    return {"ChannelName": name, "DataSource": {"S3DataSource": fields}}


def host_of(number: int, instance_type: str = "local") -> LocalHost:
    address = {"address": "127.0.0.1", "interface": "lo"}
    return LocalHost(number=number, group="g", instance_type=instance_type, **address)


def job_without_programs(
    folder: Path, hosts: int = 1
) -> tuple[JobFolder, dict[LocalHost, HostFolder]]:
    """A job's folder with those of its hosts, as they are when a job starts; nothing runs."""
    job = JobFolder(folder / "job")
    job.path.mkdir()
    request: Any = {
        "AlgorithmSpecification": {"TrainingInputMode": "File"},
        "ResourceConfig": {"InstanceType": "local", "InstanceCount": hosts},
    }
    job.write(request, Settings(isolation=Isolation.PROCESS, boot=""), {})
    trees = {host: HostFolder(job.hosts / host.name) for host in map(host_of, range(1, hosts + 1))}
    for tree in trees.values():
        tree.make()
        tree.scratch.mkdir(parents=True)
    return job, trees


def fit(
    session: LocalSession, source: Path, files: Mapping[str, str], name: str = "job", **fields: Any
) -> Job:
    """The job of an estimator that runs train.py, at its end unless `wait` is False."""
    from launcher import Estimator  # not for scenarios, which run where little is installed

    source.mkdir(exist_ok=True)
    for file, text in files.items():
        (source / file).write_text(text)
    wait, inputs = fields.pop("wait", True), fields.pop("inputs", None)
    machines = {} if "instance_groups" in fields else {"instance_type": "local"}
    given = {"entry_point": "train.py", "source_dir": str(source), "max_run": 600, **machines}
    estimator = Estimator(**{**given, **fields}, sagemaker_session=session)
    return estimator.fit(inputs, job_name=name, logs=False, wait=wait)


def printed(job: Job) -> dict[str, list[str]]:
    """What each host has printed of its own."""
    found = {stream.host: [] for stream in job.session.log_streams(job.name)}
    for line in job.logs():
        if not line.is_event and not line.belongs_to_event:
            found[line.host].append(line.text)
    return found


class Bench:
    """A local session and what its jobs need; every job is named "job" unless said otherwise."""

    def __init__(
        self,
        folder: Path,
        isolation: str | None,
        grace: float = 20.0,
        platform_environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.output = folder / "output"
        self.image = NUMPY_IMAGE if isolation == "container" else "local"
        self.session = session_in(
            folder,
            isolation,
            stop_grace_seconds=grace,
            platform_environment=platform_environment,
        )

    def request(
        self,
        script: str,
        *,
        name: str = "job",
        hosts: int = 1,
        groups: Sequence[Mapping[str, Any]] = (),
        channels: Sequence[Mapping[str, Any]] = (),
        **fields: Any,
    ) -> dict[str, Any]:
        """A CreateTrainingJob request for a script that every host runs."""
        code = self.folder / "code" / name
        code.mkdir(parents=True, exist_ok=True)
        (code / "launch.py").write_text(PREAMBLE + textwrap.dedent(script))
        routed = {"InstanceGroupNames": [each["InstanceGroupName"] for each in groups]}
        is_routed = any("InstanceGroupNames" in str(each) for each in channels)
        return {
            "TrainingJobName": name,
            "RoleArn": "arn:aws:iam::000000000000:role/local",
            "AlgorithmSpecification": {
                "TrainingImage": self.image,
                "TrainingInputMode": "File",
                "ContainerEntrypoint": ["python3", "/opt/ml/input/data/code/launch.py"],
            },
            "ResourceConfig": {"VolumeSizeInGB": 30, "InstanceGroups": list(groups)}
            if groups
            else {"VolumeSizeInGB": 30, "InstanceType": "ml.c5.xlarge", "InstanceCount": hosts},
            "OutputDataConfig": {"S3OutputPath": f"file://{self.output}"},
            "StoppingCondition": {"MaxRuntimeInSeconds": 600},
            "InputDataConfig": [
                *channels,
                channel("code", f"file://{code}", **(routed if is_routed else {})),
            ],
        } | fields

    def start(self, script: str, **options: Any) -> str:
        """Create a job; its name."""
        request = self.request(script, **options)
        self.session.create_training_job(**request)
        return str(request["TrainingJobName"])

    def run(self, script: str, **options: Any) -> dict[str, Any]:
        """Create a job and wait for its end; its description."""
        return self.end_of(self.start(script, **options))

    def describe(self, name: str = "job") -> dict[str, Any]:
        return self.session.describe_training_job(TrainingJobName=name)

    def end_of(self, name: str = "job") -> dict[str, Any]:
        """The description of a job at its end, when no process of its hosts may be left."""

        def ended() -> dict[str, Any] | None:
            now = self.describe(name)
            return now if now["TrainingJobStatus"] in TERMINAL_STATUSES else None

        description: dict[str, Any] = wait_until(ended)
        assert processes_mentioning(f"{self.job_folder(name)}/hosts") == {}
        wait_until(lambda: not processes_mentioning(str(self.job_folder(name))))
        return description

    def go(self) -> None:
        """Let the hosts go on that wait for it."""
        (self.folder / "code" / "job" / "go").touch()

    def stop(self, name: str = "job") -> None:
        self.session.stop_training_job(TrainingJobName=name)

    def job_folder(self, name: str = "job") -> Path:
        return self.session.root / "jobs" / name

    def lines(self, name: str = "job") -> dict[str, list[str]]:
        """What each host has printed so far, by host."""
        return {
            stream.host: [event.text for event in self.session.read_log(name, stream.name)[0]]
            for stream in self.session.log_streams(name)
        }

    def wait_for_line(self, text: str, *, name: str = "job", hosts: int = 1) -> None:
        """Wait until so many hosts have printed a line."""
        wait_until(lambda: sum(text in lines for lines in self.lines(name).values()) >= hosts)
