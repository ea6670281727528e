"""Which group trains, and which prepares data."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.client.spec import InstanceGroup, infer_roles
from launcher.errors import SpecError
from launcher.shared import Lifetime, Ready, Role

CPU, GPU, TRAINIUM, NEW_GPU = "ml.c5.2xlarge", "ml.g4dn.xlarge", "ml.trn1.2xlarge", "ml.g9.xlarge"


@pytest.mark.parametrize(
    ("groups", "roles"),
    [
        pytest.param([("any", CPU)], {"any": "train"}, id="a single group trains"),
        pytest.param([("data", CPU)], {"data": "train"}, id="whatever it is called"),
        pytest.param(
            [("a", CPU), ("b", GPU)], {"a": "data", "b": "train"}, id="the only accelerators train"
        ),
        pytest.param(
            [("a", TRAINIUM), ("b", CPU)], {"a": "train", "b": "data"}, id="Trainium is one"
        ),
        pytest.param(
            [("a", CPU), ("b", NEW_GPU)],
            {"a": "data", "b": "train"},
            id="a type too new for the catalogue",
        ),
        pytest.param(
            [("data_group", CPU), ("dnn_group", CPU)],
            {"data_group": "data", "dnn_group": "train"},
            id="names say so",
        ),
        pytest.param(
            [("preprocess", "local"), ("train", "local")],
            {"preprocess": "data", "train": "train"},
            id="names on this machine",
        ),
        pytest.param(
            [("cpu_1", CPU), ("cpu_2", CPU), ("gpu", GPU)],
            {"cpu_1": "data", "cpu_2": "data", "gpu": "train"},
            id="two data groups",
        ),
        pytest.param(
            [("data_gpu_decoder", GPU, Role.DATA), ("x", CPU, Role.TRAIN)],
            {"data_gpu_decoder": "data", "x": "train"},
            id="a given role wins",
        ),
        pytest.param(
            [("a", CPU), ("b", GPU, Role.TRAIN)],
            {"a": "data", "b": "train"},
            id="beside a given train group",
        ),
    ],
)
def test_a_clear_role_is_inferred(groups: list[tuple[str, ...]], roles: dict[str, str]) -> None:
    inferred = infer_roles([_group(*group) for group in groups], has_data_service=True)

    assert {name: role.value for name, role in inferred.items()} == roles


@pytest.mark.parametrize(
    "groups",
    [
        pytest.param([("a", CPU), ("b", CPU)], id="nothing says it"),
        pytest.param([("a", GPU), ("b", GPU)], id="both could train"),
        pytest.param([("data", GPU), ("b", CPU)], id="name against type"),
        pytest.param([("train_data", CPU), ("gpu", GPU)], id="name against itself"),
    ],
)
def test_an_unclear_role_is_asked_for(groups: list[tuple[str, ...]]) -> None:
    with pytest.raises(SpecError, match="not clear") as raised:
        infer_roles([_group(*group) for group in groups], has_data_service=True)
    assert 'add "role: train" or "role: data"' in raised.value.problems[0].fix


SERVER = InstanceGroup("data_group", GPU, 2, command=("python", "server.py"))


@pytest.mark.parametrize(
    "others",
    [
        pytest.param([("x", CPU)], id="the only other group trains"),
        pytest.param([("a", CPU), ("x", GPU)], id="its accelerators do not count"),
        pytest.param([("cpu", CPU), ("x", CPU, Role.TRAIN)], id="nor its name"),
    ],
)
def test_a_group_with_a_command_runs_it(others: list[tuple[str, ...]]) -> None:
    roles = infer_roles([SERVER, *(_group(*group) for group in others)], has_data_service=True)

    assert roles["data_group"] is Role.COMMAND
    assert roles["x"] is Role.TRAIN


def test_a_command_alone_does_not_train() -> None:
    assert infer_roles([SERVER]) == {"data_group": Role.COMMAND}


# Rule by rule, as in docs/reference/groups.md ---------------------------------------------------

CPU_DATA, GPU_DNN = ("data_group", CPU), ("dnn_group", GPU)


@pytest.mark.parametrize(
    ("groups", "fields", "roles"),
    [
        pytest.param(
            [("a", CPU, Role.SCRIPT), ("b", GPU, Role.TRAIN)], {}, ["script", "train"], id="1 role"
        ),
        pytest.param([SERVER, ("b", CPU)], {}, ["command", "train"], id="2 command"),
        pytest.param(
            [CPU_DATA, GPU_DNN], {"has_data_service": True}, ["data", "train"], id="3 data service"
        ),
        pytest.param(
            [("data", CPU), ("x", GPU, Role.DATA)],
            {"runs_script": False, "scope": ["data"]},
            ["train", "data"],
            id="3 task",
        ),
        pytest.param([("data_group", CPU)], {}, ["train"], id="4 the only group"),
        pytest.param([SERVER, ("a", CPU)], {}, ["command", "train"], id="4 beside commands"),
        pytest.param([CPU_DATA, GPU_DNN], {}, ["script", "script"], id="5 two groups"),
        pytest.param([("a", CPU), ("b", CPU)], {}, ["script", "script"], id="5 of any name"),
        pytest.param(
            [SERVER, ("a", CPU), ("b", GPU)],
            {},
            ["command", "script", "script"],
            id="5 and command",
        ),
        pytest.param(
            [("t", GPU, Role.TRAIN), ("a", CPU), ("b", CPU)],
            {},
            ["train", "script", "script"],
            id="5 beside a role",
        ),
        pytest.param(
            [CPU_DATA, GPU_DNN], {"scope": ["dnn_group"]}, ["script", "script"], id="5 and a scope"
        ),
        pytest.param(
            [("data_1", CPU), ("b", CPU)],
            {"has_data_service": True, "scope": ["b"]},
            ["data", "train"],
            id="3 the distribution's group trains",
        ),
    ],
)
def test_the_rules_decide_in_order(
    groups: list[Any], fields: dict[str, Any], roles: list[str]
) -> None:
    made = [group if isinstance(group, InstanceGroup) else _group(*group) for group in groups]

    assert [role.value for role in infer_roles(made, **fields).values()] == roles


def test_the_unclear_case_names_all_three_ways() -> None:
    with pytest.raises(SpecError, match='what group "data_group" does') as raised:
        infer_roles([_group("data_group", CPU), _group("dnn_group", GPU, Role.TRAIN)])
    fix = raised.value.problems[0].fix
    assert "role: script" in fix
    assert "command" in fix
    assert "data_service" in fix


def test_signs_lifetimes_and_roles_may_be_given_as_plain_values() -> None:
    plain: dict[str, Any] = {"ready": {"port": 80}, "lifetime": "own", "role": "data"}
    group = InstanceGroup("a", CPU, 1, command=["serve"], **plain)
    assert (group.command, group.ready) == (("serve",), Ready(port=80))
    assert (group.lifetime, group.role) == (Lifetime.OWN, Role.DATA)


@pytest.mark.parametrize(
    ("fields", "fix"),
    [
        pytest.param({"ready": {"prot": 80}}, 'did you mean "port"', id="sign"),
        pytest.param({"lifetime": "trian"}, 'write "train"', id="lifetime"),
        pytest.param({"role": "trian"}, 'write "train"', id="role"),
    ],
)
def test_a_misspelled_value_is_reported_at_once(fields: dict[str, Any], fix: str) -> None:
    with pytest.raises(SpecError, match=fix):
        InstanceGroup("a", CPU, command=("serve",), **fields)


def _group(name: str, instance_type: str, role: Role | None = None) -> InstanceGroup:
    return InstanceGroup(name, instance_type, 1, role)
