"""Batches of many types, of Python, the job and libraries, beside those of torch's DataLoader.

Prints the share of the cases that are as in torch. None may differ without an error.
"""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import ipaddress
import re
import types
import uuid
import warnings
import zoneinfo
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from launcher.data import DataLoader
from launcher.data.batches import class_names

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.library("batch-types"),
    pytest.mark.filterwarnings("ignore"),  # the libraries' own
]


class Colour(enum.Enum):
    RED = "r"


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Box:
    corner: Any


@dataclasses.dataclass(slots=True)
class Slotted:
    corner: Any


class Plain:
    def __init__(self, held: Any) -> None:
        self.held = held


class Named(dict):  # type: ignore[type-arg]
    pass


class Ordered(collections.OrderedDict):  # type: ignore[type-arg]
    pass


class Words(list):  # type: ignore[type-arg]
    pass


class Text(str):
    pass


class Labelled(torch.Tensor):  # type: ignore[misc,name-defined]
    pass


class View(Mapping):  # type: ignore[type-arg]
    def __init__(self, held: Any) -> None:
        self.held = held

    def __getitem__(self, key: str) -> Any:
        return self.held[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.held)

    def __len__(self) -> int:
        return len(self.held)


def attributed(made: Any, **attributes: Any) -> Any:
    made.__dict__.update(attributes)
    return made


def _python(i: int) -> dict[str, Any]:
    when = datetime.datetime(2026, 1, 1 + i, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))
    return {
        "int": i,
        "float": i / 3,
        "complex": 1j * i,
        "str": "a" * i,
        "bytes": b"\0" * i,
        "None": None,
        "tuple": (i, [i, {"a": i}]),
        "bytearray": bytearray(b"ab"),
        "Decimal": decimal.Decimal(i),
        "Fraction": fractions.Fraction(i, 3),
        "UUID": uuid.UUID(int=i),
        "Path": Path("a") / str(i),
        "datetime": when,
        "timedelta": datetime.timedelta(i),
        "set": {i, 2 * i},
        "deque": collections.deque([i, i + 1]),
        "OrderedDict": collections.OrderedDict(b=np.ones(2) * i, a=i),
        "defaultdict": collections.defaultdict(list, a=[i]),
        "defaultdict of a lambda": collections.defaultdict(functools.partial(int, i), a=i),
        "Counter": collections.Counter("ab" * i),
        "ChainMap": collections.ChainMap({"a": i}, {"b": i}),
        "UserDict": collections.UserDict(a=np.ones(2) * i),
        "UserList": collections.UserList([i, i]),
        "UserString": collections.UserString("x"),
        "SimpleNamespace": types.SimpleNamespace(a=i),
        "range": range(i, i + 2),
        "slice": slice(i),
        "array": array.array("d", [i, 2]),
        "partial": functools.partial(sorted, reverse=bool(i)),
        "function": sorted,
        "class": Plain,
        "pattern": re.compile("a*"),
        "address": ipaddress.ip_address(i),
        "exception": KeyError(i),
        "enum": Colour.RED,
        "NamedTuple": Pair(i, torch.ones(2) * i),
        "dataclass": Box(i),
        "dataclass with an attribute": attributed(Box(i), more=i),
        "dataclass with slots": Slotted(i),
        "own class": Plain({"a": torch.ones(2)}),
        "own dict": attributed(Named(a=np.ones(2) * i, b=[i]), source="disk"),
        "own OrderedDict": Ordered(a=np.ones(2) * i),
        "own list": Words([i, np.ones(2)]),
        "own str": attributed(Text("x"), at=i),
        "own Mapping": View({"a": np.ones(2) * i}),
        "ragged": [torch.ones(3), torch.ones(2)],
    }


def _numpy(i: int) -> dict[str, Any]:
    return {
        "array": np.arange(6).reshape(2, 3) * i,
        "array by columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "scalar": np.float32(i),
        "bool": np.bool_(i),
        "str_": np.str_("a"),
        "datetime64": np.datetime64("2026-01-01"),
        "masked": np.ma.masked_array([1, 2], [False, bool(i)]),
        "records": np.zeros(2, "i4,f8"),
        "recarray": np.zeros(2, "i4,f8").view(np.recarray),
        "objects": np.array([i, "a", None], dtype=object),
        "matrix": np.matrix([[i, 1]]),
        "big-endian": np.array([i, 2], ">i4"),
        "poly1d": np.poly1d([1, i]),
        "dtype": np.dtype("f4"),
    }


def _torch(i: int) -> dict[str, Any]:
    image = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
    return {
        "tensor": torch.ones(2) * i,
        "bfloat16": torch.ones(2, dtype=torch.bfloat16) * i,
        "channels_last": image,
        "image of height, width, channel": torch.rand(4, 5, 3).permute(2, 0, 1),
        "transposed": torch.arange(6).reshape(2, 3).T,
        "requires_grad": torch.ones(2, requires_grad=True),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "sparse": torch.eye(2).to_sparse(),
        "nested": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
        "quantized": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
        "Size": torch.Size([i]),
        "dtype": torch.float16,
        "device": torch.device("cpu"),
        "PackedSequence": torch.nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)]),
        "module": torch.nn.Linear(2, 2),
        "own tensor": attributed(torch.ones(2).as_subclass(Labelled), label=i),
        "tensor as a key": {torch.ones(1): i},
    }


