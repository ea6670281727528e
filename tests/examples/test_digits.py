"""The digits example: its images, and the datasets that prepare them."""

import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

DIGITS = Path(__file__).parents[2] / "examples" / "digits"


def contents(folder):
    return {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*.png")}


def seeded_sample(dataset, index, seed):
    random.seed(seed)
    np.random.seed(seed)
    return dataset[index]


@pytest.mark.long
def test_every_fifth_image_is_held_back(images):
    train, test = (
        {int(file.stem) for file in images.glob(f"{split}/*/*.png")} for split in ("train", "test")
    )
    assert test == set(range(0, 1797, 5))
    assert train == set(range(1797)) - test


@pytest.mark.long
@pytest.mark.parametrize("split", ["train", "test"])
def test_every_digit_is_in_both_splits(images, split):
    assert {folder.name for folder in (images / split).iterdir()} == set("0123456789")


def test_images_are_written_only_once(prepare, images):
    before = {file: file.stat().st_mtime_ns for file in images.rglob("*")}
    assert not prepare(images)
    assert {file: file.stat().st_mtime_ns for file in images.rglob("*")} == before


@pytest.mark.long
def test_images_are_the_same_each_time_and_nothing_else_is_left(prepare, images, tmp_path):
    assert prepare(tmp_path / "data")
    assert contents(tmp_path / "data") == contents(images)
    assert [entry.name for entry in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize(("make", "length"), [("train_set", 1437), ("test_set", 360)])
def test_a_sample_is_an_image_between_0_and_1_and_its_label(pipeline, channel, make, length):
    dataset = getattr(pipeline, make)()
    assert len(dataset) == length
    for index in (0, length // 2, length - 1):
        pixels, label = seeded_sample(dataset, index, seed=1)
        assert pixels.shape == (1, 28, 28)
        assert pixels.dtype == np.float32
        assert 0 <= pixels.min() < pixels.max() <= 1
        assert label == int(dataset.files[index].parent.name)


def test_a_training_sample_is_a_function_of_the_seed(pipeline, channel):
    dataset = pipeline.train_set()
    first, again, other = (seeded_sample(dataset, 7, seed)[0] for seed in (1, 1, 2))
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()


def test_a_test_sample_is_always_the_same(pipeline, channel):
    dataset = pipeline.test_set()
    first, other = (seeded_sample(dataset, 7, seed)[0] for seed in (1, 2))
    assert first.tobytes() == other.tobytes()


def test_files_come_in_the_same_order_from_a_copy(pipeline, channel, tmp_path, monkeypatch):
    here = [file.relative_to(channel) for file in pipeline.train_set().files]
    copy = tmp_path / "copy"
    shutil.copytree(channel, copy)
    monkeypatch.setenv("SM_CHANNEL_DIGITS", str(copy))
    assert [file.relative_to(copy) for file in pipeline.train_set().files] == here


def test_the_data_hosts_need_neither_torch_nor_launcher():
    script = "import pipeline, sys; print({'torch', 'launcher'} & set(sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=DIGITS, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "set()"
