"""Published models, cut as they are, learn what one process learns: a table of them."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers", reason="needs the library 'hugging-face'")

import peft_zoo
import torch
import transformers
from model_zoo import ZOO, uncut_blocks
from zoo_learning import check, learn

from launcher.parallel import fingerprint
from launcher.parallel.partitioning import PartitionQuestion, decide
from launcher.parallel.profiling import ProfileKind, Sample, profile, unmaterialised
from launcher.shared import Link

pytestmark = [
    pytest.mark.slow,
    pytest.mark.library("hugging-face"),
    pytest.mark.timeout(1800),
]


#: wav2vec2 draws masks by numpy in a module that holds the encoder; the code of segformer's stages
#: collects the outputs of their blocks in a list, so they are whole.
_WHOLE = ("wav2vec2", "segformer")


@pytest.mark.parametrize("stages", [2, 3])
def test_published_models_learn_what_one_process_does(tmp_path: Path, stages: int) -> None:
    """And a stage can begin at each of their blocks."""
    rows = learn(tmp_path, "model_zoo", list(ZOO), stages=stages)
    check(rows)
    for row in rows:
        uncut = uncut_blocks(ZOO[row.model].make(), row.places)
        assert uncut == [] or row.model in _WHOLE, row.model


def test_one_model_in_four_learns_it_with_two_replicas(tmp_path: Path) -> None:
    check(learn(tmp_path, "model_zoo", list(ZOO)[::4], stages=2, replicas=2))


@pytest.mark.parametrize(("stages", "replicas"), [(2, 1), (3, 1), (2, 2)])
def test_models_with_adapters_and_frozen_parts_learn_it(
    tmp_path: Path, stages: int, replicas: int
) -> None:
    check(learn(tmp_path, "peft_zoo", list(peft_zoo.ZOO), stages=stages, replicas=replicas))


def test_a_llama_of_7_billion_parameters_is_estimated_in_four_stages() -> None:
    began = time.perf_counter()
    ids = torch.zeros(1, 512, dtype=torch.long)
    model, sample = unmaterialised(
        lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig()),
        Sample(arguments={"input_ids": ids, "labels": ids}, loss=lambda output, _: output.loss),
    )
    costs = profile(model, sample, device=torch.device("cpu"), kind=ProfileKind.ESTIMATED)
    found = decide(
        [costs],
        fingerprint.compute(model, sample.arguments),
        Link(),
        PartitionQuestion(partitions=4, microbatches=8),
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"7B: {time.perf_counter() - began:.1f} s, {peak:.2f} GB, cut at {found.starts}")
    held = sum(each.parameters for each in costs.modules)  # and a rotary table
    assert held == pytest.approx(4 * 6_738_415_616, rel=1e-6)
    assert (found.profile, len(found.stages)) == ("estimated", 4)
    assert [start.partition("layers.")[0] for start in found.starts] == ["model."] * 3
    assert peak < 4  # its weights would need 27
