"""A program in the place of a container engine, which has an image and records how it is called."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PROGRAM = """\
#!{python}
import json, sys
from pathlib import Path
folder = Path({folder!r})
words = sys.argv[1:]
stdin = sys.stdin.read() if "--password-stdin" in words else ""
with (folder / "calls").open("a") as calls:
    calls.write(json.dumps([words, stdin]) + "\\n")
answers = json.loads((folder / "answers.json").read_text())
code, said = next((a[1:] for a in answers if words[: len(a[0])] == a[0]), (0, ""))
print(said, file=sys.stderr if code else sys.stdout)
sys.exit(code)
"""


@dataclass(frozen=True, kw_only=True)
class AnsweringEngine:
    """program: its path, whose name is an engine's."""

    program: Path

    def calls(self, first: str) -> list[tuple[list[str], str]]:
        """The words after a first one, and the input, of each call."""
        lines = (self.program.parent / "calls").read_text().splitlines()
        return [(words, stdin) for words, stdin in map(json.loads, lines) if words[0] == first]


def answering_engine(
    folder: Path,
    *,
    image: Mapping[str, Any] | None,
    answers: Sequence[tuple[Sequence[str], int, str]] = (),
) -> AnsweringEngine:
    """An engine that has an image, as `image inspect` shows it, and answers (words, code, text)."""
    found = {"Id": "a" * 64, "Os": "linux", "Architecture": "amd64", "Config": {}, **(image or {})}
    inspected = [["image", "inspect"], 0 if image is not None else 125, json.dumps([found])]
    folder.mkdir(exist_ok=True)
    (folder / "answers.json").write_text(json.dumps([*answers, inspected]))
    program = folder / "podman"
    program.write_text(_PROGRAM.format(python=sys.executable, folder=str(folder)))
    program.chmod(0o755)
    return AnsweringEngine(program=program)
