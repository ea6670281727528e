"""A source folder to pack."""

import pytest
from source_folder import Folder


@pytest.fixture
def source(tmp_path) -> Folder:
    folder = Folder(tmp_path / "source")
    folder.write_all({"train.py": "print('hello')\n"})
    return folder