def _pandas(i: int) -> dict[str, Any]:
    import pandas as pd

    return {
        "Timestamp": pd.Timestamp("2026-01-01 00:00:00.000000001", tz="Europe/Berlin"),
        "Timestamp of seconds": pd.Timestamp("2026-01-01").as_unit("s"),
        "Timedelta": pd.Timedelta(i, "s"),
        "NaT": pd.NaT,
        "NA": pd.NA,
        "Period": pd.Period("2026-01"),
        "Interval": pd.Interval(i, i + 1),
        "Series": pd.Series([i, 2.0], name="a"),
        "DataFrame": pd.DataFrame({"a": [i, 2], "b": ["x", None]}, index=[3, 4]),
        "Index": pd.Index(["a", "b"]),
        "Categorical": pd.Categorical(["a", "b"]),
        "Series.to_dict": pd.DataFrame({"a": [i], "b": ["x"]}).iloc[0].to_dict(),
    }


def _science(i: int) -> dict[str, Any]:
    import scipy.sparse
    import sklearn.preprocessing
    import xarray
    from PIL import Image
    from sklearn.utils import Bunch

    return {
        "csr_matrix": scipy.sparse.csr_matrix(np.eye(2) * i),
        "coo_array": scipy.sparse.coo_array(np.eye(2)),
        "Bunch": Bunch(data=np.ones(2) * i, target=i),
        "fitted scaler": sklearn.preprocessing.StandardScaler().fit(np.eye(2)),
        "DataArray": xarray.DataArray(np.ones(2), dims=["x"], coords={"x": [1, 2]}),
        "Dataset": xarray.Dataset({"a": ("x", np.ones(2))}),
        "Image": Image.new("RGB", (2, 3), (i, 0, 1)),
        "Image with a palette": Image.new("RGB", (2, 3), (i, 0, 1)).quantize(4),
    }


def _graphs(i: int) -> dict[str, Any]:
    from torch_geometric.data import Batch, Data, HeteroData

    graph = Data(x=torch.ones(2, 3) * i, edge_index=torch.tensor([[0], [1]]), name="a")
    hetero = HeteroData()
    hetero["paper"].x = torch.ones(2, 1)
    hetero["paper", "cites", "paper"].edge_index = torch.tensor([[0], [1]])
    return {
        "Data": graph,
        "Batch": Batch.from_data_list([graph, graph]),
        "HeteroData": hetero,
        "Batch of HeteroData": Batch.from_data_list([hetero, hetero]),
    }


def _medicine(i: int) -> dict[str, Any]:
    import torchio
    from monai.data import MetaTensor

    scan = MetaTensor(torch.ones(1, 2, 2) * i, affine=torch.eye(4), meta={"filename": "a"})
    image = torchio.ScalarImage(tensor=torch.ones(1, 2, 2, 2) * i)
    return {
        "MetaTensor": scan,
        "MetaTensors in a dict": {"image": scan, "label": i},
        "ScalarImage": image,
        "Subject": torchio.Subject(image=image, age=i),
    }


def _text(i: int) -> dict[str, Any]:
    import datasets
    import transformers
    from transformers.modeling_outputs import BaseModelOutput

    rows = datasets.Dataset.from_dict({"a": [[1, 2], [3, 4]], "b": ["x", "y"]})
    return {
        "BatchEncoding": transformers.BatchEncoding({"input_ids": [i, 2]}),
        "BatchFeature": transformers.BatchFeature({"pixels": np.ones(2) * i}),
        "ModelOutput": BaseModelOutput(last_hidden_state=torch.ones(2) * i),
        "row": rows[0],
        "row of tensors": rows.with_format("torch")[1],
        "Features": rows.features,
        "Dataset": rows,
    }


def _others(i: int) -> dict[str, Any]:
    import tensordict

    return {
        "TensorDict": tensordict.TensorDict({"a": torch.ones(2) * i}, [2]),
        "webdataset sample": {"__key__": "a", "jpg": b"\xff", "cls": i, "json": {"a": [i]}},
    }


#: As docs/reference/batches.md has it: np.str_ arrives as str, and single samples keep sequences
#: that torch makes lists; it counts those of a Counter twice.
DECLARED = {
    *("python: tuple, single", "python: range, single", "torch: Size, single"),
    *("numpy: str_, collated", "numpy: str_, listed", "numpy: str_, single"),
    "python: Counter, single",
}
SOURCES = (_python, _numpy, _torch, _pandas, _science, _graphs, _medicine, _text, _others)


def as_list(samples: Any) -> Any:
    return samples


MODES: dict[str, dict[str, Any]] = {
    "collated": {"batch_size": 2},
    "listed": {"batch_size": 2, "collate_fn": as_list},
    "single": {"batch_size": None},
}


