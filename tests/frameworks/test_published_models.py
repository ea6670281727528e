"""Ten published models, cut as they are, learn what one process learns.

All of them, in 2 and 3 stages and with replicas: tests/parallel/test_model_zoo.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="needs the extra 'frameworks'")

from model_zoo import ZOO, uncut_blocks
from zoo_learning import check, learn

KINDS = ("gpt2", "llama, a mask", "mixtral", "bert", "t5", "whisper", "clip")
#: Their code is that of a kind above: of llama, whisper and clip.
ALIKE = ("qwen3", "bart", "vit")


@pytest.mark.parametrize(
    "names", [KINDS, pytest.param(ALIKE, marks=pytest.mark.long)], ids=["kinds", "alike"]
)
def test_ten_models_learn_what_one_process_does_in_stages_that_may_begin_at_each_block(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    rows = learn(tmp_path, "model_zoo", names, stages=2)
    check(rows)
    for row in rows:
        assert uncut_blocks(ZOO[row.model].make(), row.places) == [], row.model
