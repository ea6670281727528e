"""Makes the fixtures of this folder again, with the code of the commit that it is named for.

In a worktree of that commit with a virtual environment of its own (make check sets it up):

    .venv/bin/python .../tests/compatibility/a405acd/generate.py OUT

Its imports are the names of that commit, and are not to follow those of today.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).resolve().parent
SOURCE = FIXTURES / "source"
NAMES = "done-job", "failed-job", "task-job"
#: What no verb reads once a job has ended, and what is of one machine alone.
LEFT_OUT = (
    "hosts",
    "fetched",
    "unsent",
    "lock",
    "reserve",
    "platform.log",
    "bundle.tar.gz",
    "launch.py",
    ".gitignore",
)
LOADERS: dict[str, dict[str, Any]] = {
    "map-style": {"dataset": "numbers", "shuffle": True, "seed": 7},
    "map-style, plain": {"dataset": "numbers", "drop_last": True},
    "map-style, rank 1 of 2": {"dataset": "numbers", "shuffle": True, "rank": 1, "world_size": 2},
    "map-style, any order": {"dataset": "numbers", "in_order": False},
    "iterable": {"dataset": "stream"},
    "iterable, in shards": {"dataset": "stream", "shards": 2, "steps": 5},
}
BATCH_SIZE, TAKEN = 3, 2


def main(out: Path) -> None:
    sys.path.insert(0, str(SOURCE))
    with tempfile.TemporaryDirectory(prefix="compatibility-") as folder:
        work = Path(folder)
        shutil.copytree(
            SOURCE, work / "project", ignore=shutil.ignore_patterns("__pycache__", ".*")
        )
        make_jobs(work)
        keep_home(work, out / "home")
        make_partition(work, out / "partition.json")
    lines = (f"{json.dumps(name)}: {json.dumps(read)}" for name, read in read_half_an_epoch())
    (out / "loaders.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    shutil.rmtree(out / "checkpoints", ignore_errors=True)
    for ranks in (1, 2):
        command = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        subprocess.run(
            [sys.executable, *command, __file__, "--checkpoint", "checkpoints"],
            cwd=out,  # torch writes the folder's name into the checkpoint
            env={**os.environ, "PYTHONPATH": f"{Path.cwd()}:{SOURCE}", "OMP_NUM_THREADS": "1"},
            check=True,
        )


def make_jobs(work: Path) -> None:
    """One that completes, one that fails, one whose task is trained with checkpoints."""
    from launcher import DataParallel, DataService, InstanceGroup, JobFailed, LocalSession, PyTorch

    session = LocalSession(work / "home", "process")
    given: dict[str, Any] = {
        "sagemaker_session": session,
        "source_dir": str(work / "project"),
        "distribution": DataParallel(processes_per_host=1),
    }
    two_groups = {
        **given,
        "entry_point": "train.py",
        "instance_groups": [
            InstanceGroup("data_group", "ml.c5.2xlarge", 1),
            InstanceGroup("train_group", "ml.g4dn.xlarge", 1),
        ],
        "data_service": DataService(datasets=["compatibility_samples:numbers"]),
        "metric_definitions": [{"Name": "sum", "Regex": "sum=([0-9]+)"}],
        "environment": {"COLOUR": "blue"},
    }
    done, failed, task = NAMES
    PyTorch(**two_groups, hyperparameters={"lr": 0.5}).fit(job_name=done)
    try:
        PyTorch(**two_groups, hyperparameters={"fail": True}).fit(job_name=failed)
    except JobFailed as error:
        print(error)
    PyTorch(
        **given,
        task="compatibility_task:make",
        instance_type="local",
        instance_count=1,
        hyperparameters={"epochs": 1},
        checkpoint_s3_uri=f"file://{work}/home/checkpoints",
    ).fit(job_name=task)


def keep_home(work: Path, kept: Path) -> None:
    """Copy what is read of jobs, with placeholders for the places of this machine."""
    shutil.rmtree(kept, ignore_errors=True)
    ignore = shutil.ignore_patterns(*LEFT_OUT)
    shutil.copytree(work / "home", kept, ignore=ignore, symlinks=True)
    jobs = [kept / "jobs" / name for name in NAMES]
    boot = json.loads((jobs[0] / "settings.json").read_text())["boot"]
    requests = [json.loads((job / "request.json").read_text()) for job in jobs]
    tokens = [request["Environment"].get("LAUNCHER_TOKEN") for request in requests]
    places = {
        str(work / "home"): "{HOME}",
        str(work / "project"): "{PROJECT}",
        str(Path(sys.executable).parent): "{BIN}",
        str(Path(sys.prefix)): "{PREFIX}",
        str(Path(sys.base_prefix)): "{BASE}",
        boot: "00000000-0000-0000-0000-000000000000",
        **{token: "0" * len(token) for token in tokens if token},
    }
    for file in kept.rglob("*"):
        if file.suffix in (".json", ".log", ".txt"):
            text = file.read_text()
            for place, word in places.items():
                text = text.replace(place, word)
            file.write_text(text)


def make_partition(work: Path, file: Path) -> None:
    from launcher import partition

    partition(
        "compatibility_task:make",
        partitions=2,
        microbatches=2,
        profile="estimated",
        source_dir=work / "project",
        bandwidth="1GiB/s",
        latency="20us",
    ).write(file)


def read_half_an_epoch() -> Iterator[tuple[str, dict[str, Any]]]:
    """By name: a loader's arguments, what it has given, its state then, and what it gave after."""
    from launcher.data import DataLoader

    for name, kept in LOADERS.items():
        given = {**kept, "dataset": f"compatibility_samples:{kept['dataset']}"}
        loader = DataLoader(**given, batch_size=BATCH_SIZE, tensors=False)
        batches = iter(loader)
        taken = [next(batches).tolist() for _ in range(TAKEN)]
        state = loader.state_dict()
        read = {
            "arguments": {**given, "batch_size": BATCH_SIZE, "tensors": False},
            "taken": taken,
            "state": state,
            "remaining": [batch.tolist() for batch in batches],
            "next_epoch": [batch.tolist() for batch in loader],
        }
        yield name, read


