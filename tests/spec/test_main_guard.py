"""A script that data hosts would import has a main guard, or the job is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.client.request import SourceTree
from launcher.client.spec import DataService, InstanceGroup, JobSpec, check
from launcher.errors import SpecError

SCRIPT = """
class Digits(list):
    pass

def collate(samples):
    return samples

"""
GROUPS = (InstanceGroup("cpu", "ml.c5.xlarge"), InstanceGroup("gpu", "ml.g4dn.xlarge"))


def job(folder: Path, text: str, script: str = "train.py", **fields: object) -> JobSpec:
    (folder / script).parent.mkdir(exist_ok=True)
    (folder / script).write_text(text)
    (folder / "pipeline.py").write_text("def train_set():\n    return [1]\n")
    fields = {"instance_groups": GROUPS, "data_service": DataService(), **fields}
    return JobSpec(entry_point=script, source_dir=str(folder), **fields)  # type: ignore[arg-type]


REFUSED = {
    "class": "from launcher.data import DataLoader\nDataLoader(Digits)",
    "renamed": "from launcher.data import DataLoader as Loader\nLoader(Digits)",
    "module": "import launcher.data\nlauncher.data.DataLoader(dataset=Digits)",
    "module renamed": "from launcher import data\ndata.DataLoader(Digits)",
    "text": 'from launcher.data import DataLoader\nDataLoader("train:Digits(size=3)")',
    "in a function": "def main():\n    from launcher import data\n    data.DataLoader(Digits)",
    "collate_fn": (
        'from launcher.data import DataLoader\nDataLoader("pipeline:train_set", collate_fn=collate)'
    ),
}


@pytest.mark.parametrize("use", REFUSED)
def test_code_of_the_script_needs_a_main_guard(tmp_path: Path, use: str) -> None:
    bare = job(tmp_path, SCRIPT + REFUSED[use])
    with pytest.raises(SpecError, match=r"of the training script, which has no main guard"):
        check(bare, SourceTree(bare))
    guard = '\nif __name__ == "__main__":\n    pass\n'
    guarded = job(tmp_path, SCRIPT + REFUSED[use] + guard)
    assert check(guarded, SourceTree(guarded)) == ()


def test_a_module_beside_a_script_in_a_folder_may_be_the_script(tmp_path: Path) -> None:
    for module in ("train", "src.train"):
        loader = f'from launcher.data import DataLoader\nDataLoader("{module}:Digits")'
        spec = job(tmp_path, SCRIPT + loader, "src/train.py")
        with pytest.raises(SpecError, match=r"src/train.py, line 9, names Digits"):
            check(spec, SourceTree(spec))


LEFT_ALONE = {
    "torch's loader": "from torch.utils.data import DataLoader\nDataLoader(Digits)",
    "a class of a module": (
        "from launcher.data import DataLoader\nimport pipeline\nDataLoader(pipeline.train_set)"
    ),
    "a name of a module": 'from launcher.data import DataLoader\nDataLoader("pipeline:train_set")',
}


@pytest.mark.parametrize("use", LEFT_ALONE)
def test_other_code_needs_none(tmp_path: Path, use: str) -> None:
    spec = job(tmp_path, SCRIPT + LEFT_ALONE[use])
    assert check(spec, SourceTree(spec)) == ()


def test_without_data_hosts_the_script_is_not_imported(tmp_path: Path) -> None:
    served = DataService(datasets=("pipeline:train_set",))
    spec = job(tmp_path, SCRIPT + REFUSED["class"], instance_groups=GROUPS[1:], data_service=served)
    assert check(spec, SourceTree(spec)) == ()
