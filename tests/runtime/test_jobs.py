"""Whole jobs on real hosts: roles, identical batches, and endings that tell the truth."""

from __future__ import annotations

import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hosts import Hosts
from programs import PIPELINE, READER
from waiting import wait_until

from launcher.runtime import HEARTBEAT_INTERVAL
from launcher.shared import Launch

MakeHosts = Callable[..., Hosts]
FILES = {"pipeline.py": PIPELINE, "train.py": READER}


def run(hosts: Hosts, *names: str) -> dict[str, int]:
    hosts.start(*names)
    return hosts.wait()


def lines(hosts: Hosts, pattern: str) -> set[str]:
    return set(re.findall(pattern, hosts.output(), re.MULTILINE))


def hashes(hosts: Hosts) -> set[str]:
    found = lines(hosts, r"^rank=\d+ epoch=\d+ sha256=\w+$")
    assert found, hosts.output()
    return found


# The same batches everywhere -----------------------------------------------------------------


@pytest.mark.long
def test_batches_are_the_same_with_any_number_of_data_hosts_and_in_process(
    make_hosts: MakeHosts,
) -> None:
    seen = {}
    for data in (0, 1, 2, 3):
        hosts = make_hosts(FILES, data=data, train=2)
        assert set(run(hosts).values()) == {0}, hosts.output()
        seen[data] = hashes(hosts)
    assert len(seen[0]) == 4  # two ranks, two epochs, each with bytes of its own
    assert seen[0] == seen[1] == seen[2] == seen[3]


@pytest.mark.long
def test_the_sum_of_prepared_batches_is_what_the_ranks_received(make_hosts: MakeHosts) -> None:
    hosts = make_hosts(FILES, data=2, train=2)
    run(hosts)
    (served,) = hosts["algo-3"].events("batches_served")
    read = [e for name in ("algo-3", "algo-4") for e in hosts[name].events("data_epoch")]
    assert set(served["by_host"]) == {"algo-1", "algo-2"}
    assert sum(served["by_host"].values()) == sum(epoch["steps"] for epoch in read) == 28
    assert served["received"] == {"0": 14, "1": 14}


@pytest.mark.long
def test_several_ranks_on_one_host_under_torchrun(make_hosts: MakeHosts) -> None:
    pytest.importorskip("torch")
    plain = make_hosts(FILES, train=2)
    torchrun = make_hosts(FILES, data=1, launch=Launch.TORCHRUN, processes_per_host=2)
    for hosts in (plain, torchrun):
        assert set(run(hosts).values()) == {0}, hosts.output()
    assert hashes(torchrun) == hashes(plain)


def test_hyperparameters_that_are_too_long_for_a_variable_are_named(make_hosts: MakeHosts) -> None:
    values = {f"part{number}": "x" * 2500 for number in range(60)}
    hosts = make_hosts({"train.py": ""}, train=1, hyperparameters=values)
    assert run(hosts) == {"algo-1": 1}, hosts.output()
    assert "Argument list too long: the variable SM_" in str(hosts["algo-1"].failure)
    assert "and Linux takes 131,071" in str(hosts["algo-1"].failure)


@pytest.mark.long
def test_prefetch_is_bounded_in_bytes(make_hosts: MakeHosts) -> None:
    """A rank that does not read holds the service to its budget: 1 MiB of batches of 128 KiB."""
    files = {
        "pipeline.py": PIPELINE.replace("(4, 4)", "(128, 32)").replace("4, 4", "128, 32"),
        "train.py": """
import sys, time
from launcher.data import DataLoader
batches = iter(DataLoader("pipeline:train_set", batch_size=8))
next(batches)
print("reading stops", flush=True)
sys.stdin.read()
time.sleep(1000)
""",
    }
    hosts = make_hosts(files, data=1, workers_per_host=2)
    hosts.start()
    hosts.await_output("reading stops", "algo-2")
    (receiver,) = [pid for pid in hosts.processes() if "launcher.data.receiver" in command(pid)]

    def slabs() -> int:
        return len({entry for entry in links(receiver) if "launcher-slab" in entry})

    window = (1 << 20) // (3 * 65536)  # a batch of 128 KiB and its labels take three units
    wait_until(lambda: slabs() >= window, what="the prefetch to fill up")
    assert slabs() <= window + 1  # and the one that the script holds