class Samples:
    def __init__(self, samples: list[Any]) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        return self.samples[index]


def held(value: Any, depth: int = 0) -> Any:
    """Return all that can be seen of a value, in types that compare by `==`."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if depth > 12 or value is None or isinstance(value, (type, types.FunctionType)):
        return kind, repr(value) if depth > 12 else value
    below = functools.partial(held, depth=depth + 1)
    if isinstance(value, torch.Tensor):
        return kind, *_tensor(value, below)
    if isinstance(value, (np.ndarray, np.generic)):
        content = value.tolist() if value.dtype.hasobject else value.tobytes()
        strides = [step for step, size in zip(value.strides, value.shape, strict=True) if size > 1]
        return kind, value.dtype.str, value.shape, strides, content
    if isinstance(value, (str, int, float, complex, bytes, decimal.Decimal)):
        return kind, repr(value), _attributes(value, below)
    if hasattr(value, "to_dict") and "torch_geometric" in str(type(value).__mro__):
        others = {k: v for k, v in vars(value).items() if "store" not in k}
        return kind, below(value.to_dict()), below(others)
    if "pandas" in kind or "xarray" in kind:
        return kind, repr(value), below(value.to_dict()) if hasattr(value, "to_dict") else ()
    if isinstance(value, Mapping):
        return kind, [(below(k), below(value[k])) for k in value], _attributes(value, below)
    if isinstance(value, (list, tuple, collections.deque, collections.UserList)):
        return kind, list(map(below, value)), _attributes(value, below)
    if "PIL" in kind:
        return kind, value.mode, value.size, value.tobytes(), value.getpalette()
    return kind, _attributes(value, below) or repr(value)


def _attributes(value: Any, below: Callable[[Any], Any]) -> Any:
    found = dict(getattr(value, "__dict__", {}))
    for field in getattr(type(value), "__slots__", ()):
        if isinstance(field, str) and hasattr(value, field):
            found[field] = getattr(value, field)
    found.pop("_deprecated_key_to_warnings", None)  # a Bunch's own copy lacks it
    return [(name, below(each)) for name, each in found.items()]


def _tensor(value: Any, below: Callable[[Any], Any]) -> tuple[Any, ...]:
    if value.is_nested:
        return value.layout, [each.tolist() for each in value.unbind()]
    if value.layout is not torch.strided:
        return value.layout, value.to_dense().tolist()
    with torch._C.DisableTorchFunctionSubclass():
        plain = value.detach().as_subclass(torch.Tensor)
        numbers = plain.int_repr() if plain.is_quantized else plain
        strides = plain.stride() if numbers.numel() else ()
        seen = str(plain.dtype), tuple(plain.shape), strides, value.requires_grad
        return *seen, numbers.tolist(), _attributes(value, below)


def read(make: Callable[..., Any], samples: list[Any], **arguments: Any) -> tuple[str, Any]:
    torch.manual_seed(0)
    try:
        return "", [held(batch) for batch in make(Samples(samples), **arguments)]
    except Exception as error:  # noqa: BLE001 - either may raise anything
        return f"{type(error).__name__}: {error}", None


def outcome(samples: list[Any], mode: str, **own: Any) -> tuple[str, str]:
    theirs_error, theirs = read(torch.utils.data.DataLoader, samples, **MODES[mode])
    ours_error, ours = read(DataLoader, samples, name=f"s{id(samples)}", **MODES[mode], **own)
    if ours_error:
        return ("both raise" if theirs_error else "refused"), ours_error
    if theirs_error:
        return "beyond torch", ""
    return ("same", "") if ours == theirs else ("different", f"{ours}\nin torch\n{theirs}")


def cases() -> Iterator[tuple[str, list[Any], str]]:
    for source in SOURCES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(0)
            samples = [source(i) for i in (1, 2)]
        for name in samples[0]:
            for mode in MODES:
                yield f"{source.__name__[1:]}: {name}, {mode}", [s[name] for s in samples], mode


@pytest.mark.parametrize(("allow_pickle", "share"), [(False, 0.65), (True, 0.95)])
def test_the_share_of_batches_that_are_as_in_torch(
    allow_pickle: bool, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = class_names.is_own
    monkeypatch.setattr(class_names, "is_own", lambda m: m.__name__ == __name__ or own(m))
    found: dict[str, list[str]] = collections.defaultdict(list)
    for name, samples, mode in cases():
        kind, why = outcome(samples, mode, allow_pickle=allow_pickle)
        if name in DECLARED:
            assert kind == "different"
            kind = "declared"
        found[kind].append(name)
        if kind in ("refused", "different"):
            print(f"{kind}: {name}: {why[:1500]}")
    count = sum(map(len, found.values()))
    good = count - sum(len(found[kind]) for kind in ("refused", "declared", "different"))
    print(f"allow_pickle={allow_pickle}: as torch {good} of {count}", end="; ")
    print(", ".join(f"{kind} {len(names)}" for kind, names in found.items()))
    assert found["different"] == []
    assert good >= share * count
