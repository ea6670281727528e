"""What is said of the files of a job that saves elsewhere than in the folders that are kept."""

from __future__ import annotations

import pytest
from bench import Bench

from launcher.client.sessions import JobFolder, copy_from_host

#: Saves a file of so many bytes; HOME and TMP are the host's.
SAVE = """
import tempfile
os.chdir(ml)
os.makedirs("code", exist_ok=True)
os.chdir("code")
def save(name, size=1):
    for word, folder in {"HOME": os.environ["HOME"], "TMP": tempfile.gettempdir()}.items():
        name = name.replace(word, folder)
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
"""
NOTHING = "nothing was kept: write to SM_MODEL_DIR what is to stay"
NO_MODEL = "no model was kept: write to SM_MODEL_DIR what is to stay"


@pytest.mark.parametrize(
    ("saves", "files", "command"),
    [
        ('save("model.pt", 70)', "/opt/ml/code/model.pt (70 bytes)", "job code/model.pt"),
        (
            'save("runs/1/last.ckpt", 2500); save("runs/1/args.yaml", 3)',
            "/opt/ml/code/runs/1/last.ckpt (2.5 kB), /opt/ml/code/runs/1/args.yaml (3 bytes)",
            "job code/runs/1",
        ),
        (
            'save("lightning_logs/v0/a", 9); save("wandb/run/b", 8); save("outputs/c", 7)',
            "/opt/ml/code/lightning_logs/v0/a (9 bytes), /opt/ml/code/wandb/run/b (8 bytes), "
            "/opt/ml/code/outputs/c (7 bytes)",
            "job code",
        ),
        ('save("HOME/best.pt", 5)', "/opt/home/best.pt (5 bytes)", "job /opt/home/best.pt"),
        ('save(f"{ml}/results/r", 5)', "/opt/ml/results/r (5 bytes)", "job results/r"),
        ('save(f"{ml}/checkpoints/r", 5)', "/opt/ml/checkpoints/r (5 bytes)", "job checkpoints/r"),
        ('save("TMP/best.pt", 5)', "/tmp/best.pt (5 bytes)", None),
    ],
    ids=["cwd", "runs", "trackers", "home", "beside", "checkpoints", "tmp"],
)
def test_new_files_are_named_with_the_command_that_copies_them(
    default_bench: Bench, saves: str, files: str, command: str | None
) -> None:
    description = default_bench.run(f"{SAVE}\n{saves}")
    gone = "files in /tmp are gone with their host"
    assert description["LocalLosses"] == [
        NOTHING,
        f"new files elsewhere, which are lost on AWS: {files}",
        f"launcher download {command}" if command else gone,
    ]
    if command:
        source = command.removeprefix("job ")
        folder = JobFolder(default_bench.job_folder())
        assert copy_from_host(folder, "algo-1", source, default_bench.folder).exists()


@pytest.mark.parametrize(
    "saves",
    [
        pytest.param("pass", id="nothing"),
        pytest.param('save(f"{ml}/model/weights"); save("runs/1/log")', id="a model"),
        pytest.param('save("__pycache__/a.pyc"); save(".cache/a"); save("x.egg-info/a")', id="py"),
        pytest.param('save("HOME/.cache/torch/hub/a"); save("HOME/.netrc")', id="of home"),
        pytest.param('save("TMP/tmpab12_xyz/a"); save("TMP/torchelastic_x/b")', id="of tmp"),
        pytest.param('save("empty", 0)', id="empty"),
        pytest.param('save("old"); os.utime("old", (9, 9))', id="unpacked"),
        pytest.param('save(f"{ml}/output/failure")', id="failure file"),
    ],
)
def test_there_is_nothing_to_name(default_bench: Bench, saves: str) -> None:
    assert default_bench.run(f"{SAVE}\n{saves}").get("LocalLosses", []) == []


def test_the_largest_files_come_first_and_the_others_are_counted(default_bench: Bench) -> None:
    saves = 'save(f"{ml}/output/data/metrics"); [save(f"part-{n}", n) for n in range(1, 9)]'
    losses = default_bench.run(f"{SAVE}\n{saves}")["LocalLosses"]
    named = ", ".join(f"/opt/ml/code/part-{n} ({n} bytes)" for n in (8, 7, 6, 5, 4))
    assert losses == [
        NO_MODEL,
        f"new files elsewhere, which are lost on AWS: {named} and 3 more",
        "launcher download job code",
    ]


def test_checkpoints_are_kept(default_bench: Bench) -> None:
    kept = {"CheckpointConfig": {"S3Uri": f"file://{default_bench.folder / 'stored'}"}}
    losses = default_bench.run(f'{SAVE}\nsave(f"{{ml}}/checkpoints/1"); save("log")', **kept)
    assert losses["LocalLosses"] == [
        NO_MODEL,
        "new files elsewhere, which are lost on AWS: /opt/ml/code/log (1 bytes)",
        "launcher download job code/log",
    ]


def test_files_of_several_hosts(default_bench: Bench) -> None:
    saves = 'save("runs/same", 7)\nif host == "algo-2": save("runs/own", 9)'
    description = default_bench.run(f"{SAVE}\n{saves}", hosts=2)
    assert description["TrainingJobStatus"] == "Completed"
    assert description["LocalLosses"] == [
        NOTHING,
        "new files elsewhere, which are lost on AWS: /opt/ml/code/runs/own (9 bytes) on algo-2, "
        "/opt/ml/code/runs/same (7 bytes) on 2 hosts",
        "launcher download job code/runs --host algo-2",
        "launcher download job code/runs/same --host algo-1",
    ]
