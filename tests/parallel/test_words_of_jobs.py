"""What a job may say of parallel training is what there is."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from launcher import contract
from launcher.parallel.degrees import Placement
from launcher.parallel.gradients import COMPRESSIONS
from launcher.parallel.precision import Precision


def test_the_words_of_a_job_are_those_of_its_ranks() -> None:
    assert tuple(each.value for each in Placement) == contract.PLACEMENTS
    assert tuple(each.value for each in Precision) == contract.PRECISIONS
    assert tuple(COMPRESSIONS) == contract.COMPRESSIONS
