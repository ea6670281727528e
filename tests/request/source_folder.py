"""A folder with the source of a job."""

from pathlib import Path
from typing import Any

from launcher.client.spec import JobSpec


class Folder:
    """Writes files below a root; a value of None makes a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, **files: str) -> None:
        self.write_all(files)

    def write_all(self, files: dict[str, str]) -> None:
        for path, text in files.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text)

    def spec(self, **fields: Any) -> JobSpec:
        fields = {"instance_type": "local", "instance_count": 1, **fields}
        return JobSpec(entry_point="train.py", source_dir=str(self.root), **fields)
