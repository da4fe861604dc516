"""A network with one hidden layer. Its parameters are one flat vector, which is easy to send and to add up."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

SHAPES = ((64, 64), (64,), (64, 10), (10,))  # weights and biases: pixels to hidden units, hidden units to digits


def initial(seed: int = 0) -> Floats:
    """Random weights, scaled to the number of inputs of their layer; biases are 0."""
    random = np.random.default_rng(seed)
    spreads = [np.sqrt(2 / shape[0]) if len(shape) == 2 else 0 for shape in SHAPES]
    return _flat([random.normal(0, spread, shape) for spread, shape in zip(spreads, SHAPES, strict=True)])


def loss_and_gradient(parameters: Floats, images: Floats, labels: Ints) -> tuple[float, Floats]:
    """Mean cross-entropy of a batch, and its gradient in the order of `parameters`."""
    weights1, bias1, weights2, bias2 = _layers(parameters)
    hidden = np.maximum(images @ weights1 + bias1, 0)
    scores = hidden @ weights2 + bias2
    scores -= scores.max(axis=1, keepdims=True)
    probabilities = np.exp(scores)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -np.log(probabilities[rows, labels] + 1e-9).mean()

    at_scores = probabilities
    at_scores[rows, labels] -= 1
    at_scores /= len(labels)
    at_hidden = (at_scores @ weights2.T) * (hidden > 0)
    gradient = _flat([images.T @ at_hidden, at_hidden.sum(axis=0), hidden.T @ at_scores, at_scores.sum(axis=0)])
    return float(loss), gradient


def accuracy(parameters: Floats, images: Floats, labels: Ints) -> float:
    """The share of images whose digit is recognised, 0 to 1."""
    weights1, bias1, weights2, bias2 = _layers(parameters)
    scores = np.maximum(images @ weights1 + bias1, 0) @ weights2 + bias2
    return float((scores.argmax(axis=1) == labels).mean())


def _layers(parameters: Floats) -> list[Floats]:
    ends = np.cumsum([np.prod(shape) for shape in SHAPES])
    return [part.reshape(shape) for part, shape in zip(np.split(parameters, ends[:-1]), SHAPES, strict=True)]


def _flat(layers: list[NDArray[Any]]) -> Floats:
    return np.concatenate([layer.ravel() for layer in layers]).astype(np.float32)
