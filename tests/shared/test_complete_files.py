"""Files that appear whole, with the same bytes on every machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

WRITE = r"""
import sys
from pathlib import Path
from launcher.shared import complete_files
if sys.argv[2] == "named":
    complete_files._write_unnamed = lambda *_: False
complete_files.write_complete(Path(sys.argv[1]), "caf\u00e9 \u20ac")
"""


def test_files_are_utf_8_whatever_the_locale(tmp_path: Path) -> None:
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for kind in ("unnamed", "named"):
        file = tmp_path / kind
        command = [sys.executable, "-c", WRITE, str(file), kind]
        subprocess.run(command, env={**os.environ, **locale}, check=True)
        assert file.read_text(encoding="utf-8") == "caf\u00e9 \u20ac"
