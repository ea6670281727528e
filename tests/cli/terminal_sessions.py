"""Captures six sessions at 80 and 120 columns as text: `python tests/cli/terminal_sessions.py DIR`.

Each file has the screen as it was at moments of the session, and all rows at its end.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from captured_screen import Capture, capture

LAUNCHER = [sys.executable, "-m", "launcher"]
GROUPS = """\
entry_point: train.py
source_dir: .
instance_groups:
  - {instance_group_name: data_group, instance_type: ml.c5.xlarge, instance_count: 1}
  - {instance_group_name: train_group, instance_type: ml.c5.xlarge, instance_count: 1}
data_service: {}
"""
ONE_HOST = """\
entry_point: train.py
source_dir: .
instance_type: local
instance_count: 1
"""
PIPELINE = """\
class Numbers:
    def __len__(self):
        return 400
    def __getitem__(self, index):
        if index == 7:
            open("/opt/ml/input/data/digits/x.png")
        return float(index)
def train_set():
    return Numbers()
"""
READS = """\
from launcher.data import DataLoader
for batch in DataLoader("pipeline:train_set", batch_size=4):
    print("batch")
"""
BAR = """\
import sys, time
for epoch in range(2):
    for step in range(40):
        sys.stderr.write(f"\\r epoch {epoch}: {step + 1}/40 [{'#' * (step // 2):<20}]")
        sys.stderr.flush()
        time.sleep(0.1)
    sys.stderr.write("\\n")
    print("epoch", epoch, "loss", 1 / (epoch + 1))
"""
RANKS = """\
import os, time
for step in range(3):
    print("rank", os.environ["RANK"], "step", step)
    time.sleep(1)
"""
SAVES = """\
import os, pathlib, signal, sys, time
saved = pathlib.Path(os.environ["LAUNCHER_CHECKPOINT_DIR"], "count")
count = int(saved.read_text()) if saved.exists() else 0
def leave(*_):
    saved.write_text(str(count + 1))
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
print("has been interrupted", count, "times")
while not count:
    time.sleep(0.05)
"""
SPOT = "use_spot_instances: true\nmax_wait: 90000\ncheckpoint_s3_uri: s3://my-bucket/saved\n"


@dataclass(frozen=True, kw_only=True)
class Session:
    """A job on a terminal. interrupt_at: Ctrl-C; reclaim_at: the spot instances are taken."""

    job: str = ONE_HOST
    script: str = "print('hello')\n"
    interrupt_at: str | None = None
    reclaim_at: str | None = None

    def capture(self, folder: Path, columns: int) -> Capture:
        project = folder / "digits"
        project.mkdir(parents=True)
        (project / "job.yaml").write_text(self.job)
        (project / "train.py").write_text(self.script)
        (project / "pipeline.py").write_text(PIPELINE)
        environment = {"LAUNCHER_HOME": str(folder / "home"), "TERM": "xterm-256color"}
        done = capture(
            [*LAUNCHER, "run", str(project), "--local", "--name", "job-1"],
            columns=columns,
            environment=environment,
            interrupt_at=self._event(environment),
        )
        subprocess.run([*LAUNCHER, "stop", "job-1"], env={**os.environ, **environment}, check=False)
        return done

    def _event(self, environment: dict[str, str]) -> Callable[[str], bool]:
        """A function of the output so far: whether to press Ctrl-C; reclaims instances itself."""
        reclaimed: list[str] = []

        def happens(text: str) -> bool:
            if self.reclaim_at and self.reclaim_at in text and not reclaimed:
                reclaimed.append("now")
                command = [*LAUNCHER, "stop", "--spot", "job-1"]
                subprocess.Popen(command, env={**os.environ, **environment})
            return self.interrupt_at is not None and self.interrupt_at in text

        return happens


SESSIONS = {
    "first-job": Session(script="for n in range(20):\n    print('step', n, 'loss', 1 / (n + 1))\n"),
    "failing-data-host": Session(job=GROUPS, script=READS),
    "progress-bar": Session(script=BAR),
    "eight-ranks": Session(
        job=ONE_HOST + "distribution: {data_parallel: {processes_per_host: 8}}\n", script=RANKS
    ),
    "ctrl-c": Session(
        script="import time\nprint('begun')\ntime.sleep(600)\n", interrupt_at="begun"
    ),
    "spot-interruption": Session(
        job=ONE_HOST + SPOT, script=SAVES, reclaim_at="interrupted 0 times"
    ),
}


def main(target: Path) -> None:
    """Write a file for each session and width; print its numbers of rows."""
    target.mkdir(parents=True, exist_ok=True)
    for name, session in SESSIONS.items():
        for columns in (80, 120):
            with tempfile.TemporaryDirectory() as folder:
                done = session.capture(Path(folder), columns)
            moments = done.states[:: max(1, len(done.states) // 6)]
            parts = ["\n".join(state) for state in moments] + ["\n".join(done.lines)]
            (target / f"{name}-{columns}.txt").write_text(f"\n{'-' * columns}\n".join(parts) + "\n")
            users = sum(" | " in line for line in done.lines)
            unknown = ", ".join(map(repr, done.screen.unknown))
            print(f"{name} {columns}: {len(done.lines)} rows, {users} of the job's; {unknown}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
