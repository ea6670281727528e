"""The watchdog of tf.data's service: it ends a process that waits, and none that does not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.library("tensorflow"), pytest.mark.long]

#: The second element is not ready before a file is there; the watchdog waits for it for 2 s.
READ = """
import os, sys, threading, time
import tensorflow as tf
from launcher.data.tf.distributed_dataset import watched

def elements():
    yield 0
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.05)
    yield 1

numbers = tf.data.Dataset.from_generator(elements, output_signature=tf.TensorSpec((), tf.int64))
dataset = watched(numbers, "train", 2.0).prefetch(1)
"""
WAITS = "for number in dataset: print('got', int(number), flush=True)"
TRAINS = """
def make_it_ready():
    open(sys.argv[1], "w").close()

threading.Timer(0.5, make_it_ready).start()
for number in dataset.take(1):
    print("got", int(number), flush=True)
time.sleep(6)  # three times as long as the watchdog waits
print("trained", flush=True)
"""


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", READ + script, folder / "ready"],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_process_that_waits_ends_with_the_reason(tmp_path: Path) -> None:
    done = run(WAITS, tmp_path)
    assert done.returncode == 1
    assert done.stdout == "got 0\n"
    assert "no batch of train arrived within 2 s, after 1 in this epoch" in done.stderr


def test_one_that_takes_a_few_and_trains_on_does_not(tmp_path: Path) -> None:
    done = run(TRAINS, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "got 0\ntrained\n"


PARTS = """
import tensorflow as tf
from launcher.data.tf.distributed_dataset import watched

pairs = tf.data.Dataset.range(2).map(lambda number: {"x": number, "weight": None})
print([(int(each["x"]), each["weight"]) for each in watched(pairs, "train", 100.0)])
"""


def test_parts_that_are_none_stay_none(tmp_path: Path) -> None:
    done = run(PARTS, tmp_path)
    assert done.stdout == "[(0, None), (1, None)]\n", done.stderr
