"""Vectors of numbers over TCP. A frame is its length in bytes (32 bits, big-endian), then little-endian float32."""

from __future__ import annotations

import socket
import time
from io import BufferedRWPair

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]

PATIENCE = 300.0  # seconds to wait for a peer, at the start and at every step
HEADER = 4  # bytes


def connect(address: tuple[str, int]) -> socket.socket:
    """Connect to `address`, which may start later than this process; OSError if it does not."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection(address, timeout=PATIENCE)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def accept(listener: socket.socket) -> socket.socket:
    """The next connection; TimeoutError if none comes."""
    listener.settimeout(PATIENCE)
    connection, _ = listener.accept()
    connection.settimeout(PATIENCE)
    return connection


def send(stream: BufferedRWPair, vector: Vector) -> None:
    """Write one frame."""
    payload = vector.astype("<f4").tobytes()
    stream.write(len(payload).to_bytes(HEADER) + payload)
    stream.flush()


def receive(stream: BufferedRWPair) -> Vector | None:
    """Read one frame; None if the peer has closed the connection. ConnectionError if it did so inside a frame."""
    header = stream.read(HEADER)
    if not header:
        return None
    size = int.from_bytes(header)
    payload = stream.read(size)
    if len(header) < HEADER or len(payload) < size:
        raise ConnectionError("the connection broke inside a frame")
    return np.frombuffer(payload, dtype="<f4").astype(np.float32)
