"""Many jobs at once share no port and no folder, and many that have been are listed at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from crowd import FOR_EVER, TOTAL, Crowd, lines_of, wait_for_epoch


@pytest.mark.long
@pytest.mark.parametrize(
    "count",
    [
        pytest.param(3, id="three"),
        pytest.param(20, id="twenty", marks=[pytest.mark.slow, pytest.mark.timeout(900)]),
    ],
)
def test_jobs_at_once_share_neither_port_nor_folder(tmp_path: Path, count: int) -> None:
    crowd = Crowd(tmp_path)
    # The first goes on until all others have come and gone.
    first = crowd.start("first", epochs=FOR_EVER)
    wait_for_epoch(first)
    others = [crowd.start(f"other-{number}", epochs=2) for number in range(count - 1)]
    for job in others:
        assert job.wait().status == "Completed", job.summary()
    assert first.status == "InProgress"
    first.stop()
    assert first.wait().status == "Stopped"

    lines = [lines_of(job) for job in others]
    for printed in lines:
        totals = [line for line in printed if line.startswith("epoch ")]
        assert totals == [f"epoch {epoch} total {TOTAL}" for epoch in range(2)]
    bases = {job: _port_base(lines_of(job)) for job in (first, *others)}
    assert bases[first] not in {bases[job] for job in others}
    folders = [crowd.folder(job) for job in (first, *others)]
    assert len({folder.resolve() for folder in folders}) == count


def _port_base(lines: list[str]) -> str:
    return next(line for line in lines if line.startswith("port base "))
