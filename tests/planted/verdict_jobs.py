"""The forty jobs of the verdict, as jobs on this machine: their figures in their hosts' events."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "benchmarks"))

from test_planted_verdicts import CASES, Planted, Simulation  # noqa: E402 (as above)

from launcher.shared import Cause, StepLimit, format_event, judge_wait, observe  # noqa: E402 (as above)
from report_parts.written_job import WrittenJob, WrittenLine  # noqa: E402 (found by the line above)

_BEGIN = 1_790_035_200.0
#: What `diagnose` owes for each verdict. Heavy batches without a cause are waited for all the same;
#: and of a job that is too short the right answer is "not sure", which counts as neither.
ANSWERS = {
    Cause.WORKERS: StepLimit.INPUT,
    Cause.NOTHING: StepLimit.COMPUTE,
    Cause.SENDING: StepLimit.INPUT,
    Cause.MEMORY: StepLimit.INPUT,
    Cause.EPOCH_STARTS: StepLimit.INPUT,
    Cause.SLOW_HOST: StepLimit.IMBALANCED,
    Cause.TOO_SHORT: StepLimit.NOT_SURE,
    Cause.UNKNOWN: StepLimit.INPUT,
}


def names() -> list[str]:
    """The names of the forty jobs."""
    return [f"{bound.value.replace('_', '-')}-{number}" for number, (_, bound) in enumerate(CASES)]


def write(name: str, home: Path) -> tuple[StepLimit, str]:
    """Write one of them below LAUNCHER_HOME; the answer and the culprit that are owed."""
    planted, bound = CASES[names().index(name)]
    job = Simulation(planted)
    for _ in range(planted.epochs):
        job.run_epoch()
    train = f"algo-{planted.workers + 1}"
    written = WrittenJob(
        name=name,
        groups=[
            ("data_group", "ml.c5.large", planted.workers),
            ("train_group", "ml.g4dn.xlarge", 1),
        ],
        begin=_BEGIN,
        end=_BEGIN + job.rank["total"] + 2,
    )
    lines = [WrittenLine(written.end - 1, text) for text in _events(planted, job, train)]
    hosts = {f"algo-{number}": () for number in range(1, planted.workers + 1)}
    written.write(home, {**hosts, train: lines})
    return ANSWERS[bound], "algo-1" if bound is Cause.SLOW_HOST else ""


def _events(planted: Planted, job: Simulation, host: str) -> list[str]:
    """What a train host writes at the end of such a job."""
    rates = observe(hosts=job.hosts(), ranks={("0", "s"): job.rank}, receivers=job.receivers())
    assert rates is not None
    verdict = judge_wait(rates, "data_group")
    assert verdict is not None
    total, wait = job.rank["total"], job.rank["wait"]
    common = {"host": host, "group": "train_group"}
    epoch = {
        "rank": 0,
        "stream": "s",
        "epoch": 0,
        "steps": round(job.rank["steps"]),
        "samples": round(job.rank["steps"]),
        "wait_seconds": round(wait, 4),
        "total_seconds": round(total, 4),
        "wait_share": round(wait / total, 4),
    }
    figures = (
        ("hosts", job.hosts()),
        ("ranks", {"0/s": job.rank}),
        ("receivers", job.receivers()),
    )
    return [
        format_event("data_epoch", **common, **epoch),
        *(
            format_event("data_metrics", **common, of=of, figures=each, final=True)
            for of, each in figures
        ),
        format_event("data_verdict", **common, **verdict.fields()),
    ]
