"""Scripts that remove or replace /opt/ml/model and /opt/ml/output, or put links into them."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, host_of, job_without_programs

from launcher.client.sessions import (
    Artifacts,
    FolderStore,
    HostFolder,
    JobFolder,
    copy_from_host,
    pack_artifacts,
)
from launcher.errors import PlatformError

SECRET = "of another file"
REPLACED = (
    "a program has put a link or a file in place of the folder /opt/ml/{}, so its content is not "
    "kept: write files into the folder"
)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of the user with a file that no host has."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "file").write_text(SECRET)
    return folder


def everything_stored(folder: Path) -> str:
    """All that a job has stored, as text."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    texts = [path.read_text(errors="replace") for path in files]
    for archive in (path for path in files if path.name.endswith(".tar.gz")):
        with tarfile.open(archive) as tar:
            opened = [tar.extractfile(member) for member in tar if member.isreg()]
            texts += [each.read().decode() for each in opened if each]
    return "\n".join(texts)


@pytest.fixture
def tree(tmp_path: Path) -> HostFolder:
    """The only host of a job."""
    (found,) = job_without_programs(tmp_path)[1].values()
    return found


def packed(tree: HostFolder, output: Path) -> Artifacts:
    request: Any = {"OutputDataConfig": {}}
    return pack_artifacts(request, {host_of(1): tree}, FolderStore(f"file://{output}"))


@pytest.mark.parametrize("folder", ["model", "output/data", "output"])
@pytest.mark.parametrize("what", ["nothing", "file", "link out", "link inside", "broken link"])
def test_a_folder_that_is_removed_or_replaced_is_not_kept(
    tree: HostFolder, tmp_path: Path, outside: Path, folder: str, what: str
) -> None:
    place, mode = tree.ml.root / folder, outside.stat().st_mode
    shutil.rmtree(place)
    if what == "file":
        place.write_text("weights")
    elif what == "link inside":
        (tree.ml.root / "new/data").mkdir(parents=True)
        place.symlink_to(tree.ml.root / "new")
    elif what != "nothing":
        place.symlink_to(outside if what == "link out" else "nowhere")

    artifacts = packed(tree, tmp_path / "stored")

    is_lost = "model" if folder == "model" else "output/data"
    if what == "nothing" or (folder == "output" and what != "link inside"):
        # Nothing is where the folder was.
        assert artifacts.problem is None
        assert f"algo-1 has removed /opt/ml/{is_lost}: nothing of it is kept" in artifacts.notes
    else:
        assert artifacts.problem == f"host algo-1 (g): {REPLACED.format(is_lost)}"
    assert artifacts.model is None
    assert SECRET not in everything_stored(tmp_path / "stored")
    assert outside.stat().st_mode == mode


def test_a_replaced_folder_fails_the_job_and_its_other_results_are_kept(
    plain_bench: Bench,
) -> None:
    description = plain_bench.run(
        """
        (ml / "output/data/scores").write_text("7")
        (ml / "model").rmdir()
        (ml / "model").write_text("weights")
        """
    )
    assert description["TrainingJobStatus"] == "Failed"
    reason = f"host algo-1 (homogeneousCluster): {REPLACED.format('model')}"
    assert description["FailureReason"] == reason
    assert everything_stored(plain_bench.output).endswith("7")


def test_a_failure_of_the_script_is_the_reason_before_that_of_its_folders(
    plain_bench: Bench, outside: Path
) -> None:
    description = plain_bench.run(
        f"""
        (ml / "model").rmdir()
        (ml / "model").write_text("w")
        (ml / "output/failure").symlink_to({str(outside / "file")!r})
        sys.exit(3)
        """
    )
    reason = "host algo-1 (homogeneousCluster): exit code 3"  # the link's file is another's
    assert description["FailureReason"] == reason
    assert any("in place of the folder /opt/ml/model" in each for each in description["LocalNotes"])


def test_launchers_code_goes_with_its_host(tree: HostFolder, outside: Path) -> None:
    library = tree.ml.library
    (library / "launcher").mkdir(parents=True)
    (library / "file").touch()
    tree.discard_library()
    assert [each.name for each in library.iterdir()] == ["file"]
    shutil.rmtree(library)
    library.symlink_to(outside)
    (outside / "launcher").mkdir()
    tree.discard_library()
    assert (outside / "launcher").is_dir(), "a folder that stands for it stays"


#: Deeper than Python's recursion, and than a path's length.
NESTED = """
os.chdir(ml / {folder!r})
for _ in range(2500):
    os.mkdir("d")
    os.chdir("d")
"""


@pytest.fixture
def nested_bench(plain_bench: Bench) -> Iterator[Bench]:
    """A bench that removes such folders, which pytest cannot."""
    yield plain_bench
    subprocess.run(["rm", "-rf", str(plain_bench.folder)], check=True)


@pytest.mark.long
def test_folders_without_end_are_the_reason(nested_bench: Bench) -> None:
    description = nested_bench.run(NESTED.format(folder="model"))
    assert description["FailureReason"] == (
        "the results are not kept, since a program has nested folders too deeply in /opt/ml/model "
        "or /opt/ml/output/data"
    )


@pytest.mark.long
def test_checkpoints_without_end_are_the_reason(nested_bench: Bench) -> None:
    description = nested_bench.run(
        NESTED.format(folder="checkpoints") + "open('weights', 'w').close()",
        CheckpointConfig={"S3Uri": f"file://{nested_bench.folder / 'stored'}"},
    )
    assert "platform process died" not in description.get("FailureReason", "")


def test_links_out_of_a_host_are_not_followed(bench: Bench, outside: Path, tmp_path: Path) -> None:
    """Neither into a plain model, nor into checkpoints, nor by copies."""
    stored = bench.folder / "checkpoints"
    description = bench.run(
        f"""
        for folder in ("model", "checkpoints"):
            (ml / folder / "own").write_text("weights")
            (ml / folder / "near").symlink_to("own")
            (ml / folder / "far").symlink_to({str(outside / "file")!r})
        (ml / "model/folder").symlink_to({str(outside)!r})
        """,
        OutputDataConfig={"S3OutputPath": f"file://{bench.output}", "CompressionType": "NONE"},
        CheckpointConfig={"S3Uri": f"file://{stored}"},
    )
    assert description["TrainingJobStatus"] == "Completed"
    for kept in (bench.output / "job/output/model", stored):
        found = {path.name: path.read_text() for path in kept.iterdir()}
        assert found == {"own": "weights", "near": "weights"}
    assert [each for each in description["LocalNotes"] if "link" in each] == [
        "1 checkpoints are not stored, since they are links out of /opt/ml, or to a folder around "
        "theirs: far",
        "the model lacks far: on algo-1 it is a link out of /opt/ml",
        "the model lacks folder: on algo-1 it is a link out of /opt/ml",
    ]
    for path in ("model/far", "model/folder", "model/folder/file"):
        with pytest.raises(PlatformError, match=f"has no /opt/ml/{path}"):
            copy_from_host(JobFolder(bench.job_folder()), "algo-1", path, tmp_path / "copy")
