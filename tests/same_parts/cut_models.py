"""The model lists of tests/parallel, in one process and cut in two: losses, or the refusal.

A list whose library is not installed is a row that says so.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_SCRIPT = Path(__file__).with_name("cut_on_ranks.py")
#: By the library that each needs.
_ZOOS = {
    "architectures": "torch",
    "mode_zoo": "torch",
    "nano_gpt": "torch",
    "model_zoo": "transformers",
    "peft_zoo": "peft",
    "vision_zoo": "timm",
}
_SECONDS = 3600


def cases() -> Mapping[str, Callable[[Path], Any]]:
    return {
        f"{zoo}, {ranks} stages": partial(_learned, zoo, library, ranks)
        for zoo, library in _ZOOS.items()
        for ranks in (1, 2)
    }


def _learned(zoo: str, library: str, ranks: int, folder: Path) -> Any:
    if find_spec(library) is None:
        return f"not compared: it needs {library}"
    under = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    out = folder / "out.json"
    ran = subprocess.run(
        [sys.executable, *under, str(_SCRIPT), zoo, str(out)],
        capture_output=True,
        text=True,
        timeout=_SECONDS,
    )
    return json.loads(out.read_text()) if out.exists() else {"raised": ran.stderr[-2000:]}
