"""The main job of the product where every host has a network of its own."""

from __future__ import annotations

import pytest
from digits_example import Example
from needs import skip_without_isolation

SHORT = (
    *("--set", "hyperparameters.epochs=1", "--set", "entry_point=witness.py"),
    *("--set", "instance_groups.data_group.instance_count=1"),
)


@pytest.mark.long
def test_the_same_training_in_every_isolation(example: Example) -> None:
    """GLOO talks over eth0, names and ports are SageMaker's, and not a bit is different."""
    import torch

    skip_without_isolation("network")
    plain, network = (
        example.run("job.yaml", *SHORT, "--isolation", isolation)
        for isolation in ("process", "network")
    )
    assert (plain.code, network.code) == (0, 0), plain.talk + network.talk
    assert "isolation: network" in network.talk
    assert len(network.hashes) == 2 * 2
    assert network.hashes == plain.hashes
    assert network.losses == plain.losses
    for name, weights in network.weights().items():
        assert torch.equal(weights, plain.weights()[name]), name
