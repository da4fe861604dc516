"""The parameter server: averages the gradients of all workers, takes a step, sends the new parameters to all."""

from __future__ import annotations

import argparse
import socket
from contextlib import ExitStack
from io import BufferedRWPair

import cluster
import model
import numpy as np
import wire


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lr", type=float, required=True, help="learning rate")
    lr = parser.parse_args().lr
    host, port = cluster.address("ps")
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server((host, port)))
        print(f"parameter server at {host}:{port}", flush=True)
        connections = [stack.enter_context(wire.accept(listener)) for _ in range(cluster.task_count("worker"))]
        steps = serve([stack.enter_context(connection.makefile("rwb")) for connection in connections], lr)
    print(f"{steps} steps served")


def serve(workers: list[BufferedRWPair], lr: float) -> int:
    """Train until the workers leave; returns the number of steps. ConnectionError if one leaves before the others."""
    parameters = model.initial()
    steps = 0
    while True:
        for worker in workers:
            wire.send(worker, parameters)
        gradients = [gradient for worker in workers if (gradient := wire.receive(worker)) is not None]
        if not gradients:
            return steps
        if len(gradients) < len(workers):
            raise ConnectionError("a worker left before the others")
        parameters -= np.float32(lr) * np.mean(gradients, axis=0)
        steps += 1


if __name__ == "__main__":
    main()
