"""Programs of an ssh session, without a client."""

from __future__ import annotations

import asyncio
import os

from kedge.runtime.ssh.remote_program import RemoteProgram

BLOCK = bytes(1 << 20)


class Channel:
    """A channel that delivers more input, and its end, while it is resumed, as asyncssh does."""

    def __init__(self) -> None:
        self.program: RemoteProgram
        self.printed = b""
        self.code: int | None = None
        self._later = [BLOCK, BLOCK]

    def write(self, data: bytes, datatype: int | None = None) -> None:
        self.printed += data

    def write_eof(self) -> None:
        """It is not used here."""

    def exit(self, status: int) -> None:
        self.code = status

    def exit_with_signal(self, name: str, core_dumped: bool = False, msg: str = "", lang: str = "") -> None:
        self.code = -1

    def pause_reading(self) -> None:
        """The program is slow."""

    def resume_reading(self) -> None:
        if self._later:
            self.program.feed(self._later.pop())
            if not self._later:
                self.program.end_input()


def test_input_that_arrives_while_earlier_input_is_written_is_not_lost() -> None:
    async def count() -> Channel:
        channel = Channel()
        channel.program = RemoteProgram(channel)
        channel.program.start(["sh", "-c", "wc -c"], os.environ, "/", None)
        channel.program.feed(BLOCK)
        while channel.code is None:
            await asyncio.sleep(0.01)
            channel.program.look()
        return channel

    done = asyncio.run(asyncio.wait_for(count(), 60))
    assert (int(done.printed), done.code) == (3 * len(BLOCK), 0)
