"""The examples' own files, as a test reads them."""

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
GRPC_LOADER = Path(__file__).parents[2] / "examples" / "grpc_loader"
GRPC_MODULES = ("protocol", "dataset", "server", "loader")


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"digits_{name}", DIGITS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def prepare():
    pytest.importorskip("sklearn", reason="the example needs the extra 'examples'")
    return _load("prepare").prepare


@pytest.fixture(scope="session")
def pipeline():
    pytest.importorskip("PIL", reason="the example needs the extra 'examples'")
    return _load("pipeline")


@pytest.fixture(scope="session")
def images(prepare, tmp_path_factory):
    """The folder of the channel, written once."""
    folder = tmp_path_factory.mktemp("digits") / "data"
    assert prepare(folder)
    return folder


@pytest.fixture
def channel(images, monkeypatch):
    """The images, where a host of the job finds them."""
    monkeypatch.setenv("SM_CHANNEL_DIGITS", str(images))
    return images


@pytest.fixture(scope="module")
def grpc_example() -> Iterator[SimpleNamespace]:
    """The modules of the gRPC example, under their own names."""
    for package in ("grpc", "sklearn", "PIL", "torch"):
        pytest.importorskip(package, reason="the example needs the extras 'examples' and 'torch'")
    sys.path.insert(0, str(GRPC_LOADER))
    yield SimpleNamespace(**{name: importlib.import_module(name) for name in GRPC_MODULES})
    sys.path.remove(str(GRPC_LOADER))
    for name in GRPC_MODULES:
        del sys.modules[name]
