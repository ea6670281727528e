"""Each file of bad/ is a wrong job; the comment at its top is all that Launcher says about it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from launcher.client.request import find_limits, read_job
from launcher.client.spec import check
from launcher.errors import SpecError
from launcher.shared import PartitionFile

BAD = Path(__file__).parent / "bad"


@dataclass(frozen=True)
class Folder:
    """The files that travel: all of a folder, or only one of them."""

    root: Path
    only: str | None = None
    partition_file: str | None = None

    def exists(self, path: str) -> bool:
        return self.only in (None, path) and (self.root / path).is_file()

    @property
    def paths(self) -> list[str]:
        found = (str(path.relative_to(self.root)) for path in self.root.rglob("*"))
        return [path for path in found if self.exists(path)]

    def read_text(self, path: str) -> str:
        return (self.root / path).read_text()

    @property
    def partition(self) -> PartitionFile | None:
        return PartitionFile.read(Path(self.partition_file)) if self.partition_file else None


def load_and_check(path: Path) -> None:
    spec = read_job(path)
    if spec.source_dir:
        cut = getattr(spec.distribution, "partition_file", None)
        check(spec, Folder(Path(spec.source_dir), partition_file=cut), limits=find_limits)
    else:
        script = Path(spec.entry_point)
        check(spec, Folder(script.parent, only=script.name), limits=find_limits)


def expected(path: Path) -> str:
    lines = path.read_text().splitlines()
    return "\n".join(line.removeprefix("# ") for line in lines if line.startswith("# "))


@pytest.mark.parametrize("path", sorted(BAD.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_wrong_job_is_refused_with_cause_place_and_fix(path: Path) -> None:
    with pytest.raises(SpecError) as raised:
        load_and_check(path)

    assert str(raised.value).replace(f"{BAD}/", "") == expected(path)


def test_the_wrong_jobs_are_wrong_in_different_ways() -> None:
    said = [expected(path) for path in BAD.glob("*.yaml")]

    assert len(said) >= 20
    assert len(set(said)) == len(said)
