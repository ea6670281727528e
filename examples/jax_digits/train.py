"""Train a small network on the digits in plain JAX: data parallel over the train group's hosts."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from launcher.data import DataLoader

SIZES = (64, 128, 10)


def logits(weights, images):
    hidden = jnp.maximum(images.reshape(len(images), -1) @ weights["in"] + weights["shift"], 0)
    return hidden @ weights["out"]


def loss_of(weights, images, labels):
    scores = jax.nn.log_softmax(logits(weights, images))
    return -jnp.take_along_axis(scores, labels[:, None], axis=1).mean()


@jax.jit
def step(weights, momentum, images, labels, rate):
    """One step on the batches of all hosts; JAX sums the gradients over them."""
    loss, gradients = jax.value_and_grad(loss_of)(weights, images, labels)
    momentum = jax.tree.map(lambda old, new: 0.9 * old + new, momentum, gradients)
    weights = jax.tree.map(lambda old, change: old - rate * change, weights, momentum)
    return weights, momentum, loss


def initial_weights(seed: int = 0) -> dict[str, np.ndarray]:
    draws = np.random.default_rng(seed)
    first, middle, last = SIZES
    return {
        "in": draws.normal(size=(first, middle), scale=first**-0.5).astype(np.float32),
        "shift": np.zeros(middle, np.float32),
        "out": draws.normal(size=(middle, last), scale=middle**-0.5).astype(np.float32),
    }


def accuracy(weights, loader: DataLoader) -> float:
    """The share of right answers over the samples of all hosts."""
    counts = np.zeros(2, np.int32)
    for images, labels in loader:
        answers = np.asarray(logits(weights, images)).argmax(axis=1)
        counts += (int((answers == labels).sum()), len(labels))
    right, seen = multihost_utils.process_allgather(counts).reshape(-1, 2).sum(axis=0)
    return float(right / seen)


def main(args: argparse.Namespace) -> None:
    jax.distributed.initialize(  # it reads the coordinator's address itself
        num_processes=int(os.environ["JAX_NUM_PROCESSES"]),
        process_id=int(os.environ["JAX_PROCESS_ID"]),
    )
    rank = jax.process_index()
    mesh = Mesh(np.array(jax.devices()), ("hosts",))
    whole = NamedSharding(mesh, PartitionSpec())
    split = NamedSharding(mesh, PartitionSpec("hosts"))
    train = DataLoader(
        "pipeline:train_set", args.batch_size, shuffle=True, drop_last=True, tensors=False
    )
    test = DataLoader("pipeline:test_set", args.batch_size, tensors=False)
    weights = jax.device_put(initial_weights(), whole)
    momentum = jax.tree.map(jnp.zeros_like, weights)
    for epoch in range(args.epochs):
        losses = []
        for batch in train:
            images, labels = (jax.make_array_from_process_local_data(split, b) for b in batch)
            weights, momentum, loss = step(weights, momentum, images, labels, args.lr)
            losses.append(float(loss))
        print(f"epoch={epoch} rank={rank} train_loss={np.mean(losses):.6f}", flush=True)
    local = jax.tree.map(lambda each: np.asarray(each.addressable_data(0)), weights)
    share = accuracy(local, test)
    if rank == 0:
        print(f"test_accuracy={share:.4f}", flush=True)
        np.savez(Path(os.environ["SM_MODEL_DIR"]) / "model.npz", **local)
    jax.distributed.shutdown()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=16, help="samples per host and step")
    parser.add_argument("--lr", type=float, default=0.02)
    main(parser.parse_args())