@pytest.mark.long
def test_batches_that_grow_are_held_to_the_budget_but_for_what_was_begun(
    make_hosts: MakeHosts,
) -> None:
    files = {
        "pipeline.py": """
import numpy as np

class Growing:
    def __len__(self):
        return 200
    def __getitem__(self, index):
        return np.zeros(10 if index < 30 else 1_000_000, np.uint8)

def train_set():
    return Growing()
""",
        "train.py": """
import time
from launcher.data import DataLoader
batches = iter(DataLoader("pipeline:train_set", epochs=1))
for _ in range(8):
    next(batches)
time.sleep(3)  # what was leased while batches were small could come
print("batches", 8 + sum(1 for batch in batches), flush=True)
""",
    }
    hosts = make_hosts(files, data=1, workers_per_host=4, prefetch_bytes=4 << 20)
    assert set(run(hosts).values()) == {0}, hosts.output()
    assert "batches 200" in hosts.output()
    reports = [
        event["figures"]["algo-2"]
        for event in hosts["algo-2"].events("data_metrics")
        if event["of"] == "receivers"
    ]
    budget, begun = 4 << 20, 4 * 3 * (1 << 20)
    # Small batches have small slabs, and the script holds one or two.
    assert reports[-1]["high"] <= budget + begun + 200 * (64 << 10) + (2 << 20)
    assert reports[-1]["batches"] == 200


@pytest.mark.long
def test_the_services_of_a_train_host_never_push_its_script_aside(make_hosts: MakeHosts) -> None:
    waiting = "import time\nprint('here', flush=True)\ntime.sleep(1000)\n"
    hosts = make_hosts({**FILES, "train.py": waiting}, data=1)
    hosts.start()
    hosts.await_output("here", "algo-2")

    def policies(name: str) -> set[int]:
        return {os.sched_getscheduler(pid) for pid in hosts.processes() if name in command(pid)}

    for service in ("launcher.data.receiver", "launcher.data.dispatcher"):
        wait_until(lambda name=service: policies(name) == {os.SCHED_BATCH})
    assert policies("train.py") == {os.SCHED_OTHER}


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def links(pid: int) -> list[str]:
    return [str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir()]


# Where reading goes on -----------------------------------------------------------------------

RESUME = """
import hashlib, json, os, pathlib
from launcher.data import DataLoader

before, after = (pathlib.Path(os.environ[name]) for name in ("BEFORE", "AFTER"))
stop = int(os.environ["STOP"])
loader = DataLoader("pipeline:train_set", batch_size=4, shuffle=True, seed=1)
if before.exists():
    loader.load_state_dict(json.loads(before.read_text()))
for step, batch in enumerate(loader, 1):
    print("ids=" + ",".join(map(str, batch["label"])), flush=True)
    print("bytes=" + hashlib.sha256(batch["image"].tobytes()).hexdigest(), flush=True)
    if step == stop:
        break
if os.environ["RANK"] == "0":
    state = json.dumps(loader.state_dict())
    assert len(state) < 500
    after.write_text(state)
"""


@pytest.mark.long
@pytest.mark.parametrize("data", [0, 1], ids=["in-process", "service"])
def test_reading_resumes_after_a_restart_with_another_number_of_ranks(
    make_hosts: MakeHosts, tmp_path: Path, data: int
) -> None:
    def part(number: int, train: int, stop: int) -> list[int]:
        before, after = (str(tmp_path / f"state-{n}") for n in (number - 1, number))
        hosts = make_hosts(
            {"pipeline.py": PIPELINE, "train.py": RESUME},
            data=data,
            train=train,
            environment={"BEFORE": before, "AFTER": after, "STOP": str(stop)},
        )
        assert set(run(hosts).values()) == {0}, hosts.output()
        return [int(i) for line in lines(hosts, r"^ids=.*$") for i in line[4:].split(",")]

    first, second, last = part(1, 2, 3), part(2, 1, 5), part(3, 3, 99)
    assert (len(first), len(second)) == (24, 20)
    counts = Counter(first + second + last)
    assert set(counts) == set(range(103))
    assert counts.total() == 103 + 1  # 59 samples were left for three ranks: one pad


