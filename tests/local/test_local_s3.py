"""Jobs whose data, checkpoints and results are in S3: moto's server, over HTTP."""

from __future__ import annotations

import io
import json
import os
import signal
import tarfile
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, channel, group, processes_mentioning
from cloud import SECRET, Cloud
from test_local_channels import LIST, contents, expected
from test_local_spot import COUNTS_STARTS, LATEST, SPOT, states
from waiting import wait_until


def in_archive(content: bytes) -> dict[str, str]:
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        return {each.name: tar.extractfile(each).read().decode() for each in tar if each.isfile()}


DIGITS = {f"digits/{name}": name[-1].upper() for name in ("a", "b", "c", "deep/i", "deep/j")}
RESULTS = {"OutputDataConfig": {"S3OutputPath": "s3://bucket/results/"}}


@pytest.mark.long
def test_channels_of_two_groups(s3_bench: Bench, cloud: Cloud) -> None:
    cloud.put(**DIGITS, **{"digits/": "", "digits-not/x": "X"})
    s3_bench.start(
        LIST,
        groups=[group("data", 2), group("train", 1)],
        channels=[
            channel(
                "raw",
                "s3://bucket/digits/",
                S3DataDistributionType="ShardedByS3Key",
                InstanceGroupNames=["data"],
            ),
            channel("labels", "s3://bucket/digits/a", InstanceGroupNames=["train"]),
            channel("both", "s3://bucket/digits/dee", InstanceGroupNames=["train", "data"]),
        ],
    )

    both = expected("deep/i", "deep/j")
    assert contents(s3_bench) == {
        "algo-1": {"raw": expected("a", "c", "deep/j"), "both": both},
        "algo-2": {"raw": expected("b", "deep/i"), "both": both},
        "algo-3": {"labels": expected("a"), "both": both},
    }
    notes = s3_bench.describe()["LocalNotes"]
    assert "channel 'raw': 5 objects, 0.0 MB, fetched from s3://bucket/digits/" in notes[0]
    left = [path for path in s3_bench.job_folder().rglob("*") if path.name in ("deep", "raw", "a")]
    assert left == [], "an ended job keeps no copy of its data"


@pytest.mark.parametrize("content", ['[{"prefix": 5}]', "[" * 100_000], ids=["5", "brackets"])
def test_a_manifest_that_is_none_fails_the_job_in_words(
    plain_s3_bench: Bench, cloud: Cloud, content: str
) -> None:
    cloud.put(list=content)
    listed = channel("listed", "s3://bucket/list", S3DataType="ManifestFile")
    plain_s3_bench.start("print('hello')", InputDataConfig=[listed])
    assert "s3://bucket/list is not a manifest" in plain_s3_bench.end_of()["FailureReason"]


