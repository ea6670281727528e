"""What a job may say of parallel training is what there is."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from launcher import shared
from launcher.parallel import COMPRESSIONS, Precision
from launcher.shared import RankPlacement


def test_the_words_of_a_job_are_those_of_its_ranks() -> None:
    assert tuple(each.value for each in RankPlacement) == shared.PLACEMENTS
    assert tuple(each.value for each in Precision) == shared.PRECISIONS
    assert tuple(COMPRESSIONS) == shared.COMPRESSIONS
