"""A job that says how its ranks share a model, from its job file to the ranks that do so."""

from __future__ import annotations

from pathlib import Path

import pytest
from digits_example import Example

JOB = """\
entry_point: train.py
source_dir: .
instance_type: ml.g4dn.xlarge
instance_count: 2
distribution:
  model_parallel: {partitions: 2, microbatches: 8, starts: [blocks.4], precision: bf16}
"""
SCRIPT = """\
import os
from launcher import parallel
from launcher.contract import ParallelPart

part = ParallelPart.from_environment(os.environ)
world = parallel.init(pipeline=part.partitions, microbatches=part.microbatches, global_batch=32)
print(
    f"stage={parallel.pp_rank()} of {parallel.pp_size()} replica={parallel.dp_rank()}"
    f" microbatch={world.degrees.microbatch} starts={part.starts} precision={part.precision}"
)
parallel.leave()
"""


def test_two_hosts_have_a_stage_each_of_the_model_that_the_job_cuts(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    folder = tmp_path / "cut"
    folder.mkdir()
    (folder / "job.yaml").write_text(JOB)
    (folder / "train.py").write_text(SCRIPT)

    run = Example(folder, tmp_path / "home").run("job.yaml")

    assert run.code == 0, run.talk
    said = "of 2 replica=0 microbatch=4 starts=('blocks.4',) precision=bf16"
    assert run.lines("stage=.*") == {f"stage=0 {said}", f"stage=1 {said}"}
