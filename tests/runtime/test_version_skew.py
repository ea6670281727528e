"""A difference between hosts that prepare and hosts that train is an event, once."""

from __future__ import annotations

import pytest

from launcher.runtime import VersionSkew, find_versions
from launcher.shared import Role

GROUPS = {"algo-1": "gpus", "algo-2": "gpus", "algo-3": "cpus", "algo-4": "servers"}
ROLES = {"gpus": Role.TRAIN, "cpus": Role.DATA, "servers": Role.COMMAND}


def events(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capsys.readouterr().err.splitlines() if "versions_differ" in line]


def test_each_difference_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    comparison = VersionSkew(groups=GROUPS, roles=ROLES)
    comparison.record("algo-1", {"python": "3.11.7", "numpy": "1.26.4"})
    assert events(capsys) == []
    comparison.record("algo-3", {"python": "3.11.7", "numpy": "2.0.0", "pillow": "10.0"})
    (told,) = events(capsys)
    assert "package=numpy" in told
    assert '{"cpus":"2.0.0","gpus":"1.26.4"}' in told
    comparison.record("algo-2", {"python": "3.11.7", "numpy": "1.26.4"})
    assert events(capsys) == []


def test_hosts_of_one_role_and_packages_of_one_side_are_not_compared(
    capsys: pytest.CaptureFixture[str],
) -> None:
    comparison = VersionSkew(groups=GROUPS, roles=ROLES)
    comparison.record("algo-1", {"numpy": "1.26.4", "torch": "2.4"})
    comparison.record("algo-2", {"numpy": "2.0.0"})
    comparison.record("algo-3", {"pillow": "10.0"})
    assert events(capsys) == []


def test_what_the_module_of_a_dataset_imports_is_found_without_importing_it(tmp_path) -> None:
    (tmp_path / "pipeline").mkdir()
    (tmp_path / "pipeline" / "__init__.py").write_text(
        "import json, yaml\nfrom os import path\nfrom . import other\n"
        "def f():\n    import no_such_package\nraise SystemExit\n"
    )
    found = find_versions(tmp_path, ("pipeline:train_set",))
    assert {"python", "numpy", "PyYAML"} <= found.keys()
    assert not {"json", "os", "no_such_package", "other"} & found.keys()
