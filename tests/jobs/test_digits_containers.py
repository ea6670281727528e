"""The main job of the product in containers of an image that knows nothing of Launcher."""

from __future__ import annotations

import pytest
from containers import ENGINE, skip_without_image, torch_image
from digits_example import Example
from needs import skip_without_isolation

pytestmark = [pytest.mark.library("containers"), pytest.mark.timeout(1200)]
WITNESSED = ("--set", "hyperparameters.epochs=2", "--set", "entry_point=witness.py")


@pytest.mark.parametrize("data_hosts", [1, 2, 3])
def test_the_same_training_as_on_this_machine(example: Example, data_hosts: int) -> None:
    """With the same wheels not a bit is different, whatever isolates the hosts that prepare."""
    import torch

    skip_without_isolation("container")
    skip_without_image(torch_image())
    hosts = (*WITNESSED, "--set", f"instance_groups.data_group.instance_count={data_hosts}")
    options = ("--isolation", "container", "--engine", ENGINE, "--image", torch_image())
    in_containers, plain = (
        example.run("job.yaml", *hosts, *options),
        example.run("job.yaml", *hosts),
    )
    assert (in_containers.code, plain.code) == (0, 0), in_containers.talk + plain.talk
    assert "isolation: container" in in_containers.talk
    assert f"hosts run the image {torch_image()}" in in_containers.talk
    assert len(in_containers.hashes) == 2 * 3, "of two ranks: two epochs and the test"
    assert in_containers.hashes == plain.hashes
    assert in_containers.losses == plain.losses
    weights = plain.weights()
    for name, values in in_containers.weights().items():
        assert torch.equal(values, weights[name]), name
    print("\n".join(sorted(in_containers.hashes | in_containers.losses)))
