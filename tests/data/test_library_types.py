"""Batches of other libraries' classes: each arrives as what it was."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from batches import sent_and_rebuilt

from launcher.data import register_codec
from launcher.data.batches import structure
from launcher.errors import DataError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.library("batch-types"),
    pytest.mark.filterwarnings("ignore"),  # the libraries' own
]


@pytest.fixture
def tv_tensors() -> Any:
    torch = pytest.importorskip("torch")
    for name in ("nms", "qnms"):  # that the build of torchvision for a GPU wants to find
        signature = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        try:
            torch.library.define(f"torchvision::{name}", signature)
        except RuntimeError:
            assert "torchvision" in sys.modules
    return pytest.importorskip("torchvision.tv_tensors")


def test_tv_tensors_keep_format_and_canvas(tv_tensors: Any) -> None:
    import torch

    boxes = {"format": "XYWH", "canvas_size": (4, 5)}
    for value in (
        tv_tensors.Image(torch.rand(3, 4, 4)),
        tv_tensors.Mask(torch.ones(4, 4)),
        tv_tensors.Video(torch.rand(2, 3, 4, 4)),
        tv_tensors.BoundingBoxes(torch.rand(2, 4), **boxes),
        tv_tensors.BoundingBoxes(torch.rand(2, 4), **boxes, clamping_mode="hard"),
        tv_tensors.KeyPoints(torch.rand(2, 2), canvas_size=(4, 5)),
    ):
        for tensors in (None, True, False):
            arrived = sent_and_rebuilt({"x": value}, tensors=tensors)["x"]
            assert type(arrived) is type(value)
            assert torch.equal(arrived, value)
            assert vars(arrived) == vars(value)


def test_tensor_dicts_keep_batch_size_names_and_nesting() -> None:
    tensordict = pytest.importorskip("tensordict")
    import torch

    value = tensordict.TensorDict(
        {"a": torch.ones(2, 3), "n": {"b": torch.zeros(2)}, "s": ["x", "y"]},
        batch_size=[2],
        names=["row"],
    )
    arrived = sent_and_rebuilt(value, tensors=False)
    assert type(arrived) is tensordict.TensorDict
    assert (arrived.batch_size, arrived.names) == (value.batch_size, value.names)
    assert list(arrived["s"]) == ["x", "y"]
    assert torch.equal(arrived["n", "b"], value["n", "b"])
    parts = [tensordict.TensorDict({"a": torch.ones(size)}, []) for size in (3, 2)]
    stack = sent_and_rebuilt(tensordict.lazy_stack(parts))
    assert [part["a"].tolist() for part in stack.unbind(0)] == [[1, 1, 1], [1, 1]]


def test_a_tensorclass_needs_a_codec() -> None:
    tensordict = pytest.importorskip("tensordict")
    import torch

    @tensordict.tensorclass
    class Pair:
        one: torch.Tensor

    with pytest.raises(DataError, match="Pair"):
        structure.disassemble(Pair(one=torch.ones(2), batch_size=[2]))


def test_encodings_of_a_tokenizer_keep_their_words() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    model = tokenizers.models.WordLevel({"a": 0, "b": 1, "[UNK]": 2}, unk_token="[UNK]")
    words = tokenizers.Tokenizer(model)
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[UNK]")
    value = tokenizer(["a b", "b"], return_tensors="pt", padding=True)
    arrived = sent_and_rebuilt(value)
    assert type(arrived) is transformers.BatchEncoding
    assert arrived["input_ids"].tolist() == value["input_ids"].tolist()
    assert (arrived.tokens(0), arrived.word_ids(1)) == (value.tokens(0), value.word_ids(1))
    features = sent_and_rebuilt(transformers.BatchFeature({"x": [1]}))
    assert type(features) is transformers.BatchFeature


def test_graphs_arrive_by_the_codecs_of_the_docs() -> None:
    geometric = pytest.importorskip("torch_geometric.data")
    import torch

    data, batch = geometric.Data, geometric.Batch
    register_codec(data, encode=data.to_dict, decode=data.from_dict)
    graphs = [
        data(x=torch.ones(3, 2), edge_index=torch.tensor([[0, 1], [1, 2]])),
        data(x=torch.zeros(1, 2), edge_index=torch.zeros(2, 0, dtype=torch.int64)),
    ]
    value = batch.from_data_list(graphs)
    register_codec(
        type(batch.from_data_list([data()])), encode=batch.to_data_list, decode=batch.from_data_list
    )
    arrived = sent_and_rebuilt(value)
    assert type(arrived) is type(value)
    assert arrived.num_graphs == 2
    for name in ("x", "edge_index", "batch", "ptr"):
        assert torch.equal(arrived[name], value[name])


def test_each_of_these_imports_its_library_when_it_arrives() -> None:
    program = """
import sys
from launcher.data.batches import Assembly
from launcher.errors import DataError
for name in ("tensordict.TensorDict", "transformers.BatchEncoding"):
    assert name.partition(".")[0] not in sys.modules
    try:
        Assembly().rebuild(["codec", name, ["list"]], [])
    except DataError as error:
        print(name, name.partition(".")[0] in sys.modules, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=540, check=True
    )
    assert done.stdout.count("True the codec of") == 2, done.stdout
