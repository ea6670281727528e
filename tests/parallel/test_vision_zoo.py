"""Models of torchvision and timm, drawn by a seed, learn what one process does."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("vision_zoo", reason="needs the library 'vision-models'")

from vision_zoo import TIMM, ZOO, draw
from zoo_learning import check, learn

pytestmark = [
    pytest.mark.slow,
    pytest.mark.library("vision-models"),
    pytest.mark.timeout(3600),
]


def test_they_learn_what_one_process_does(tmp_path: Path) -> None:
    names = list(ZOO)
    three = names[::4]
    rows = learn(tmp_path, "vision_zoo", [n for n in names if n not in three], stages=2)
    check(rows + learn(tmp_path, "vision_zoo", three, stages=3))


def test_one_in_four_learns_it_with_two_replicas(tmp_path: Path) -> None:
    check(learn(tmp_path, "vision_zoo", list(ZOO)[1::4], stages=2, replicas=2))


def test_the_models_of_timm_are_those_of_the_seed() -> None:
    assert draw() == TIMM