# Endings -------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_killed_worker_that_held_leases_changes_nothing(make_hosts: MakeHosts) -> None:
    slow = PIPELINE.replace("noise = ", "import time; time.sleep(0.01)\n        noise = ")
    calm, disturbed = (
        make_hosts({**FILES, "pipeline.py": slow}, data=2, train=2) for _ in range(2)
    )
    run(calm)
    disturbed.start()
    leader = disturbed["algo-3"]
    joined = wait_until(
        lambda: (
            leader.events("worker_joined")
            if any("epoch" in line for line in leader.output.splitlines())
            else None
        )
    )
    os.kill(joined[0]["pid"], signal.SIGKILL)
    assert set(disturbed.wait().values()) == {0}, disturbed.output()
    left = [e for e in leader.events("worker_left") if e["pid"] == joined[0]["pid"]]
    assert left
    assert left[0]["leases"], disturbed.output()
    assert hashes(disturbed) == hashes(calm)


FAILING = """
import os, signal, sys, time
import torch.distributed as dist

dist.init_process_group("gloo")
dist.barrier()
if dist.get_rank() == 1:
    {end}
import torch
while True:
    dist.all_reduce(torch.ones(1))
    time.sleep(0.01)
"""


ENDS = {
    "SIGKILL": ("os.kill(os.getpid(), signal.SIGKILL)", r"rank 1: killed by SIGKILL"),
    "exception": ("raise ValueError('loss is nan')", r"rank 1: ValueError: loss is nan"),
    "sys.exit": ("sys.exit(3)", r"rank 1: the script called sys\.exit\(3\)"),
    "os._exit": ("os._exit(7)", r"rank 1: exit code 7"),
}
#: Each ending occurs once, and each kind of it on either number of hosts: with a report of the
#: rank, or with torchrun's alone.
QUICK = {("SIGKILL", 2), ("exception", 1), ("sys.exit", 2), ("os._exit", 1)}


@pytest.mark.long
@pytest.mark.parametrize(
    ("end", "train"),
    [
        pytest.param(
            *(end, train),
            id=f"{end}, {where}",
            marks=() if (end, train) in QUICK else pytest.mark.slow,
        )
        for end in ENDS
        for train, where in ((1, "one host"), (2, "two hosts"))
    ],
)
def test_the_host_where_a_rank_failed_reports_rank_and_cause(
    make_hosts: MakeHosts, end: str, train: int
) -> None:
    pytest.importorskip("torch")
    line, cause = ENDS[end]
    hosts = make_hosts(
        {**FILES, "train.py": FAILING.format(end=line)},
        data=1,
        train=train,
        launch=Launch.TORCHRUN,
        processes_per_host=2 // train,
    )
    codes = run(hosts)
    origin = f"algo-{train + 1}"
    assert codes.pop("algo-1") == 0  # the data host did its part
    assert set(codes.values()) == {1}
    assert re.match(rf"host {origin} \(train_group\), {cause}", hosts[origin].failure or ""), (
        hosts.output()
    )
    assert [name for name in hosts.hosts if hosts[name].failure] == [origin]
    assert hosts.processes() == []


def test_a_script_that_raises_leaves_its_traceback_in_the_failure(make_hosts: MakeHosts) -> None:
    script = "def inner():\n    raise KeyError('weights')\n\ninner()\n"
    hosts = make_hosts({"train.py": script})
    assert run(hosts) == {"algo-1": 1}
    failure = hosts["algo-1"].failure or ""
    assert failure.startswith("host algo-1 (train_group), rank 0: KeyError: 'weights'\n")
    assert "line 2, in inner" in failure
    assert "runpy" not in failure


def test_sys_exit_256_is_a_failure_though_the_kernel_would_make_it_0(
    make_hosts: MakeHosts,
) -> None:
    hosts = make_hosts({"train.py": "import sys\nsys.exit(256)\n"})
    assert run(hosts) == {"algo-1": 1}
    assert "sys.exit(256)" in (hosts["algo-1"].failure or "")


def test_a_note_on_an_exception_does_not_hide_it(make_hosts: MakeHosts) -> None:
    script = "error = ValueError('bad \\udcff name')\nerror.__notes__ = ['']\nraise error\n"
    hosts = make_hosts({"train.py": script})
    assert run(hosts) == {"algo-1": 1}
    assert "rank 0: ValueError: bad \\udcff name" in (hosts["algo-1"].failure or "")


