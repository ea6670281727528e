"""Questions that a reader has, answered by the pages in a real browser in at most three clicks."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from test_page_in_browsers import LongJob, run_in_browser

from launcher import Estimator, InstanceGroup, JobFailed, LocalSession
from launcher.client.page import PageServer
from launcher.shared import format_event
from report_parts.written_job import WrittenLine

#: Logs a loss that its learning rate decides; algo-2 fails at a rate of 0.
TRAIN = """\
import os, sys
rate = float(sys.argv[sys.argv.index("--lr") + 1])
host = os.environ["SM_CURRENT_HOST"]
print("reading part", host, flush=True)
if rate == 0 and host == "algo-2":
    raise ValueError("a learning rate of 0 learns nothing")
for step in range(5):
    print(f"loss={20 / (1 + step * rate):.4f}", flush=True)
"""
#: Each sample takes 10 ms.
READS = """\
import time
from launcher.data import DataLoader

class Slow:
    def __len__(self):
        return 400
    def __getitem__(self, index):
        time.sleep(0.01)
        return float(index)

def samples():
    return Slow()

if __name__ == "__main__":
    for batch in DataLoader("train:samples", batch_size=8):
        time.sleep(0.002)
"""

STORIES: list[dict[str, Any]] = [
    {
        "name": "Why is it slow?",
        "steps": [{"click": "slow"}],
        "sees": ["What limits its speed", "is spent waiting for data", "To change: read ahead"],
    },
    {
        "name": "Which host failed, and why?",
        "steps": [{"click": "failed"}],
        "sees": ["algo-2 (train): ValueError: a learning rate of 0 learns nothing"],
    },
    {
        "name": "Was the data group worth it?",
        "steps": [
            {"click": "compare alone"},
            {"click": "compare mixed"},
            {"click": "Compare 2 ticked"},
        ],
        "sees": ["price per step - +17%"],
    },
    {
        "name": "What did I change between A and B?",
        "steps": [
            {"click": "compare low"},
            {"click": "compare high"},
            {"click": "Compare 2 ticked"},
        ],
        "sees": ["lr = 0.1 lr = 2"],
    },
    {
        "name": "What did it cost, and how much of that was idle?",
        "steps": [{"click": "mixed"}],
        "sees": ["Cost on AWS would be", "of it idle"],
    },
    {
        "name": "Where is this line in the logs of a host?",
        "steps": [
            {"click": "failed"},
            {"click": "Logs"},
            {"choose": "algo-1"},
            {"type": "part algo"},
        ],
        "sees": ["reading part algo-1", "1 line found"],
    },
    {
        "name": "Which checkpoint did it restart from?",
        "steps": [{"click": "restarted"}, {"click": "Events"}],
        "sees": ["restarted from the checkpoint of step 600"],
    },
    {
        "name": "Which of these runs had the best loss?",
        "steps": [{"click": "last metric or cause"}],
        "sees": ["loss 2.222", "loss 14.29"],
        "in_order": True,
    },
]


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What was not found in each story."""
    home, code = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("code")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAUNCHER_HOME", str(home))
        for name, rate in (("failed", 0), ("low", 0.1), ("high", 2)):
            run(code, TRAIN, name, {"lr": rate})
        run(code, READS, "slow", {})
        written(home)
        with PageServer(LocalSession(isolation="process")) as server:
            thread = threading.Thread(target=server.serve)
            thread.start()
            try:
                asked = json.dumps(STORIES)
                yield run_in_browser("check_stories.cjs", server.url, asked=asked)
            finally:
                server.stop()
                thread.join()


def run(code: Path, script: str, name: str, parameters: dict[str, Any]) -> None:
    """Run a job of this machine to its end."""
    (code / "train.py").write_text(script)
    estimator = Estimator(
        entry_point=str(code / "train.py"),
        hyperparameters=parameters,
        metric_definitions=[{"Name": "loss", "Regex": "loss=([0-9.]+)"}],
        sagemaker_session=LocalSession(isolation="process"),
        instance_groups=[InstanceGroup("train", "ml.c5.xlarge", 2 if parameters else 1)],
    )
    with suppress(JobFailed):
        estimator.fit(job_name=name, wait=False).wait(logs=False)


def written(home: Path) -> None:
    """Write jobs of an hour: one with a data group, one without, one that was restarted."""
    for name, day in (
        ("mixed", LongJob(hours=1, hosts=4)),
        ("alone", LongJob(hours=1, hosts=3)),
        ("restarted", LongJob(hours=1, hosts=2)),
    ):
        job, lines = day.job(name), day.lines()
        if name == "restarted":
            restart = format_event("checkpoint_loaded", host="algo-1", rank=0, step=600)
            lines["algo-1"] = itertools.chain(
                [WrittenLine(job.begin + 1, restart)], lines["algo-1"]
            )
        job.write(home, lines)


@pytest.mark.long
@pytest.mark.parametrize("story", STORIES, ids=[each["name"] for each in STORIES])
def test_a_question_is_answered_in_three_clicks(
    stories: dict[str, Any], story: dict[str, Any]
) -> None:
    assert len([step for step in story["steps"] if "type" not in step]) <= 3
    assert stories[story["name"]] == {"missing": [], "messages": []}
