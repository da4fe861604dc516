"""The client's own input and output: blocking descriptors, each read or written by a thread.

They may be files, terminals or pipes that other processes share, so they must not be made non-blocking.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kedge.own_files import write_all

CHUNK = 1 << 18  # bytes


class BlockingStream:
    """One descriptor. A thread that hangs in it does not keep the process from exiting by os._exit."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._thread = ThreadPoolExecutor(1)

    async def read(self) -> bytes:
        """What there is to read; empty at the end, and where reading fails."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, os.read, self._fd, CHUNK)
        except OSError:
            return b""

    async def write(self, data: bytes) -> None:
        """Write everything; wait as long as the reader is slow. OSError."""
        await asyncio.get_running_loop().run_in_executor(self._thread, write_all, self._fd, data)


async def send(source: BlockingStream, writer: Any) -> None:
    """Copy until the source ends, then end the writer's side of the channel."""
    try:
        while data := await source.read():
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except (OSError, BrokenPipeError):
        return  # the other side has ended first


async def receive(reader: Any, sink: BlockingStream) -> None:
    """Copy until the channel ends. OSError where the sink is closed."""
    while data := await reader.read(CHUNK):
        await sink.write(data)
