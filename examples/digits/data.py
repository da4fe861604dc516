"""1797 images of handwritten digits, 8 by 8 pixels, that come with scikit-learn."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from model import Floats, Ints
from sklearn.datasets import load_digits

HELD_OUT = 360  # images that no worker trains on


class Digits(NamedTuple):
    """Images of shape (n, 64), values 0 to 1, and their digits."""

    images: Floats
    labels: Ints

    def pick(self, which: slice | Ints) -> Digits:
        """A subset of the images, by a slice or by numbers."""
        return Digits(self.images[which], self.labels[which])


def load() -> tuple[Digits, Digits]:
    """Training set and held-out set, the same in every task."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    digits = Digits((images / 16).astype(np.float32), labels)
    return digits.pick(order[HELD_OUT:]), digits.pick(order[:HELD_OUT])
