"""Ten published models, cut as they are, learn what one process learns.

All of them, in 2 and 3 stages and with replicas: tests/parallel/test_model_zoo.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="needs the extra 'frameworks'")

from model_zoo import ZOO, uncut_blocks
from zoo_learning import check, learn

from launcher.parallel import boundaries

TEN = (
    *("gpt2", "llama, a mask", "qwen3", "mixtral", "bert", "t5", "bart", "whisper", "vit"),
    "clip",
)


def test_ten_models_learn_what_one_process_does(tmp_path: Path) -> None:
    check(learn(tmp_path, "model_zoo", TEN, stages=2))


@pytest.mark.parametrize("name", TEN)
def test_a_stage_can_begin_at_each_block(name: str) -> None:
    model = ZOO[name].make().train()
    assert uncut_blocks(model, boundaries(model, ZOO[name].arguments())) == []
