"""The main job of the product trains the same, to the bit, whatever isolates its hosts."""

from __future__ import annotations

import pytest
from containers import ENGINE, skip_without_image, torch_image
from digits_example import Example, Run
from needs import skip_without_isolation


def witnessed(example: Example, *options: str, epochs: int, data_hosts: int) -> Run:
    """A run of the job, with a hash of each batch."""
    run = example.run(
        "job.yaml",
        *("--set", f"hyperparameters.epochs={epochs}", "--set", "entry_point=witness.py"),
        *("--set", f"instance_groups.data_group.instance_count={data_hosts}"),
        *options,
    )
    assert run.code == 0, run.talk
    assert len(run.hashes) == 2 * (epochs + 1), "of two ranks: the epochs and the test"
    return run


def assert_same(isolated: Run, plain: Run) -> None:
    import torch

    assert isolated.hashes == plain.hashes
    assert isolated.losses == plain.losses
    weights = plain.weights()
    for name, values in isolated.weights().items():
        assert torch.equal(values, weights[name]), name


@pytest.mark.long
def test_the_same_training_where_every_host_has_a_network_of_its_own(example: Example) -> None:
    """GLOO talks over eth0, and names and ports are SageMaker's."""
    skip_without_isolation("network")
    plain, network = (
        witnessed(example, "--isolation", isolation, epochs=1, data_hosts=1)
        for isolation in ("process", "network")
    )
    assert "isolation: network" in network.talk
    assert_same(network, plain)


@pytest.mark.library("containers")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("data_hosts", [1, 2, 3])
def test_the_same_training_in_containers(example: Example, data_hosts: int) -> None:
    """Of an image that knows nothing of Launcher, with the same wheels as this machine."""
    skip_without_isolation("container")
    skip_without_image(torch_image())
    options = ("--isolation", "container", "--engine", ENGINE, "--image", torch_image())
    in_containers = witnessed(example, *options, epochs=2, data_hosts=data_hosts)
    assert "isolation: container" in in_containers.talk
    assert f"hosts run the image {torch_image()}" in in_containers.talk
    assert_same(in_containers, witnessed(example, epochs=2, data_hosts=data_hosts))
    print("\n".join(sorted(in_containers.hashes | in_containers.losses)))
