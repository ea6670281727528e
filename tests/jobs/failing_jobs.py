"""Whole jobs that fail: their files, and the cause and the host that are shown of each."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from launcher.shared import visible_gpus

ALONE = "algo-1 (homogeneousCluster)"
DATA = "algo-1 (data_group)"
ONE = """\
entry_point: train.py
source_dir: .
instance_type: local
instance_count: 1
"""
TWO = """\
entry_point: train.py
source_dir: .
instance_groups:
  - {instance_group_name: data_group, instance_type: local, role: data}
  - {instance_group_name: train_group, instance_type: local, role: train}
data_service: {datasets: ["pipeline:samples"], workers_per_host: 1}
"""
READS = """\
from launcher.data import DataLoader

for batch in DataLoader("pipeline:samples", batch_size=4):
    pass
"""
DATASET = """\
import os, signal

class Samples:
    def __len__(self):
        return 16

    def __getitem__(self, index):
        LINE
        return float(index)

def samples():
    return Samples()
"""


@dataclass(frozen=True, kw_only=True)
class FailingJob:
    """A job and its failure. host: "algo-1 (group)". cause, fix: parts of what is shown.

    once: words of the failure that nothing repeats; None for the cause, empty where its own lines
    do. brief: what is shown of it where the logs of other hosts are not read; empty for the same.
    """

    train: str = READS
    host: str = ALONE
    cause: str
    fix: str | None = None
    once: str | None = None
    brief: str = ""
    job: str = ONE
    files: dict[str, str] = field(default_factory=dict)


def of_sample(line: str, **more: object) -> FailingJob:
    """A failure while a sample is prepared, on the data host."""
    made = DATASET.replace("LINE", line)
    return FailingJob(job=TWO, files={"pipeline.py": made}, host=DATA, **more)  # type: ignore[arg-type]


#: Those of docs/troubleshooting.md.
TWENTY = {
    "an exception": FailingJob(
        train="def step():\n    raise ValueError('no such luck')\n\nstep()\n",
        cause="ValueError: no such luck",
    ),
    "a text for sys.exit": FailingJob(
        train="import sys\nsys.exit('the learning rate must be positive')\n",
        cause="the learning rate must be positive",
        once="must be positive",
    ),
    "an exit code": FailingJob(train="import sys\nsys.exit(7)\n", cause="exit code 7"),
    "a missing package": FailingJob(
        train="import tinm\n",
        cause="ModuleNotFoundError: No module named 'tinm'",
        fix="add tinm to requirements.txt",
        once="No module named",
    ),
    "a missing package of the data host": FailingJob(
        job=TWO,
        files={"pipeline.py": "import tinm\n" + DATASET.replace("LINE", "")},
        host=DATA,
        cause="ModuleNotFoundError: No module named 'tinm'",
        fix="add tinm to requirements.txt",
        once="No module named",
    ),
    "an argument that the script does not have": FailingJob(
        job=ONE + "hyperparameters: {epohcs: 3}\n",
        train="import argparse\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--epochs', type=int)\nparser.parse_args()\n",
        cause="unrecognized arguments: --epohcs 3",
        fix="hyperparameters become the script's arguments",
        once="unrecognized arguments",
    ),
    "a mistake of syntax in a module": FailingJob(
        train="import model\n",
        files={"model.py": "def build(:\n"},
        cause="SyntaxError",
        fix="correct the line",
    ),
    "a channel that the job does not have": FailingJob(
        train="import os\nos.environ['SM_CHANNEL_VALID']\n",
        cause="KeyError: 'SM_CHANNEL_VALID'",
        fix="add the channel to the inputs of the job",
        once="KeyError",
    ),
    "a file of a channel that is not there": of_sample(
        "open('/opt/ml/input/data/digits/x.png')",
        cause="FileNotFoundError: [Errno 2] No such file or directory: '/opt/ml/input/data/digits",
        fix="read channels from the folders that SM_CHANNEL_<NAME> names",
        once="FileNotFoundError",
    ),
    "a sample that is None": of_sample(
        "if index == 7: return None",
        cause="number 4 of the 4 samples of a batch is None (samples 4, 5, 6, 7)",
        fix="let `__getitem__` return a value for each index",
        once="is None",
    ),
    "a sample that raises": of_sample(
        "if index == 7: raise RuntimeError('bad pixels')", cause="RuntimeError: bad pixels"
    ),
    "a sample that kills its worker": of_sample(
        "if index == 7: os.kill(os.getpid(), signal.SIGSEGV)",
        cause="killed by SIGSEGV, repeatedly: data workers died while they prepared a batch",
        fix="a native library has crashed",
        once="repeatedly",
        brief="algo-2 (train_group): data workers died repeatedly",
    ),
    "a dataset that cannot be made": FailingJob(
        job=TWO,
        files={"pipeline.py": "def samples():\n    raise OSError('the index is empty')\n"},
        host=DATA,
        cause="OSError: the index is empty",
    ),
    "a signal": FailingJob(
        train="import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n",
        cause="killed by SIGSEGV",
        fix="PYTHONFAULTHANDLER",
        once="SIGSEGV",
    ),
    "no memory": FailingJob(
        train="bytearray(1 << 60)\n", cause="MemoryError", fix="memory has most likely run out"
    ),
    "the killer of processes": FailingJob(
        train="import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
        cause="killed by SIGKILL",
        fix="find out what has killed",
        once="SIGKILL",
    ),
    "a channel is written to": FailingJob(
        job=ONE + "inputs: {digits: file://data}\n",
        files={"data/x.txt": "1\n"},
        train="import os\nopen(os.environ['SM_CHANNEL_DIGITS'] + '/y.txt', 'w')\n",
        cause="OSError: [Errno 30] Read-only file system",
        fix="channels are read-only",
        once="Read-only file system",
    ),
    "one rank of two": FailingJob(
        job=ONE + "distribution: {data_parallel: {processes_per_host: 2}}\n",
        train="import os, time\nimport torch.distributed as dist\ndist.init_process_group('gloo')\n"
        "if os.environ['RANK'] == '1':\n    raise ValueError('no such luck')\ndist.barrier()\n",
        cause="ValueError: no such luck",
    ),
    "a requirement that does not exist": FailingJob(
        train="print('never')\n",
        files={"requirements.txt": "--no-index\ntinm\n"},
        cause="pip could not install requirements.txt: exit code 1",
        fix="pip install -r",
        once="exit code 1",
    ),
    "a program beside the script": FailingJob(
        job="""\
