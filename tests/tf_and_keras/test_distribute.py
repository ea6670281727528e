"""tf.data's service as a script asks for it: without a job, and with wrong arguments."""

from __future__ import annotations

import pytest

from launcher.errors import DataError

pytestmark = [pytest.mark.library("tensorflow"), pytest.mark.long]


def test_outside_a_job_the_dataset_is_unchanged() -> None:
    import tensorflow as tf

    from launcher.data.tf import distribute

    dataset = tf.data.Dataset.range(2)
    assert distribute(dataset) is dataset


def test_an_unknown_sharding_is_refused_with_those_that_there_are() -> None:
    import tensorflow as tf

    from launcher.data.tf import distribute

    words = "sharding is 'static'; it must be one of auto, file, data, dynamic"
    with pytest.raises(DataError, match=words):
        distribute(tf.data.Dataset.range(2), sharding="static")


@pytest.mark.parametrize("timeout", [None, 0, -1, float("nan"), "10"])
def test_a_timeout_that_is_no_time_is_refused(timeout: object) -> None:
    import tensorflow as tf

    from launcher.data.tf import distribute

    with pytest.raises(DataError, match=r"timeout is .*; it must be a number of seconds above 0"):
        distribute(tf.data.Dataset.range(2), timeout=timeout)