@pytest.mark.long
def test_a_sample_that_kills_its_worker_fails_the_job_and_is_named(make_hosts: MakeHosts) -> None:
    deadly = PIPELINE.replace(
        "noise =", "index == 50 and __import__('os').abort()\n        noise ="
    )
    hosts = make_hosts({**FILES, "pipeline.py": deadly}, data=2)
    assert run(hosts)["algo-3"] == 1
    failure = hosts["algo-3"].failure or ""
    assert (
        "data workers died repeatedly while they prepared a batch of pipeline:train_set" in failure
    )
    assert "50" in failure
    assert "killed by SIGABRT" in hosts.output()


@pytest.mark.parametrize(
    "line",
    ["if index == 50: del sample['name']", "if index == 50: raise SystemExit(0)"],
    ids=["a key missing", "SystemExit"],
)
def test_a_bad_sample_is_reported_by_the_data_host(make_hosts: MakeHosts, line: str) -> None:
    bad = PIPELINE.replace("return {", "sample = {").replace(
        '"name": f"digit {index}"}',
        f'"name": f"digit {{index}}"}}\n        {line}\n        return sample',
    )
    hosts = make_hosts({**FILES, "pipeline.py": bad}, data=1)
    assert run(hosts)["algo-2"] == 1
    failure = hosts["algo-2"].failure or ""
    assert "50" in failure, failure
    assert "pipeline:train_set" in failure


UNTELLABLE = """

class Untellable(Exception):
    def __str__(self):
        raise RuntimeError("no text")
    __repr__ = __str__
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("raised", "words"),
    [
        ("Untellable()", "Untellable, whose own text raised RuntimeError"),
        ("ValueError('x' * 70_000_000)", "for sample 50: xxx"),
    ],
    ids=["fails itself", "is longer than a message may be"],
)
def test_an_error_without_a_valid_text_is_described(
    make_hosts: MakeHosts, raised: str, words: str
) -> None:
    bad = PIPELINE.replace("noise =", f"if index == 50: raise {raised}\n        noise =")
    hosts = make_hosts({**FILES, "pipeline.py": bad + UNTELLABLE}, data=1)
    assert run(hosts)["algo-2"] == 1
    failure = hosts["algo-2"].failure or ""
    assert "pipeline:train_set raised" in failure
    assert "for sample 50" in failure
    assert words in failure


@pytest.mark.long
def test_a_dataset_that_raises_fails_the_job_with_its_own_traceback(make_hosts: MakeHosts) -> None:
    broken = PIPELINE.replace("noise =", "assert index != 50, 'bad pixel'\n        noise =")
    hosts = make_hosts({**FILES, "pipeline.py": broken}, data=2)
    assert run(hosts)["algo-3"] == 1
    failure = hosts["algo-3"].failure or ""
    assert "pipeline:train_set raised AssertionError for sample 50: bad pixel" in failure
    assert "(on data host algo-" in failure
    assert hosts.processes() == []


@pytest.mark.long
def test_a_dataset_module_that_does_not_import_fails_the_job(make_hosts: MakeHosts) -> None:
    hosts = make_hosts({**FILES, "pipeline.py": "import no_such_module\n"}, data=1)
    assert run(hosts)["algo-2"] == 1
    assert "No module named 'no_such_module'" in (hosts["algo-2"].failure or "")


@pytest.mark.long
def test_workers_that_die_as_fast_as_they_start_fail_the_job(make_hosts: MakeHosts) -> None:
    dies = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
    hosts = make_hosts({**FILES, "pipeline.py": dies}, data=1)
    assert run(hosts)["algo-2"] == 1
    assert "data workers died 5 times within 30 s, last: killed by SIGKILL" in (
        hosts["algo-1"].failure or ""
    )


@pytest.mark.long
def test_an_unreachable_data_group_fails_the_job_and_is_never_replaced(
    make_hosts: MakeHosts,
) -> None:
    hosts = make_hosts(FILES, data=2, start_timeout=3.0)
    codes = run(hosts, "algo-3")  # the data hosts never start
    assert codes == {"algo-3": 1}
    failure = hosts["algo-3"].failure or ""
    assert "DataServiceUnavailable: no data worker has registered for" in failure
    assert "data hosts: algo-1, algo-2" in failure
    assert "sha256" not in hosts["algo-3"].output


@pytest.mark.long
def test_a_process_that_lost_its_environment_does_not_load_in_process(
    make_hosts: MakeHosts,
) -> None:
    script = "import os\ndel os.environ['LAUNCHER_RECEIVER']\n" + READER
    hosts = make_hosts({**FILES, "train.py": script}, data=1)
    assert run(hosts)["algo-2"] == 1
    assert "this job declares a data group, but LAUNCHER_RECEIVER is not set" in (
        hosts["algo-2"].failure or ""
    )


@pytest.mark.long
def test_ranks_that_read_a_stream_in_two_ways_are_refused(make_hosts: MakeHosts) -> None:
    script = """