entry_point: train.py
source_dir: .
instance_groups:
  - {instance_group_name: servers, instance_type: local, command: [python, server.py]}
  - {instance_group_name: train_group, instance_type: local, role: train}
""",
        files={"server.py": "raise ValueError('no port')\n"},
        train="import time\ntime.sleep(600)\n",
        host="algo-1 (servers)",
        cause="ValueError: no port (the command ended before training did: exit code 1)",
        once="the command ended",
    ),
}


OWN_FILE = """\
import os, sys
root = os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml")
with open(root + "/output/failure", "w") as file:
    file.write({text!r})
sys.exit(1)
"""


def of_own_file(text: str, cause: str) -> FailingJob:
    """A script that writes the cause of its failure itself."""
    train = OWN_FILE.format(text=text)
    return FailingJob(train=train, cause=cause, once="")


OTHERS = {
    "a cause in a file": of_own_file(
        "the table lacks column 'label'\nof part 7", "the table lacks column 'label'"
    ),
    "a traceback in a file": of_own_file(
        "\nTraceback (most recent call last):\n  File 'a.py', line 1\nValueError: bad row 7\n",
        "ValueError: bad row 7",
    ),
    "another host in a file": of_own_file("algo-9 is not known", "algo-9 is not known"),
    "too many open files": FailingJob(
        train="import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))\nopened = []\n"
        "while True: opened.append(open('/dev/null'))",
        cause="OSError: [Errno 24] Too many open files: '/dev/null'",
        fix="RLIMIT_NOFILE",
        once="Errno 24",
    ),
}
if not visible_gpus(os.environ):
    OTHERS["a GPU that this machine has not"] = FailingJob(
        train="raise AssertionError('Torch not compiled with CUDA enabled')",
        cause="AssertionError: Torch not compiled with CUDA enabled (this machine has no GPU)",
        fix="'cuda' if torch.cuda.is_available() else 'cpu'",
        once="(this machine has no GPU)",
    )


def table() -> str:
    """The rows of docs/troubleshooting.md: each failure, what is shown, and what to try."""
    rows = ["| failure | the cause that is shown | what to try |", "|---|---|---|"]
    for name, case in TWENTY.items():
        fix = "" if case.fix is None else f"{case.fix} ..."
        rows.append(f"| {name} | `{case.host}: {case.cause}` | {fix} |")
    return "\n".join(rows) + "\n"
