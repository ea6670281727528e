"""Published models, cut as they are, learn what one process learns: a table of them."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers", reason="needs the library 'hugging-face'")

import peft_zoo
from model_zoo import ZOO
from zoo_learning import learn

pytestmark = [
    pytest.mark.slow,
    pytest.mark.library("hugging-face"),
    pytest.mark.timeout(1800),
]


@pytest.mark.parametrize("stages", [2, 3])
def test_published_models_learn_what_one_process_does(tmp_path: Path, stages: int) -> None:
    rows = learn(tmp_path, "model_zoo", list(ZOO), stages=stages)
    assert [str(row) for row in rows if not row.is_exact] == []


def test_one_model_in_four_learns_it_with_two_replicas(tmp_path: Path) -> None:
    rows = learn(tmp_path, "model_zoo", list(ZOO)[::4], stages=2, replicas=2)
    assert [str(row) for row in rows if not row.is_exact] == []


@pytest.mark.parametrize(("stages", "replicas"), [(2, 1), (3, 1), (2, 2)])
def test_models_with_adapters_and_frozen_parts_learn_it(
    tmp_path: Path, stages: int, replicas: int
) -> None:
    rows = learn(tmp_path, "peft_zoo", list(peft_zoo.ZOO), stages=stages, replicas=replicas)
    assert [str(row) for row in rows if not row.is_exact] == []
