"""Names in a checkpoint's manifest: none leads out of the checkpoint's folder."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from launcher.parallel.checkpoints import manifests

CONTENT = b"content"


def checkpoint(folder: Path, *names: str) -> Path:
    """A checkpoint of files that have this content, whatever their names."""
    contents = {"size": len(CONTENT), "sha256": hashlib.sha256(CONTENT).hexdigest()}
    folder.mkdir()
    manifest = {
        "format": manifests.FORMAT,
        "step": 3,
        "degrees": {"data": 1},
        "tied": {},
        "files": dict.fromkeys(names, contents),
    }
    (folder / manifests.NAME).write_text(json.dumps(manifest))
    return folder


@pytest.mark.parametrize(
    "name",
    ["../outside", "/outside", "a/../../outside", "a/./b", "", "a//b", "nul\0byte", ".."],
)
def test_a_name_that_leaves_the_folder_is_no_name(tmp_path: Path, name: str) -> None:
    (tmp_path / "outside").write_bytes(CONTENT)
    name = name.replace("/outside", f"{tmp_path}/outside") if name == "/outside" else name
    problem = manifests.find_problem(checkpoint(tmp_path / "step-3", name))
    assert problem is not None
    assert problem.startswith("manifest.json is damaged: ")
    assert "is no name of a file below the checkpoint's folder" in problem


@pytest.mark.parametrize("name", ["__0_0.distcp", "part/__0_0.distcp", "..data", "a..b"])
def test_other_names_are_read(tmp_path: Path, name: str) -> None:
    folder = checkpoint(tmp_path / "step-3", name)
    assert manifests.find_problem(folder) == f"{name} is missing"
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(CONTENT)
    assert manifests.find_problem(folder) is None