def save_checkpoint(root: Path) -> None:
    """In each of the ranks: a step in mid-epoch, of one process or of two stages."""
    import torch
    from compatibility_task import Small

    from launcher import parallel
    from launcher.data import DataLoader
    from launcher.parallel import Pipeline, replicate
    from launcher.parallel.checkpoints import Checkpoints, State

    stages = int(os.environ["WORLD_SIZE"])
    world = parallel.init(pipeline=stages, global_batch=2, microbatches=2 if stages > 1 else 1)
    torch.manual_seed(3)
    mse, model = torch.nn.functional.mse_loss, Small()
    if stages > 1:
        example = {"x": torch.zeros(1, 3)}
        model = Pipeline(model, world, starts=["second"], example=example, loss=mse)
    else:
        model = replicate(model, world)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
    loader = DataLoader(
        "compatibility_samples:points",
        2,
        shuffle=True,
        seed=1,
        rank=parallel.dp_rank(),
        world_size=parallel.dp_size(),
    )
    batches = iter(loader)
    for _ in range(3):
        inputs, targets = next(batches)
        optimizer.zero_grad()
        if stages > 1:
            model.step(inputs, target=targets)
        else:
            mse(model(inputs), targets).backward()
        optimizer.step()
        scheduler.step()
    folder = root / ("one" if stages == 1 else "stages")
    checkpoints = Checkpoints(folder, world)
    state = State(
        model=model,
        optimizers=[optimizer],
        shared={"scheduler": scheduler},
        loaders={"train": loader},
    )
    checkpoints.save(3, state)
    checkpoints.close()
    remaining = [inputs[:, 0].mul(8).int().tolist() for inputs, _ in batches]
    found = {"remaining": remaining, "drawn": torch.rand(2).tolist(), **_values(model, optimizer)}
    (root / f"{folder.name}-rank-{parallel.rank()}.json").write_text(json.dumps(found) + "\n")
    parallel.leave()


def _values(model: Any, optimizer: Any) -> dict[str, Any]:
    """The values of this rank's parameters and of what the optimizer keeps of them."""
    module = getattr(model, "module", model)
    names = {id(each): name for name, each in module.named_parameters()}
    state = {names[id(each)]: kept for each, kept in optimizer.state.items()}
    return {
        "model": {name: each.tolist() for name, each in module.named_parameters()},
        "exp_avg": {name: kept["exp_avg"].tolist() for name, kept in state.items()},
        "lr": optimizer.param_groups[0]["lr"],
    }


if __name__ == "__main__":
    if sys.argv[1] == "--checkpoint":
        save_checkpoint(Path(sys.argv[2]))
    else:
        main(Path(sys.argv[1]).resolve())
