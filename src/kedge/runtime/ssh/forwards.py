"""Port forwarding: -L, -R, -D and -W."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import asyncssh

from kedge.runtime.ssh.command_line import UsageError, port
from kedge.runtime.ssh.configuration import ClientConfiguration
from kedge.runtime.ssh.messages import SshFailed
from kedge.runtime.ssh.streams import BlockingStream, receive, send

_ANYWHERE = ("*", "")


class ForwardEnd:
    """One end of a forwarding: a port of a host, or a path."""

    def __init__(self, text: str, host: str) -> None:
        self.path = text if "/" in text else None
        before, _, number = text.rpartition(":")
        self.host = before.strip("[]") if before or ":" in text else host
        self.port = 0 if self.path else _port(number)


async def start(connection: Any, target: ClientConfiguration, show: Callable[[str], None]) -> None:
    """Start all forwardings of the configuration. SshFailed where one cannot be started and ExitOnForwardFailure is
    set; else the failure is only shown."""
    if target.get("ClearAllForwardings"):
        return
    bind = "" if target.get("GatewayPorts") else "localhost"
    kinds = {"LocalForward": _local, "RemoteForward": _remote, "DynamicForward": _dynamic}
    for name, begin in kinds.items():
        for value in target.get(name, []):
            try:
                await begin(connection, value, bind)
            except (OSError, asyncssh.Error) as error:
                _failed(name, value, error, target, show)


async def stdio(connection: Any, text: str) -> int:
    """Connect stdin and stdout with a port that the server reaches; return the exit code. SshFailed."""
    place = ForwardEnd(text, "")
    if not place.host or not place.port:
        raise UsageError(f"Bad stdio forwarding specification '{text}'")
    try:
        reader, writer = await connection.open_connection(place.host, place.port, encoding=None)
    except asyncssh.ChannelOpenError as error:
        raise SshFailed(f"channel 0: open failed: {error.reason}\nstdio forwarding failed") from error
    sending = asyncio.ensure_future(send(BlockingStream(0), writer))
    await receive(reader, BlockingStream(1))
    sending.cancel()
    return 0


async def _local(connection: Any, value: str, bind: str) -> None:
    listen, connect = _both(value, bind)
    here, there = (listen.host, listen.port), (connect.host, connect.port)
    if listen.path and connect.path:
        await connection.forward_local_path(listen.path, connect.path)
    elif listen.path:
        await connection.forward_local_path_to_port(listen.path, *there)
    elif connect.path:
        await connection.forward_local_port_to_path(*here, connect.path)
    else:
        await connection.forward_local_port(*here, *there)


async def _remote(connection: Any, value: str, bind: str) -> None:
    listen, connect = _both(value, bind)
    there, here = (listen.host, listen.port), (connect.host, connect.port)
    if listen.path and connect.path:
        await connection.forward_remote_path(listen.path, connect.path)
    elif listen.path:
        await connection.forward_remote_path_to_port(listen.path, *here)
    elif connect.path:
        await connection.forward_remote_port_to_path(*there, connect.path)
    else:
        await connection.forward_remote_port(*there, *here)


async def _dynamic(connection: Any, value: str, bind: str) -> None:
    listen = ForwardEnd(value, bind)
    await connection.forward_socks(listen.host, listen.port)


def _both(value: str, bind: str) -> tuple[ForwardEnd, ForwardEnd]:
    words = value.split()
    if len(words) != 2:
        raise UsageError(f"Bad forwarding specification '{value}'")
    listen = ForwardEnd(words[0], bind)
    listen.host = "" if listen.host in _ANYWHERE else listen.host
    return listen, ForwardEnd(words[1], "localhost")


def _port(text: str) -> int:
    return 0 if text == "0" else port(text)


def _failed(name: str, value: str, error: Exception, target: ClientConfiguration, show: Callable[[str], None]) -> None:
    what = {"LocalForward": "local", "RemoteForward": "remote", "DynamicForward": "dynamic"}[name]
    message = f"Could not request {what} forwarding {value}: {error}"
    if target.get("ExitOnForwardFailure"):
        raise SshFailed(message) from error
    show(f"Warning: {message}")
