"""A worker: computes gradients on its share of the images, with the parameters of the parameter server."""

from __future__ import annotations

import argparse
from io import BufferedRWPair

import cluster
import model
import numpy as np
import wire
from data import Digits, load

LOG_EVERY = 60  # epochs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--batch-size", type=int, required=True, help="images per worker and step")
    args = parser.parse_args()
    index, count = cluster.task_index(), cluster.task_count("worker")
    training, held_out = load()
    shard = training.pick(slice(index, None, count))
    steps = len(training.labels) // (count * args.batch_size)  # the same for all workers
    if steps == 0:
        parser.error(f"a batch of {args.batch_size} is more than this worker's {len(shard.labels)} images")
    print(f"worker {index} of {count}: {len(shard.labels)} images, {steps} steps an epoch", flush=True)
    with wire.connect(cluster.address("ps")) as connection, connection.makefile("rwb") as ps:
        parameters = train(ps, shard, args.epochs, steps, args.batch_size)
    print(f"accuracy {model.accuracy(parameters, *held_out):.3f}")


def train(ps: BufferedRWPair, shard: Digits, epochs: int, steps: int, batch_size: int) -> model.Floats:
    """Send a gradient for every batch and continue with the parameters received in return; returns the last ones."""
    random = np.random.default_rng(0)
    parameters = receive(ps)
    for epoch in range(1, epochs + 1):
        order = random.permutation(len(shard.labels))
        losses = []
        for batch in np.split(order[: steps * batch_size], steps):
            loss, gradient = model.loss_and_gradient(parameters, *shard.pick(batch))
            wire.send(ps, gradient)
            parameters = receive(ps)
            losses.append(loss)
        if epoch % LOG_EVERY == 0 or epoch == epochs:
            print(f"epoch {epoch:3} loss {np.mean(losses):.4f}", flush=True)
    return parameters


def receive(ps: BufferedRWPair) -> model.Floats:
    """The current parameters."""
    parameters = wire.receive(ps)
    if parameters is None:
        raise ConnectionError("the parameter server has gone")
    return parameters


if __name__ == "__main__":
    main()
