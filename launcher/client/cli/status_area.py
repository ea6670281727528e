"""The lines that show the state of a running job, below what its hosts print."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.client.jobs.state_text import StateText
from launcher.shared.terminal_text import printable

if TYPE_CHECKING:
    from launcher.shared.training_job_types import TrainingJobDescription

#: Progress bars and other open lines to show at once.
_OPEN_LINES = 4


class StatusArea(StateText):
    """Formats the state of a job for a terminal."""

    def lines(self, now: TrainingJobDescription, width: int) -> list[str]:
        """Return the lines for a terminal, each at most `width` characters."""
        texts = [self.head(now), *self.groups(), *self._open_lines()]
        return [_cut(printable(text, keep_styles=False), width) for text in texts]

    def sentence(self, now: TrainingJobDescription) -> str:
        """Return the state in one line, for a log."""
        return printable(super().sentence(now), keep_styles=False)

    def _open_lines(self) -> Iterator[str]:
        newest = list(self.progress.open_lines.values())[-_OPEN_LINES:]
        for line in newest:
            yield f"{line.group}/{line.host} | {printable(line.text, keep_styles=False).strip()}"


def _cut(text: str, width: int) -> str:
    from rich.cells import cell_len, set_cell_size  # rich is slow to import

    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"
