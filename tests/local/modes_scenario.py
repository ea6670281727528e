"""A job whose hosts close folders and files, for a user whom modes stop; prints JSON.

It is interrupted twice, and a read-only file of it is copied twice to the same place.

A program of its own, for standard library and launcher only, so that any user can run it.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from bench import Bench
from waiting import wait_until

SCRIPT = """
closed = ml / "output" / "closed"
closed.mkdir()
(closed / "file").touch()
closed.chmod(0o500)
file = ml / "output" / "data" / "file"
file.write_text("x")
file.chmod(0o400)
starts = ml / "checkpoints" / "starts"
start = int(starts.read_text()) + 1 if starts.exists() else 1
def leave():
    starts.write_text(str(start))
    sys.exit(0)
on_sigterm(leave)
print("start", start)
if start < 3:
    time.sleep(600)
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), "process")
        condition = {"MaxRuntimeInSeconds": 600, "MaxWaitTimeInSeconds": 600}
        bench.start(
            SCRIPT,
            EnableManagedSpotTraining=True,
            StoppingCondition=condition,
            CheckpointConfig={"S3Uri": f"file://{folder}/kept"},
        )
        for start in (1, 2):
            bench.wait_for_line(f"start {start}")
            bench.session.interrupt_training_job(TrainingJobName="job")
            wait_until(lambda: not (bench.job_folder() / "interrupt").exists())
        description = bench.end_of()
        left = sorted(path.name for path in bench.job_folder().glob("gone*"))
        target, copies = Path(folder) / "copies", []
        target.mkdir()
        for _ in range(2):
            copy = bench.session.copy_from_host("job", "algo-1", "output/data", target)
            copies.append((copy / "file").read_text())
    ending = description["SecondaryStatus"], description.get("FailureReason")
    print(json.dumps({"ending": ending, "left": left, "copies": copies}))


if __name__ == "__main__":
    main()
