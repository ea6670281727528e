"""Ranks meet, know their places, and meet again when they are started again."""

from __future__ import annotations

from pathlib import Path

import pytest
from ranks import noted, run

pytest.importorskip("torch")

_PLACES = """
world = parallel.init(pipeline=2, placement="{placement}")
def everyone(group):
    found = [None] * dist.get_world_size(group)
    dist.all_gather_object(found, parallel.rank(), group=group)
    return found
note({{
    "place": [parallel.dp_rank(), parallel.pp_rank()],
    "sizes": [parallel.size(), parallel.dp_size(), parallel.pp_size()],
    "pp": everyone(world.pp_group),
    "dp": everyone(world.dp_group),
    "device": str(parallel.device()),
}})
parallel.leave()
assert not dist.is_initialized()
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("placement", "grid", "torchrun"),
    [
        pytest.param("cluster", [[0, 1], [2, 3]], False, id="cluster"),
        pytest.param("spread", [[0, 2], [1, 3]], True, id="spread, under torchrun"),
    ],
)
def test_ranks_meet_in_the_groups_of_their_places(
    tmp_path: Path, placement: str, grid: list[list[int]], torchrun: bool
) -> None:
    notes = noted(tmp_path, _PLACES.format(placement=placement), ranks=4, torchrun=torchrun)
    for dp_rank, replica in enumerate(grid):
        for pp_rank, rank in enumerate(replica):
            assert notes[rank] == {
                "place": [dp_rank, pp_rank],
                "sizes": [4, 2, 2],
                "pp": replica,
                "dp": [other[pp_rank] for other in grid],
                "device": "cpu",
            }


def test_a_script_without_torchrun_is_the_only_rank(tmp_path: Path) -> None:
    script = """
parallel.init(global_batch=12, accumulation=3)
note([parallel.rank(), parallel.size(), parallel.world().degrees.batch])
"""
    assert noted(tmp_path, script, ranks=1) == [[0, 1, 4]]


def test_the_job_sets_what_a_script_leaves_open(tmp_path: Path) -> None:
    script = """
degrees = parallel.init(microbatches=6).degrees
note([degrees.pipeline, degrees.microbatches, degrees.accumulation, parallel.pp_rank()])
"""
    job = '{"partitions": 2, "microbatches": 4, "accumulation": 3}'
    assert noted(tmp_path, script, LAUNCHER_PARALLEL=job) == [[2, 6, 3, 0], [2, 6, 3, 1]]


_AT_WORK = """
import hashlib, threading
def work():
    open(f"/proc/self/task/{threading.get_native_id()}/comm", "w").write("pt_gloo_runloop")
    started.set()
    hashlib.pbkdf2_hmac("sha512", b"word", b"salt", 1_000_000)
    note("it ended")
started = threading.Event()
at_work = threading.Thread(target=work, daemon=True)
at_work.start()
started.wait()
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("meet", "leave"),
    [
        ("parallel.init()", "parallel.leave(); assert not at_work.is_alive()"),
        ("import launcher.parallel.smp as smp; smp.init()", ""),
    ],
    ids=["leave", "smp"],
)
def test_python_does_not_end_under_gloos_threads(tmp_path: Path, meet: str, leave: str) -> None:
    """One of Python's, by the name of gloo's, is at work when the script ends."""
    assert noted(tmp_path, f"{meet}\n{_AT_WORK}\n{leave}", ranks=1) == ["it ended"]


_STAND_IN = """
import torch.distributed as dist
def make(store, rank, size, timeout):
    return dist.ProcessGroupGloo(store, rank, size, timeout)
dist.Backend.register_backend("smddp", make, devices=["cpu"])
"""
_SMDDP = """
world = parallel.init(backend="smddp")
model = replicate(torch.nn.Linear(2, 1, bias=False), world)
(model(torch.ones(1, 2)) * (1 + 2 * parallel.rank())).sum().backward()
note([clip(model.parameters(), 100.0, world).item(), dist.get_backend()])
"""


def test_a_backend_without_groups_serves_replicas(tmp_path: Path) -> None:
    """AWS's own cannot run here: gloo stands in for it, registered as it registers itself."""
    package = tmp_path / "smdistributed" / "dataparallel" / "torch"
    package.mkdir(parents=True)
    (package / "torch_smddp.py").write_text(_STAND_IN)
    for norm, backend in noted(tmp_path, _SMDDP):
        assert norm == pytest.approx(8**0.5)  # the mean of 1 and 3, twice
        assert backend == "smddp"


_NORMS = """
import warnings
from launcher.parallel.norms import synchronized, warn_about_small_batches
world = parallel.init()
model = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.BatchNorm1d(2))
with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    warn_about_small_batches(model, 16)
    warn_about_small_batches(torch.nn.GroupNorm(1, 2), 1)
    warn_about_small_batches(model, 15)
note([str(each.message) for each in heard] + [refused(synchronized, model, world)])
"""


def test_batch_norms_with_few_samples_are_reported(tmp_path: Path) -> None:
    warned, refused = noted(tmp_path, _NORMS, ranks=1)[0]
    assert "0 and 1 other batch norms compute statistics over 15 samples" in warned
    assert "only on GPUs: use group norm" in refused


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("parallel.init(backend='smddp')", "backend 'smddp' is not in this image (No module named"),
        ("parallel.rank()", "init() was not called in this process"),
        ("parallel.init(); parallel.init()", "init() was called before in this process"),
        (
            "parallel.init(placement='rows')",
            "placement is 'rows': use 'cluster' or 'spread'",
        ),
        ("parallel.init(pipeline=2)", "1 ranks are not divisible by 2 pipeline stages"),
        (
            "dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1); "
            "parallel.init()",
            "torch.distributed is already initialized in this process",
        ),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, script: str, words: str) -> None:
    outcome = run(tmp_path, script, ranks=1)
    assert outcome.code == 1
    assert "ParallelError" in outcome.output
    assert words in outcome.output


_DIES_TWICE = """
start = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
parallel.init()
mine = torch.ones(1)
dist.all_reduce(mine)
if start < 2 and parallel.rank() == start:
    os.kill(os.getpid(), 9)
dist.all_reduce(mine)
note([start, mine.item()])
"""


@pytest.mark.slow
@pytest.mark.parametrize("attempt", range(6))
def test_ranks_that_are_started_again_meet_again(tmp_path: Path, attempt: int) -> None:
    """Two kills each, twelve in all: without names of their own 8 of 12 such starts failed."""
    assert noted(tmp_path, _DIES_TWICE, ranks=3, restarts=2) == [[2, 9.0]] * 3
