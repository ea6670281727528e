"""Scripts that remove or replace /opt/ml/model and /opt/ml/output, or put links into them."""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench import Bench

from launcher.client.sessions import JobFolder, copy_from_host
from launcher.errors import PlatformError

SECRET = "of another file"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of the user with a file that no host has."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "file").write_text(SECRET)
    return folder


def everything_stored(bench: Bench) -> str:
    """All that a job has stored, as text."""
    files = [path for path in bench.output.rglob("*") if path.is_file()]
    texts = [path.read_text(errors="replace") for path in files]
    for archive in (path for path in files if path.name.endswith(".tar.gz")):
        with tarfile.open(archive) as tar:
            opened = [tar.extractfile(member) for member in tar if member.isreg()]
            texts += [each.read().decode() for each in opened if each]
    return "\n".join(texts)


@pytest.mark.long
@pytest.mark.parametrize(
    ("removed", "note"),
    [
        ("model", "algo-1 has removed /opt/ml/model: nothing of it is kept"),
        ("output/data", "algo-1 has removed /opt/ml/output/data: nothing of it is kept"),
        ("output", "algo-1 has removed /opt/ml/output/data: nothing of it is kept"),
    ],
)
def test_a_folder_that_is_removed_is_noted(bench: Bench, removed: str, note: str) -> None:
    description = bench.run(
        f"""
        import shutil
        shutil.rmtree(ml / {removed!r})
        """
    )
    assert description["TrainingJobStatus"] == "Completed"
    assert note in description["LocalNotes"]
    assert "ModelArtifacts" not in description


def test_launchers_code_goes_with_its_host(default_bench: Bench) -> None:
    default_bench.run(
        """
        (ml / "lib" / "launcher").mkdir(parents=True)
        (ml / "lib" / "launcher" / "file").touch()
        (ml / "lib" / "file").touch()
        """
    )
    library = default_bench.job_folder() / "hosts" / "algo-1" / "ml" / "lib"
    assert [each.name for each in library.iterdir()] == ["file"]


def test_a_folder_that_stands_for_launchers_code_stays(default_bench: Bench, outside: Path) -> None:
    (outside / "launcher").mkdir()
    default_bench.run(f"(ml / 'lib').symlink_to({str(outside)!r})")
    assert (outside / "launcher").is_dir()


@pytest.mark.parametrize("folder", ["model", "output/data", "output"])
@pytest.mark.parametrize("what", ["file", "link out", "link inside", "broken link"])
def test_a_folder_that_is_replaced_fails_the_job(
    plain_bench: Bench, outside: Path, folder: str, what: str
) -> None:
    replace = {
        "file": "place.write_text('weights')",
        "link out": f"place.symlink_to({str(outside)!r})",
        "link inside": "(ml / 'new/data').mkdir(parents=True); place.symlink_to(ml / 'new')",
        "broken link": "place.symlink_to('nowhere')",
    }
    mode = outside.stat().st_mode
    description = plain_bench.run(
        f"""
        import shutil
        place = ml / {folder!r}
        shutil.rmtree(place)
        {replace[what]}
        """
    )
    is_lost = "model" if folder == "model" else "output/data"
    if folder == "output" and what in ("file", "broken link", "link out"):
        # Nothing is where output/data was.
        assert description["TrainingJobStatus"] == "Completed"
        assert any("has removed /opt/ml/output/data" in note for note in description["LocalNotes"])
    else:
        assert description["TrainingJobStatus"] == "Failed"
        assert description["FailureReason"] == (
            "host algo-1 (homogeneousCluster): a program has put a link or a file in place of the "
            f"folder /opt/ml/{is_lost}, so its content is not kept: write files into the folder"
        )
    assert SECRET not in everything_stored(plain_bench)
    assert outside.stat().st_mode == mode


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


def test_other_results_of_a_job_that_has_replaced_its_model_are_kept(plain_bench: Bench) -> None:
    description = plain_bench.run(
        """
        (ml / "output/data/scores").write_text("7")
        (ml / "model").rmdir()
        (ml / "model").write_text("weights")
        """
    )
    assert description["TrainingJobStatus"] == "Failed"
    assert everything_stored(plain_bench).endswith("7")


def test_a_failure_of_the_script_is_the_reason_before_that_of_its_folders(
    plain_bench: Bench,
) -> None:
    description = plain_bench.run(
        '(ml / "model").rmdir(); (ml / "model").write_text("w"); sys.exit(3)'
    )
    assert description["FailureReason"] == "host algo-1 (homogeneousCluster): exit code 3"
    assert any("in place of the folder /opt/ml/model" in each for each in description["LocalNotes"])


def test_links_out_of_a_host_are_not_followed_into_a_plain_model(
    bench: Bench, outside: Path
) -> None:
    description = bench.run(
        f"""
        (ml / "model/own").write_text("weights")
        (ml / "model/near").symlink_to("own")
        (ml / "model/far").symlink_to({str(outside / "file")!r})
        (ml / "model/folder").symlink_to({str(outside)!r})
        """,
        OutputDataConfig={
            "S3OutputPath": f"file://{bench.output}",
            "CompressionType": "NONE",
        },
    )
    model = bench.output / "job/output/model"
    assert {path.name: path.read_text() for path in model.iterdir()} == {
        "own": "weights",
        "near": "weights",
    }
    notes = [each for each in description["LocalNotes"] if "the model lacks" in each]
    assert notes == [
        "the model lacks far: on algo-1 it is a link out of /opt/ml",
        "the model lacks folder: on algo-1 it is a link out of /opt/ml",
    ]


@pytest.mark.long
def test_links_out_of_a_host_are_not_followed_into_checkpoints(bench: Bench, outside: Path) -> None:
    stored = bench.folder / "checkpoints"
    description = bench.run(
        f"""
        (ml / "checkpoints/own").write_text("step 1")
        (ml / "checkpoints/far").symlink_to({str(outside / "file")!r})
        """,
        CheckpointConfig={"S3Uri": f"file://{stored}"},
    )
    assert description["TrainingJobStatus"] == "Completed"
    assert [path.name for path in stored.iterdir()] == ["own"]
    assert any(
        note == "1 checkpoints are not stored, since they are links out of /opt/ml, "
        "or to a folder around theirs: far"
        for note in description["LocalNotes"]
    )


def test_links_out_of_a_host_are_not_followed_by_copies(
    plain_bench: Bench, outside: Path, tmp_path: Path
) -> None:
    plain_bench.run(
        f"""
        (ml / "model/far").symlink_to({str(outside / "file")!r})
        (ml / "model/folder").symlink_to({str(outside)!r})
        """
    )
    folder = JobFolder(plain_bench.job_folder())
    for path in ("model/far", "model/folder", "model/folder/file"):
        with pytest.raises(PlatformError, match=f"has no /opt/ml/{path}"):
            copy_from_host(folder, "algo-1", path, tmp_path / "copy")


def test_a_failure_file_that_is_a_link_out_of_the_host_is_no_reason(
    plain_bench: Bench, outside: Path
) -> None:
    description = plain_bench.run(
        f'(ml / "output/failure").symlink_to({str(outside / "file")!r}); sys.exit(3)'
    )
    assert description["FailureReason"] == "host algo-1 (homogeneousCluster): exit code 3"
