"""One remote command, or shell, with the client's own input, output and terminal."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import nullcontext
from typing import Any

import asyncssh

from kedge.runtime.ssh import terminal
from kedge.runtime.ssh.command_line import SshCommand
from kedge.runtime.ssh.configuration import ClientConfiguration
from kedge.runtime.ssh.messages import OWN_FAILURE, SshFailed
from kedge.runtime.ssh.streams import BlockingStream, receive, send


async def run(connection: Any, target: ClientConfiguration, command: SshCommand) -> int:
    """Run the command to its end and return its exit code; OWN_FAILURE if a signal ended it. SshFailed."""
    text = command.command or target.options.command
    with_terminal = terminal.wanted(command.terminal, target.get("RequestTTY"), text)
    process = await _start(connection, target, text, with_terminal)
    if with_terminal:
        asyncio.get_running_loop().add_signal_handler(
            signal.SIGWINCH, lambda: process.change_terminal_size(*terminal.size())
        )
    with terminal.raw() if with_terminal else nullcontext():
        return await _connect_streams(process, no_input=bool(target.get("StdinNull")))


async def _start(connection: Any, target: ClientConfiguration, text: str | None, with_terminal: bool) -> Any:
    subsystem = text if target.get("SessionType") == "subsystem" else None
    about_terminal: dict[str, Any] = {"request_pty": False}
    if with_terminal:
        name = os.environ.get("TERM") or "dumb"
        about_terminal = {"request_pty": "force", "term_type": name, "term_size": terminal.size()}
    try:
        return await connection.create_process(
            None if subsystem else text, subsystem=subsystem, encoding=None, **about_terminal
        )
    except asyncssh.ChannelOpenError as error:
        raise SshFailed(f"channel 0: open failed: {error.reason}") from error


async def _connect_streams(process: Any, *, no_input: bool) -> int:
    loop = asyncio.get_running_loop()
    if no_input:
        process.stdin.write_eof()
    sending = None if no_input else loop.create_task(send(BlockingStream(0), process.stdin))
    outputs = [
        loop.create_task(receive(process.stdout, BlockingStream(1))),
        loop.create_task(receive(process.stderr, BlockingStream(2))),
    ]
    try:
        await asyncio.gather(*outputs)
    except OSError:  # nobody reads the output any more
        process.close()
    await process.wait_closed()
    if sending:
        sending.cancel()
    return process.exit_status if process.exit_status is not None and process.exit_status >= 0 else OWN_FAILURE
