"""The events that a user is shown in words."""

import re
from pathlib import Path

import pytest

from launcher.client.jobs import WARNINGS, sentence

ROOT = Path(__file__).parents[2] / "launcher"


@pytest.mark.parametrize(
    ("name", "fields", "text"),
    [
        (
            "worker_died",
            {"worker": 3, "pid": 5, "how": "killed by SIGKILL"},
            "warning: data worker 3 has died and is restarted: killed by SIGKILL",
        ),
        (
            "versions_differ",
            {"package": "numpy", "by_group": {"data": "1.26", "train": "2.1"}, "why": "so"},
            "warning: numpy differs between groups: data 1.26, train 2.1; so",
        ),
        (
            "tf_server_died",
            {"server": "the tf.data worker algo-1:7070", "pid": 5, "how": "killed by SIGKILL"},
            "warning: the tf.data worker algo-1:7070 has died and is restarted: killed by SIGKILL; "
            "what a worker had prepared is read again, or lost with sharding='dynamic'",
        ),
        (
            "train_step",
            {"step": 79, "steps": 100, "loss": 2.4, "samples_per_second": 102.875},
            "step 79/100: loss 2.4, 102.9 samples/s",
        ),
        (
            "evaluation",
            {"epoch": 3, "step": 9, "validation_loss": 2.34, "validation_accuracy": 0.3},
            "epoch 3: validation_loss 2.34, validation_accuracy 0.3",
        ),
        ("worker_died", {"worker": 3}, None),
        ("host_started", {"pid": 3}, None),
    ],
)
def test_an_event_in_words(name, fields, text):
    assert sentence(name, fields) == text


def test_every_warning_is_an_event_that_some_room_emits():
    code = "\n".join(path.read_text() for path in ROOT.rglob("*.py") if "client" not in path.parts)
    emitted = set(re.findall(r'(?:emit(?:_text)?|log_event)\(\s*"(\w+)"', code))
    assert set(WARNINGS) <= emitted