import os, time
from launcher.data import DataLoader
batches = iter(DataLoader("pipeline:train_set", batch_size=8 + int(os.environ["RANK"])))
next(batches)
time.sleep(1000)  # and goes on reading, as far as the other can tell
"""
    hosts = make_hosts({**FILES, "train.py": script}, data=1, train=2)
    codes = run(hosts)
    assert (codes["algo-2"], codes["algo-3"]) == (1, 1)
    failures = "".join(host.failure or "" for host in hosts.hosts.values())
    assert "with different settings, batch_size=" in failures


@pytest.mark.long
def test_ranks_that_do_not_load_the_same_state_are_named(
    make_hosts: MakeHosts, tmp_path: Path
) -> None:
    script = """
import os, time
from pathlib import Path
from launcher.data import DataLoader

loader = DataLoader("pipeline:train_set", batch_size=8)
if os.environ["RANK"] == "0":  # it alone has what was saved
    loader.load_state_dict({**loader.state_dict(), "position": 16})
for batch in loader:
    (Path(os.environ["MEETING"]) / os.environ["RANK"]).touch()
    while len(os.listdir(os.environ["MEETING"])) < 2:
        time.sleep(0.01)
"""
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    files = {**FILES, "train.py": script}
    hosts = make_hosts(files, data=1, train=2, environment={"MEETING": str(meeting)})
    assert set(run(hosts).values()) == {0}, hosts.output()
    (event,) = hosts["algo-2"].events("ranks_begin_apart")
    assert "position 16 of epoch 0" in str(event["why"])


#: Its second life reads with another batch size, and a fork outlives the first.
TWO_LIVES = """
import subprocess, sys
for batch_size in "8", "4":
    code = subprocess.run([sys.executable, "life.py", batch_size]).returncode
    print(f"{batch_size=} {code=}", flush=True)
"""
LIFE = """
import os, signal, sys, time
from launcher.data import DataLoader

for step, batch in enumerate(DataLoader("pipeline:train_set", batch_size=int(sys.argv[1]))):
    if sys.argv[1] == "8" and step == 3:
        if os.fork() == 0:
            time.sleep(600)
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_a_ranks_reports_end_with_its_process(make_hosts: MakeHosts) -> None:
    files = {**FILES, "train.py": TWO_LIVES, "life.py": LIFE}
    hosts = make_hosts(files, data=1)
    assert set(run(hosts).values()) == {0}, hosts.output()
    output = hosts["algo-2"].output
    assert "batch_size='8' code=-9" in output
    assert "batch_size='4' code=0" in output, output


@pytest.mark.long
def test_a_dataset_that_the_job_does_not_declare_is_not_served(make_hosts: MakeHosts) -> None:
    script = READER.replace("pipeline:train_set", "os:getcwd")
    hosts = make_hosts({**FILES, "train.py": script}, data=1)
    assert run(hosts)["algo-2"] == 1
    assert "'os:getcwd' is not served by this job" in (hosts["algo-2"].failure or "")


@pytest.mark.parametrize("unread", [False, True], ids=["", "unread lines"])
def test_a_dead_leader_ends_the_other_hosts(make_hosts: MakeHosts, unread: bool) -> None:
    """A process that dies with unread lines resets its connections instead of closing them."""
    script = "import time\nprint('training', flush=True)\ntime.sleep(1000)\n"
    hosts = make_hosts({**FILES, "train.py": script}, data=1, train=2)
    hosts.start()
    leader = hosts["algo-2"]
    hosts.await_output("training", "algo-2")
    wait_until(lambda: len(leader.events("host_joined")) == 3)
    assert leader.process is not None
    if unread:
        leader.process.send_signal(signal.SIGSTOP)
        time.sleep(2 * HEARTBEAT_INTERVAL)  # each host sends a line in less
    leader.process.kill()
    assert hosts["algo-3"].wait() == 1
    assert hosts["algo-1"].wait() == 0
    assert 'origin="host algo-2 (train_group): the leader died"' in hosts["algo-3"].output