@pytest.mark.long
def test_all_that_begins_so_and_a_manifest_with_credentials_of_the_user(
    tmp_path: Path, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in cloud.environment.items():
        monkeypatch.setenv(name, value)
    manifest = [{"prefix": "s3://bucket/digits/"}, "deep/j", "c"]
    cloud.put(**DIGITS, **{"digits2/x": "X", "list": json.dumps(manifest)})
    s3_bench = Bench(tmp_path, "process")
    s3_bench.start(
        LIST,
        channels=[
            channel("prefix", "s3://bucket/digits"),
            channel("listed", "s3://bucket/list", S3DataType="ManifestFile"),
        ],
    )

    found = contents(s3_bench)["algo-1"]
    assert found["listed"] == expected("c", "deep/j")
    assert found["prefix"] == expected("a", "b", "c", "deep/i", "deep/j", "digits2/x")


@pytest.mark.long
def test_a_host_may_change_its_copies(s3_bench: Bench, cloud: Cloud) -> None:
    cloud.put(**{"code/run.sh": "echo it runs"})
    script = """
    run = ml / "input/data/scripts/run.sh"
    run.chmod(0o755)
    (run.parent / "made-here").touch()
    print(subprocess.run(["sh", run], capture_output=True, text=True).stdout.strip())
    """
    s3_bench.start(script, hosts=2, channels=[channel("scripts", "s3://bucket/code/")])

    assert s3_bench.end_of()["TrainingJobStatus"] == "Completed"
    assert s3_bench.lines() == {"algo-1": ["it runs"], "algo-2": ["it runs"]}


def test_results_and_the_keys_which_are_the_platforms_alone(
    plain_s3_bench: Bench, cloud: Cloud
) -> None:
    script = """
    (ml / "model" / "weights").write_text("w")
    (ml / "output" / "data" / "predictions").write_text("7")
    print(json.dumps(dict(os.environ)))
    """
    cloud.put(**DIGITS)
    digits = channel("digits", "s3://bucket/digits")
    description = plain_s3_bench.run(script, channels=[digits], **RESULTS)

    assert description["TrainingJobStatus"] == "Completed"
    uri = "s3://bucket/results/job/output/model.tar.gz"
    assert description["ModelArtifacts"] == {"S3ModelArtifacts": uri}
    stored = {name: in_archive(each) for name, each in cloud.objects("results/job/output/").items()}
    assert stored == {"model.tar.gz": {"weights": "w"}, "output.tar.gz": {"predictions": "7"}}
    assert not list(plain_s3_bench.job_folder().glob("unsent/*/*"))
    for path in plain_s3_bench.session.root.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
    assert "AWS_ACCESS_KEY_ID" not in str(plain_s3_bench.lines())


@pytest.mark.long
@pytest.mark.parametrize("where", ["s3://bucket/results", "file://"])
def test_a_model_that_is_not_compressed(plain_s3_bench: Bench, cloud: Cloud, where: str) -> None:
    script = """
    (ml / "model" / "parts").mkdir()
    (ml / "model" / "parts" / host).write_text(host)
    (ml / "model" / "latest").symlink_to("parts/" + host)
    """
    base = where if where.startswith("s3") else plain_s3_bench.output.as_uri()
    output = {"S3OutputPath": base, "CompressionType": "NONE"}
    description = plain_s3_bench.run(script, hosts=2, OutputDataConfig=output)

    root = plain_s3_bench.output / "job" / "output"
    stored = cloud.objects("results/job/output/") or {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }
    assert stored == {
        "model/parts/algo-1": b"algo-1",
        "model/parts/algo-2": b"algo-2",
        "model/latest": b"algo-1",
    }
    model = description["ModelArtifacts"]["S3ModelArtifacts"]
    assert model == f"{base}/job/output/model/"


@pytest.mark.long
def test_an_interrupted_job_finds_its_checkpoints(s3_bench: Bench, cloud: Cloud) -> None:
    kept = {"CheckpointConfig": {"S3Uri": "s3://bucket/kept/"}}
    cloud.put(**{"kept/old/step-1": "one", "kept-not/x": "X"})
    s3_bench.start(COUNTS_STARTS, hosts=2, **SPOT, **kept)
    s3_bench.wait_for_line("start 1", hosts=2)
    s3_bench.session.interrupt_training_job(TrainingJobName="job")

    description = s3_bench.end_of()
    assert description["TrainingJobStatus"] == "Completed", description
    assert states(description).count("Interrupted") == 1
    lines = [
        [event.text for event in s3_bench.session.read_log("job", stream.name)[0]]
        for stream in s3_bench.session.log_streams("job")
    ]
    first = ["found ['old']", "start 1", "saved"]
    second = ["found ['algo-1.txt', 'algo-2.txt', 'old']", "start 2"]
    assert lines == [first, second, first, second]
    assert cloud.objects("kept/") == {
        "algo-1.txt": b"1",
        "algo-2.txt": b"1",
        "old/step-1": b"one",
    }


@pytest.mark.parametrize("where", ["checkpoints", "output/data"])
def test_a_checkpoint_folder_that_is_a_link_is_restored_from_s3(
    plain_s3_bench: Bench, cloud: Cloud, where: str
) -> None:
    is_kept = where == "checkpoints"
    text = "save.name" if is_kept else "save"
    script = LATEST.format(folder=f"ml / {where!r}", text=text, seconds=1.5)
    kept = {"CheckpointConfig": {"S3Uri": "s3://bucket/kept"}}
    cloud.put(**{"kept/latest/old": "0", "kept/latest-not": "X"})
    plain_s3_bench.start(script.replace("if found", 'if "step" in (found or ())'), **SPOT, **kept)
    plain_s3_bench.wait_for_line("saved 2")
    plain_s3_bench.session.interrupt_training_job(TrainingJobName="job")

    assert plain_s3_bench.end_of()["TrainingJobStatus"] == "Completed"
    streams = plain_s3_bench.session.log_streams("job")
    again = plain_s3_bench.session.read_log("job", streams[-1].name)[0]
    found = "ckpt-2" if is_kept else False
    assert [event.text for event in again] == [
        f"latest ['only-2', 'parts', 'step'] {found}",
        "saved 4",
    ]
    stored = cloud.objects("kept/")
    assert stored["latest-not"] == b"X"
    if is_kept:
        assert json.loads(stored[".launcher-links.json"]) == {"latest": "ckpt-4"}
        assert not [name for name in stored if name.startswith("latest/")]
    else:
        latest = {name for name in stored if name.startswith("latest/")}
        assert latest == {"latest/step", "latest/only-4", "latest/parts/0"}
    unsent = plain_s3_bench.job_folder() / "unsent"
    assert not [path for path in unsent.rglob("*") if not path.is_dir()]


@pytest.mark.parametrize(
    ("links", "reason"),
    [
        ('{"a": "../../etc"}', "has a link out of its prefix: a -> ../../etc"),
        ('{"../a": "b"}', "is not a valid file name"),
        ("[]", "cannot be read"),
        ("{", "cannot be read"),
    ],
)
def test_links_in_a_bucket_that_leave_it_are_refused(
    plain_s3_bench: Bench, cloud: Cloud, links: str, reason: str
) -> None:
    cloud.put(**{"kept/.launcher-links.json": links})
    kept = {"CheckpointConfig": {"S3Uri": "s3://bucket/kept"}}
    description = plain_s3_bench.run("pass", **kept)
    assert description["TrainingJobStatus"] == "Failed"
    assert reason in description["FailureReason"]


@pytest.mark.long
def test_a_checkpoint_is_kept_while_the_job_runs(plain_s3_bench: Bench, cloud: Cloud) -> None:
    kept = {"CheckpointConfig": {"S3Uri": "s3://bucket/kept"}}
    plain_s3_bench.start(
        '(ml / "checkpoints" / "step").write_text("1"); print("up"); time.sleep(600)', **kept
    )
    wait_until(lambda: cloud.objects("kept/") == {"step": b"1"})
    assert plain_s3_bench.describe()["SecondaryStatus"] == "Training"
    plain_s3_bench.stop()
    assert plain_s3_bench.end_of()["TrainingJobStatus"] == "Stopped"


@pytest.mark.long
@pytest.mark.parametrize("bucket", ["bucket", "no-such-bucket"])
def test_data_that_are_not_there(plain_s3_bench: Bench, cloud: Cloud, bucket: str) -> None:
    description = plain_s3_bench.run("pass", channels=[channel("x", f"s3://{bucket}/nothing/")])

    assert description["TrainingJobStatus"] == "Failed"
    assert states(description) == ["Starting", "Downloading", "Failed"]
    assert description["FailureReason"].startswith(
        "ClientError: Data download failed: No S3 objects found under S3 URL "
        f'"s3://{bucket}/nothing/" given in input data source.'
    )


@pytest.mark.long
@pytest.mark.parametrize("keys", [("a//b", "a/b"), ("a", "a/b")], ids=["one file", "file, folder"])
def test_objects_that_no_folder_can_hold(
    plain_s3_bench: Bench, cloud: Cloud, keys: tuple[str, str]
) -> None:
    cloud.put(**{f"odd/{key}": key for key in keys})
    description = plain_s3_bench.run("pass", channels=[channel("x", "s3://bucket/odd/")])

    assert description["TrainingJobStatus"] == "Failed"
    first, second = (f"s3://bucket/odd/{key}" for key in keys)
    assert f"{first} and {second} cannot be files of one folder" in description["FailureReason"]


@pytest.mark.long
def test_results_wait_for_an_s3_that_was_away(plain_s3_bench: Bench, cloud: Cloud) -> None:
    plain_s3_bench.start('print("up"); time.sleep(600)', **RESULTS)
    plain_s3_bench.wait_for_line("up")
    model = plain_s3_bench.job_folder() / "hosts/algo-1/ml/model/weights"
    model.write_text("w")
    cloud.go_away()
    plain_s3_bench.stop()
    wait_until(
        lambda: any("S3 does not respond" in n for n in plain_s3_bench.describe()["LocalNotes"])
    )
    assert plain_s3_bench.describe()["SecondaryStatus"] == "Uploading"
    cloud.come_back()

    assert plain_s3_bench.end_of()["TrainingJobStatus"] == "Stopped"
    stored = cloud.objects("results/job/output/")
    assert in_archive(stored["model.tar.gz"]) == {"weights": "w"}


@pytest.mark.long
def test_results_that_s3_refuses_are_kept_here(plain_s3_bench: Bench, cloud: Cloud) -> None:
    output = {"OutputDataConfig": {"S3OutputPath": "s3://no-such-bucket/x"}}
    description = plain_s3_bench.run('(ml / "model" / "weights").write_text("w")', **output)

    assert description["TrainingJobStatus"] == "Failed"
    archive = plain_s3_bench.job_folder() / "unsent/results/model.tar.gz"
    assert "NoSuchBucket" in description["FailureReason"]
    assert f"the file is kept at {archive}" in description["FailureReason"]
    assert in_archive(archive.read_bytes()) == {"weights": "w"}


@pytest.mark.long
@pytest.mark.parametrize(
    "fields",
    [
        {"channels": [channel("x", "s3://bucket/data/")]},
        {"CheckpointConfig": {"S3Uri": "s3://bucket/data/"}},
    ],
    ids=["data", "checkpoints"],
)
def test_a_job_is_stopped_while_it_downloads(
    plain_s3_bench: Bench, cloud: Cloud, fields: dict[str, Any]
) -> None:
    cloud.put(**{"big": "x" * 60_000_000})
    for number in range(8):
        cloud.client.copy_object(
            Bucket="bucket", Key=f"data/{number}", CopySource={"Bucket": "bucket", "Key": "big"}
        )
    plain_s3_bench.start("pass", **fields)
    folder = plain_s3_bench.job_folder() / "hosts/algo-1/ml/checkpoints"

    def is_downloading() -> bool:
        message = plain_s3_bench.describe()["SecondaryStatusTransitions"][-1]["StatusMessage"]
        return "Downloading 'x': " in message or (folder.is_dir() and any(folder.iterdir()))

    wait_until(is_downloading)
    plain_s3_bench.stop()

    description = plain_s3_bench.end_of()
    assert states(description)[-4:] == ["Downloading", "Stopping", "Uploading", "Stopped"]
    assert plain_s3_bench.lines() == {}


def test_nothing_of_a_job_in_s3_goes_on_when_it_is_killed(
    plain_s3_bench: Bench, cloud: Cloud
) -> None:
    plain_s3_bench.start('print("up"); time.sleep(600)', **RESULTS)
    plain_s3_bench.wait_for_line("up")
    for pid, command in processes_mentioning(str(plain_s3_bench.job_folder())).items():
        if "sessions.local.job.platform_process" in command:
            os.kill(pid, signal.SIGKILL)

    assert plain_s3_bench.end_of()["TrainingJobStatus"] == "Failed"
