"""A program in the place of docker or podman: it writes down its words, and runs nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

#: What `image inspect` prints of an image in which root runs `train`. Docker's is after the schema
#: ImageInspect of its Engine API (docs.docker.com/reference/api/engine), Podman's was recorded.
INSPECTED: dict[str, dict[str, Any]] = {
    "docker": {
        "Id": f"sha256:{'a' * 64}",
        "RepoDigests": [f"example/image@sha256:{'b' * 64}"],
        "Architecture": "amd64",
        "Os": "linux",
        "Config": {"User": "", "Entrypoint": None},
    },
    "podman": {
        "Id": "a" * 64,
        "RepoDigests": [f"localhost/numpy-image@sha256:{'b' * 64}"],
        "Architecture": "amd64",
        "Os": "linux",
        "Config": {},
    },
}
_SCRIPT = """#!/bin/sh
end=$(printf '\\037')
for word; do line="$line$word$end"; done
printf '%s\\036' "$line" >>{words} # at once: hosts start at the same time
case "$*" in
  *--password-stdin*) cat >{input} ;;
esac
case "$*" in
{answers}  "image inspect"*) cat {image} ;;
  "inspect --format {{{{.State.Running}}}}"*) echo true ;;
  "inspect --format"*) echo exited ;;
  pull*) mv {image}.absent {image} ;;
  kill*) touch {killed} ;;
  "ps --all"*) echo container ;;
  "info --format"*MemTotal*) echo 8000000000 ;;
  "info --format"*) echo {rootless} ;;
  run*"--entrypoint id"*) echo "uid=1234(app) gid=1235(app) groups=1235(app)" ;;
  run*"--entrypoint chown"*) ;;
  run*) {run} ;;
esac
"""


class FakeEngine:
    """An engine of a kind, "docker" or "podman".

    run: the shell's command in place of `run`; None: hosts run until they are killed.
    image: what `image inspect` shows of it otherwise. present: before it is pulled.
    answers: (first words, exit code, text) of other calls.
    """

    def __init__(
        self,
        folder: Path,
        kind: str = "podman",
        *,
        run: str | None = "true",
        image: Mapping[str, Any] = {},
        present: bool = True,
        rootless: bool = False,
        answers: Sequence[tuple[str, int, str]] = (),
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.program = folder / kind
        self._words, described = folder / f"{kind}.words", folder / f"{kind}.json"
        self._input = folder / f"{kind}.input"
        killed = folder / f"{kind}.killed"
        runs = f"while [ ! -e {killed} ]; do sleep 0.1; done; exit 143"
        self._words.touch()
        (described if present else folder / f"{kind}.json.absent").write_text(
            json.dumps([{**INSPECTED[kind], **image}])
        )
        branches = ""
        for number, (words, code, text) in enumerate(answers):
            said = folder / f"{kind}.said-{number}"
            said.write_text(f"{text}\n")
            branches += f'  "{words}"*) cat {said} >&{1 + (code != 0)}; exit {code} ;;\n'
        self.program.write_text(
            _SCRIPT.format(
                words=self._words,
                input=self._input,
                answers=branches,
                image=described,
                killed=killed,
                run=runs if run is None else run,
                rootless=str(rootless).lower(),
            )
        )
        self.program.chmod(0o755)

    def calls(self, verb: str = "") -> list[list[str]]:
        """The words of each call of a verb, such as "network create"; of all calls."""
        calls = [line.split("\037")[:-1] for line in self._words.read_text().split("\036")[:-1]]
        wanted = verb.split()
        return [words for words in calls if words[: len(wanted)] == wanted]

    @property
    def password(self) -> str:
        """What it was given as one, on its input."""
        return self._input.read_text()