SAVING = """
import os, signal, sys, time
from launcher.data import DataLoader
stopping = []
signal.signal(signal.SIGTERM, lambda *_: stopping.append(1))
print("training", flush=True)
for epoch in range(10**6):
    for step, batch in enumerate(DataLoader("pipeline:train_set", batch_size=8, name=str(epoch))):
        time.sleep(0.1)
        if stopping and step >= 3:
            print("saved after the step", flush=True)
            sys.exit(0)
"""


@pytest.mark.long
@pytest.mark.parametrize("launch", list(Launch), ids=lambda launch: launch.value)
def test_sigterm_reaches_the_script_which_may_read_on_and_save(
    make_hosts: MakeHosts, launch: Launch
) -> None:
    needed = {Launch.TORCHRUN: "torch", Launch.PARAMETER_SERVER: "tensorflow"}
    if launch in needed:
        pytest.importorskip(needed[launch])
    hosts = make_hosts({**FILES, "train.py": SAVING}, data=1, launch=launch)
    hosts.start()
    hosts.await_output("training", "algo-2")
    for pid in hosts.processes():  # a platform may signal the whole tree of a host
        if "launcher.data.worker" not in command(pid):
            os.kill(pid, signal.SIGTERM)
    codes = hosts.wait()
    assert "saved after the step" in hosts["algo-2"].output, hosts.output()
    assert codes["algo-2"] == 143
    assert hosts["algo-2"].failure is None
    assert hosts.processes() == []


# Files ------------------------------------------------------------------------------------------

SAVES = """
import os
from pathlib import Path
Path("model.pt").write_bytes(b"x" * 1500)
Path("logs").mkdir()
Path("logs/a").write_text("a")
for folder in ("metrics", "data", "intermediate"):
    Path(os.environ["SM_OUTPUT_DIR"], folder).mkdir(exist_ok=True)
    Path(os.environ["SM_OUTPUT_DIR"], folder, "kept").write_text("kept")
"""


@pytest.mark.parametrize("with_model", [False, True])
def test_files_that_are_lost_with_the_host_are_named(
    make_hosts: MakeHosts, with_model: bool
) -> None:
    model = 'Path(os.environ["SM_MODEL_DIR"], "m").write_text("m")' if with_model else ""
    hosts = make_hosts({"train.py": SAVES + model, "data.csv": "1"})
    assert run(hosts) == {"algo-1": 0}, hosts.output()
    code = hosts["algo-1"].paths.code
    lost = f"{code}/model.pt (1.5 kB), {code}/logs/a (1 bytes)"
    found = [event["files"] for event in hosts["algo-1"].events("files_lost")]
    assert found == ([] if with_model else [lost])


# The user's own names ------------------------------------------------------------------------


@pytest.mark.long
def test_a_script_called_launcher_py_does_not_hide_the_package(make_hosts: MakeHosts) -> None:
    hosts = make_hosts(
        {"pipeline.py": PIPELINE, "launcher.py": READER}, data=1, entry_point="launcher.py"
    )
    assert set(run(hosts).values()) == {0}, hosts.output()
    assert len(hashes(hosts)) == 2


def test_the_script_gets_its_hyperparameters_and_variables(make_hosts: MakeHosts) -> None:
    script = """
import os, sys
print(sys.argv[1:])
print(os.environ["SM_HP_EPOCHS"], os.environ["SM_CURRENT_HOST"], __name__)
import sibling
"""
    hosts = make_hosts(
        {"train.py": script, "sibling.py": "print('sibling', flush=True)"},
        hyperparameters={"epochs": 3, "name": "a b", "l": [1]},
    )
    assert run(hosts) == {"algo-1": 0}, hosts.output()
    assert "['--epochs', '3', '-l', '[1]', '--name', 'a b']" in hosts["algo-1"].output
    assert "3 algo-1 __main__\nsibling" in hosts["algo-1"].output
