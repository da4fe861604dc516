"""Connecting to one destination."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import asyncssh

from kedge.runtime.ssh import messages
from kedge.runtime.ssh.configuration import ClientConfiguration

# The fastest cipher of those that every server has, and the one whose code runs outside of Python's lock.
_CIPHERS = "aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com,aes128-ctr,aes256-ctr"
_RETRY_SEC = 1.0


async def connect(target: ClientConfiguration, files: Sequence[str]) -> Any:
    """An asyncssh connection. SshFailed explains why there is none, after as many tries as ConnectionAttempts."""
    # Options that were read are not read again, except by the hosts that ProxyJump leads over.
    more: dict[str, Any] = {"config": list(files) if target.options.tunnel else None, "known_hosts": target.known_hosts}
    if target.get("Ciphers") is None:
        more["encryption_algs"] = _CIPHERS
    tries = int(target.get("ConnectionAttempts", 1))
    for number in range(1, tries + 1):
        try:
            return await asyncssh.connect(target.host, options=target.options, **more)
        except (OSError, asyncssh.Error) as error:
            if number == tries or isinstance(error, asyncssh.PermissionDenied | asyncssh.HostKeyNotVerifiable):
                raise messages.of_connecting(error, target, files) from error
        await asyncio.sleep(_RETRY_SEC)
    raise AssertionError("at least one try")
