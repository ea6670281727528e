"""Torch's tensors in batches: every type and layout, and what becomes of them on either side."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from batches import same, sent_and_rebuilt

from launcher.data.batches import Assembly, structure, tensors
from launcher.errors import DataError, WireError

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # torch's, of its newer types

NAMES = sorted(tensors.BITS) + sorted(tensors.SHARED)


@pytest.mark.parametrize("shape", [(), (0, 2), (3, 2)], ids=str)
@pytest.mark.parametrize("name", [name for name in NAMES if hasattr(torch, name)])
def test_tensors_of_every_type_arrive_bit_for_bit(name: str, shape: tuple[int, ...]) -> None:
    dtype = getattr(torch, name)
    bits = torch.arange(int(np.prod(shape)) * dtype.itemsize, dtype=torch.uint8) % 2
    tensor = torch.empty(shape, dtype=dtype)
    tensor.view(torch.uint8).reshape(-1).copy_(bits) if shape else None
    (arrived,) = sent_and_rebuilt([tensor])
    assert isinstance(arrived, torch.Tensor)
    assert same(arrived, tensor)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6.0).reshape(2, 3).T,
        torch.arange(10)[::3],
        torch.ones(2, 1).expand(2, 4),
        torch.ones(2, requires_grad=True),
        torch.tensor([1 + 2j]).conj(),
        torch.tensor([1 + 2j]).conj().imag,
        torch.zeros(2, 2, 3, 4).to(memory_format=torch.channels_last),
        torch.rand(2, 3, dtype=torch.bfloat16, requires_grad=True).T,
    ],
    ids=["transposed", "strided", "expanded", "grad", "conj", "neg", "channels_last", "both"],
)
def test_tensors_of_every_layout_arrive_with_their_values(tensor: Any) -> None:
    arrived = sent_and_rebuilt(tensor)
    assert type(arrived) is torch.Tensor
    assert (arrived.dtype, arrived.shape) == (tensor.dtype, tensor.shape)
    assert torch.equal(arrived.detach(), tensor.detach())
    assert arrived.requires_grad == tensor.requires_grad
    assert arrived.is_leaf
    is_dense = tensor.numel() == tensor.untyped_storage().nbytes() // tensor.itemsize
    if is_dense and not tensor.is_conj() and not tensor.is_neg():
        assert arrived.stride() == tensor.stride()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), "type qint8"),
        (lambda: torch.ones(2, device="meta"), "the device meta"),
    ],
    ids=["quantized", "meta"],
)
def test_tensors_without_values_to_send_are_refused(make: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        structure.disassemble([make()])


GIVEN = {"tensor": torch.ones(2), "array": np.ones(2), "scalar": np.float32(1), "number": 3}


@pytest.mark.parametrize(
    ("wish", "kinds"),
    [
        (None, [torch.Tensor, np.ndarray, np.float32, int]),
        (True, [torch.Tensor, torch.Tensor, torch.Tensor, int]),
        (False, [np.ndarray, np.ndarray, np.float32, int]),
    ],
    ids=str,
)
def test_what_is_a_tensor_is_what_was_given_or_what_was_wished(wish: Any, kinds: Any) -> None:
    assert [type(part) for part in sent_and_rebuilt(GIVEN, tensors=wish).values()] == kinds


def test_keys_are_what_they_were_whatever_becomes_of_values() -> None:
    batch = {np.int64(3): np.ones(1), (b"a", 1.5): 0}
    assert [type(key) for key in sent_and_rebuilt(batch, tensors=True)] == [np.int64, tuple]


@pytest.mark.parametrize(
    "array",
    [np.array(["a"]), np.array(["2026-01-01"], "M8[D]"), np.ones(1, np.longdouble)],
    ids=lambda array: array.dtype.str,
)
def test_arrays_of_types_that_torch_lacks_stay_arrays(array: Any) -> None:
    assert same(sent_and_rebuilt(array, tensors=True), array)


def test_the_order_of_an_arrays_axes_arrives() -> None:
    for wish in (None, True):
        arrived = sent_and_rebuilt(np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1), tensors=wish)
        assert arrived.tolist() == np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1).tolist()
    assert np.asfortranarray(np.ones((2, 3))).strides == arrived_strides(np.ones((3, 2)).T)


def arrived_strides(array: Any) -> Any:
    return sent_and_rebuilt(array).strides


@pytest.mark.parametrize(
    "tree",
    [
        ["tensor", 0, "", [0, 0]],
        ["tensor", 0, "", [0, 2]],
        ["tensor", 0, "", "ab"],
        ["tensor", 0, "", [0, 1], True],
    ],
    ids=str,
)
def test_axes_and_gradients_that_no_tensor_has_are_refused(tree: Any) -> None:
    with pytest.raises(WireError):
        Assembly().rebuild(tree, [np.zeros((2, 3), np.int64)])


def test_a_tensor_shares_the_memory_of_its_array() -> None:
    array = np.zeros(2)
    tensors.as_tensor(array)[0] = 3
    assert array.tolist() == [3, 0]


def test_an_empty_array_becomes_a_tensor_like_those_of_torch() -> None:
    for shape in ((0,), (2, 0), (0, 3)):
        tensor = tensors.as_tensor(np.ones(shape, np.float32))
        assert tensor.stride() == torch.ones(shape).stride()


@pytest.mark.filterwarnings("error")
def test_arrays_that_torch_would_not_take_become_tensors_of_their_values() -> None:
    for array in (np.frombuffer(b"\1\2", np.uint8), np.array([1, 2], ">i4")):
        assert tensors.as_tensor(array).tolist() == [1, 2]


def test_a_type_that_numpy_lacks_is_refused_where_arrays_are_wished() -> None:
    with pytest.raises(DataError, match="tensor of type bfloat16, which numpy does not have"):
        sent_and_rebuilt(torch.ones(2, dtype=torch.bfloat16), tensors=False)


def test_a_rank_without_torch_is_refused_with_the_fix() -> None:
    """A batch of a host that has torch, on one that does not."""
    tree, arrays = structure.disassemble(torch.ones(2, dtype=torch.bfloat16))
    program = f"""
import sys
sys.modules["torch"] = None
import numpy as np
from launcher.data.batches import Assembly
from launcher.errors import DataError, WireError
array = np.array({arrays[0].tolist()}, {arrays[0].dtype.str!r})
for wish in (None, False):
    try:
        Assembly(tensors=wish).rebuild({tree!r}, [array])
    except DataError as error:
        print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=540, check=True
    )
    without, as_arrays = done.stdout.splitlines()
    assert "has no torch: use an image that has it" in without
    assert "numpy does not have" in as_arrays


def test_a_type_of_a_newer_torch_is_named() -> None:
    with pytest.raises(DataError, match=r"'float3', which torch .* does not have"):
        Assembly().rebuild(["tensor", 0, "float3"], [np.zeros(1, np.int8)])
