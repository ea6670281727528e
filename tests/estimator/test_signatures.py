"""The constructors name every argument: for help(), inspect, mypy and IDEs alike."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from launcher import Estimator, HuggingFace, PyTorch, TensorFlow

#: What each constructor adds.
OWN = {
    Estimator: (),
    PyTorch: (),
    TensorFlow: ("model_dir",),
    HuggingFace: ("pytorch_version", "tensorflow_version"),
}

CONSTRUCTORS = pytest.mark.parametrize("kind", list(OWN))


def parameters(kind: type[Estimator]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(kind).parameters


@CONSTRUCTORS
def test_each_argument_is_named_once_with_its_type_and_a_line_of_documentation(kind) -> None:
    named = parameters(kind)
    documentation = f"{inspect.getdoc(kind)}\n{inspect.getdoc(kind.__init__)}"
    assert {p.kind for p in named.values()} == {
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    }
    assert all(p.annotation is not inspect.Parameter.empty for p in named.values())
    assert [n for n in named if not re.search(rf"^ *{n}: \S|\b{n}:", documentation, re.M)] == []


@CONSTRUCTORS
def test_types_and_defaults_are_those_of_the_estimator(kind) -> None:
    own = parameters(Estimator)
    for name, parameter in parameters(kind).items():
        if name in OWN[kind]:
            continue
        assert parameter.annotation == own[name].annotation, name
        if (kind, name) != (TensorFlow, "entry_point"):
            assert parameter.default == own[name].default, name


#: A value of each argument that differs from its default.
VALUES: Mapping[str, Any] = {
    "hyperparameters": {"a": 1},
    "environment": {"A": "1"},
    "tags": {"a": "1"},
    "distribution": {"torch_distributed": {"enabled": True}},
    "instance_groups": [],
    "debugger_hook_config": True,
}


def value_of(name: str, annotation: str, default: Any) -> Any:
    if name in VALUES:
        return VALUES[name]
    if isinstance(default, bool) or annotation.startswith("bool"):
        return True
    if annotation.startswith("int"):
        return 7
    if annotation.startswith(("Sequence", "Metrics")):
        is_of_mappings = annotation.startswith(("Metrics", "Sequence[Mapping", "Sequence[Rule"))
        return [{"Name": "a", "Regex": "b"}] if is_of_mappings else ["a"]
    if annotation.startswith(("Mapping", "RequestPart")):
        return {"A": "1"}
    return "a"


@pytest.mark.parametrize("kind", [PyTorch, TensorFlow])
def test_what_the_frameworks_are_given_reaches_the_job(kind) -> None:
    for name, parameter in parameters(kind).items():
        if name in ("model_dir", "instance_groups", "data_service", "retry", "tracking"):
            continue
        value = value_of(name, parameter.annotation, parameter.default)
        base = {} if kind is PyTorch else {"entry_point": "train.py"}
        made, same = kind(**{**base, name: value}), Estimator(**{**base, name: value})
        assert made.spec == same.spec.replace(framework=made.spec.framework), name
        if name == "sagemaker_session":
            assert made.sagemaker_session == value
        else:
            plain = kind(**base).spec if name != "entry_point" else Estimator().spec
            assert getattr(made.spec, name) != getattr(plain, name), name


def test_a_list_is_taken_where_a_sequence_is_meant() -> None:
    named = parameters(Estimator)
    for name in ("dependencies", "subnets", "container_arguments", "security_group_ids"):
        assert isinstance(["a"], Sequence), name
        assert "Sequence[str]" in named[name].annotation or name == "dependencies"
        assert getattr(Estimator(**{name: ["a", "b"]}).spec, name) == ("a", "b")


def test_a_path_is_taken_where_a_file_is_meant(tmp_path) -> None:
    made = PyTorch(tmp_path / "train.py", source_dir=tmp_path, dependencies=[tmp_path])
    assert made.spec.entry_point == os.fspath(tmp_path / "train.py")
    assert made.spec.dependencies == (str(tmp_path),)


@CONSTRUCTORS
def test_an_argument_set_by_the_framework_is_unknown(kind) -> None:
    given = {"framework": "mxnet", "entry_point": "train.py"}
    if kind is Estimator:
        assert kind(**given).spec.framework == "mxnet"
        return
    with pytest.raises(TypeError, match="'framework' is not an argument of an Estimator"):
        kind(**given)


class Derived(PyTorch):
    """A user's own Estimator, which passes on what it is given."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__("train.py", **arguments)


def test_a_derived_estimator_names_unknown_arguments_too() -> None:
    assert Derived(max_run=60).spec.max_run == 60
    with pytest.raises(TypeError, match="did you mean 'max_run'"):
        Derived(max_runn=60)
